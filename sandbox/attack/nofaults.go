//go:build linux && !faults

package attack

// weaken does nothing: faults are for the tests' own binary.
func (c *Canaries) weaken() error { return nil }

// spoil does nothing either.
func (c *Canaries) spoil(rules []string) []string { return rules }
