//go:build linux && faults

package attack

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// faultsDir is where the tests leave what is to go wrong (package entry). The
// shipped binary knows nothing of it: this file is built with the tag faults
// alone.
const faultsDir = ".aisb-faults"

// weaken takes the faults of the current directory into the project.
func (c *Canaries) weaken() error {
	err := os.CopyFS(filepath.Join(c.Project(), faultsDir), os.DirFS(faultsDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no faults
	}
	if err != nil {
		return err
	}
	// Root of the container reads them: another user, without rights over files.
	return os.Chmod(filepath.Join(c.Project(), faultsDir), 0o755)
}

// spoil replaces the session's rules by those of a file of the tests', which are
// too wide. ALLOWED and LOOP stand for what only this run knows.
func (c *Canaries) spoil(rules []string) []string {
	text, err := os.ReadFile(filepath.Join(c.Project(), faultsDir, "allow"))
	if err != nil {
		return rules
	}
	return strings.Fields(strings.NewReplacer("ALLOWED", c.Plan.Allowed, "LOOP", strconv.Itoa(c.Plan.LoopPort)).Replace(string(text)))
}
