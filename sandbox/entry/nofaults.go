//go:build !faults

package entry

// spoil does nothing: faults are for the tests' own binary.
func (e *entry) spoil(string) {}
