//go:build faults

package sandbox

import "os"

// blinded makes the watchdog overlook the fence, so that the tests can see what
// a sandbox without one lets out. It asks for a file of the tests' in the current
// directory; the shipped binary is built without it.
func blinded() bool {
	_, err := os.Stat(".aisb-faults/blind")
	return err == nil
}
