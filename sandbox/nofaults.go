//go:build !faults

package sandbox

// blinded is false: faults are for the tests' own binary.
func blinded() bool { return false }

// pause never does: as above.
func pause(string) {}

// hurried changes nothing: as above.
func hurried(n NoGate) NoGate { return n }
