package proc

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/policy"
)

// lifeline ends a gate whose parent has gone, and leaves nothing of the run:
// the parent can't any more.
func (c *child) lifeline() {
	c.exit(policy.Shutdown)
	if err := c.removeRunDir(); err != nil {
		_, _ = io.WriteString(os.Stderr, "aisb-gate: error: "+err.Error()+"\n")
	}
}

// removeRunDir does what os.RemoveAll does, which wants to read the directory above:
// that has the other runs' in it, and this process no right to look.
func (c *child) removeRunDir() error {
	if c.runDir == "" || !filepath.IsAbs(c.runDir) {
		return nil
	}
	entries, err := os.ReadDir(c.runDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(c.runDir, e.Name())))
	}
	return errors.Join(err, unix.Rmdir(c.runDir))
}
