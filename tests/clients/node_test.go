package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// nodePath is where tests/clients/setup puts Node, npm and libraries, as the
// beginning of a search path; "" when it hasn't.
func nodePath() string {
	dir := nodeDir()
	found, err := filepath.Glob(filepath.Join(dir, "node_modules", "node-linux-*", "bin"))
	if err != nil || len(found) != 1 {
		return ""
	}
	return found[0] + ":" + filepath.Join(dir, "node_modules", ".bin") + ":"
}

// nodeDir is the complete directory, or "".
func nodeDir() string {
	out, err := exec.Command("./setup", "--where").Output()
	if err != nil {
		return ""
	}
	dir := strings.TrimSpace(string(out))
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		return ""
	}
	return dir
}
