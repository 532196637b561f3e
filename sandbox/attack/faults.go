//go:build linux && faults

package attack

import (
	"os"
	"path/filepath"
)

// faultsDir is where the tests leave what is to go wrong (package entry). The
// shipped binary knows nothing of it: this file is built with the tag faults
// alone.
const faultsDir = ".aisb-faults"

// weaken takes the faults of the current directory into the project.
func (c *Canaries) weaken() error {
	if _, err := os.Stat(faultsDir); err != nil {
		return nil
	}
	if err := os.CopyFS(filepath.Join(c.Project(), faultsDir), os.DirFS(faultsDir)); err != nil {
		return err
	}
	// Root of the container reads them: another user, without rights over files.
	return os.Chmod(filepath.Join(c.Project(), faultsDir), 0o755)
}
