//go:build linux && !amd64

package attack

// foreign is what only the other system call entries of amd64 allow.
func foreign() []Attack { return nil }
