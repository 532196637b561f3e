package podman

import (
	"os/exec"
	"path/filepath"
)

// helperDirs are where podman looks for its helpers before PATH
// (containers.conf(5), helper_binaries_dir).
var helperDirs = []string{
	"/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman",
}

// Pasta is the path of the pasta(1) that podman would start, "" if there is none.
func Pasta() string {
	for _, dir := range helperDirs {
		if path, err := exec.LookPath(filepath.Join(dir, "pasta")); err == nil {
			return path
		}
	}
	path, err := exec.LookPath("pasta")
	if err != nil {
		return ""
	}
	return path
}
