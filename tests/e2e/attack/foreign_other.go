//go:build linux && !amd64

package main

// foreign is what only the other system call entries of amd64 allow.
func foreign() []attempt { return nil }
