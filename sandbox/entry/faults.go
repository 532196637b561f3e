//go:build faults

package entry

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// faultsDir is where the tests leave what is to go wrong. The shipped binary
// knows nothing of it: this file is built with the tag faults alone.
const faultsDir = "/project/.aisb-faults"

// spoil makes a start go wrong at a point, as the tests ask by a file: a shell
// script of that name is run, with the rights that the entrypoint still has. One
// of the name "told" only makes the proof's key another gate's.
func (e *entry) spoil(point string) {
	path := filepath.Join(faultsDir, point)
	if _, err := os.Stat(path); err != nil {
		return
	}
	if point == "told" && e.cfg.Fence != nil {
		e.cfg.Fence.Proof.Key = []byte("the key of another gate, 32 bytes")
		return
	}
	cmd := exec.Command("/bin/sh", "-ec", ". "+path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		// A test whose fault doesn't happen must not pass.
		panic(fmt.Sprintf("fault %s: %v: %s", point, err, out))
	}
}
