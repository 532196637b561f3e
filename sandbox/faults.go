//go:build faults

package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// blinded makes the watchdog overlook the fence, so that the tests can see what
// a sandbox without one lets out. It asks for a file of the tests' in the current
// directory; the shipped binary is built without it.
func blinded() bool {
	_, err := os.Stat(filepath.Join(faultsDir, "blind"))
	return err == nil
}

// faultsDir is where the tests leave what is to go wrong.
const faultsDir = ".aisb-faults"

// pause stands still at the end of a part of a run, or before a kill, for as long as a file
// of the tests' names it, and says by another file that it does: they end somebody meanwhile.
func pause(part string) {
	held := filepath.Join(faultsDir, "part-"+part)
	if _, err := os.Stat(held); err != nil {
		return
	}
	if err := os.WriteFile(filepath.Join(faultsDir, "here"), nil, 0o644); err != nil {
		panic(err) // a test whose fault doesn't happen must not pass
	}
	for {
		if _, err := os.Stat(held); err != nil {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// hurried makes the times of a sandbox without a gate short, if a file of the tests'
// says so: how often names are looked up and how long their addresses stay, in
// milliseconds.
func hurried(n NoGate) NoGate {
	text, err := os.ReadFile(filepath.Join(faultsDir, "hurry"))
	var refresh, linger int
	if err != nil {
		return n
	}
	if _, err := fmt.Sscan(string(text), &refresh, &linger); err != nil {
		return n
	}
	n.Refresh, n.Linger = time.Duration(refresh)*time.Millisecond, time.Duration(linger)*time.Millisecond
	return n
}
