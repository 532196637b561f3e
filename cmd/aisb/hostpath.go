package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// hostPath is PATH without what the sandbox can write to: virtual environments
// and direnv put directories of the project there, and a podman or newuidmap
// that an agent left in one would run on the host, outside of any sandbox.
func hostPath(path string, writable []mounts.Mount) string {
	var kept []string
	for _, dir := range filepath.SplitList(path) {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || !filepath.IsAbs(dir) {
			continue // nothing lies there, or it depends on the directory
		}
		if !inside(real, writable) && !inside(filepath.Clean(dir), writable) && !leadsInside(real, writable) {
			kept = append(kept, dir)
		}
	}
	return strings.Join(kept, string(filepath.ListSeparator))
}

// hostTemp is TMPDIR, or "" for the default: where the sandbox can write, it
// could change what an image is just being built of.
func hostTemp(dir string, writable []mounts.Mount) string {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) || inside(real, writable) {
		return ""
	}
	return dir
}

// checkStorageConf refuses a storage.conf (containers-storage.conf(5)) that the
// sandbox can write to: it names programs that podman runs on the host.
func checkStorageConf(name string, writable []mounts.Mount) error {
	if name == "" {
		return nil
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(path)
	if err == nil && !inside(real, writable) || err != nil && !inside(path, writable) {
		return nil
	}
	return &exitError{code: exitPodman, err: fmt.Errorf("CONTAINERS_STORAGE_CONF is %q, where the sandbox can write", name),
		hint: "move the file out of the project: podman runs on the host what it names"}
}

// podmans are podman and what it looks for in PATH.
var podmans = []string{
	"podman", "conmon", "crun", "runc", "pasta", "pasta.avx2", "newuidmap", "newgidmap", "netavark", "aardvark-dns", "fuse-overlayfs", "slirp4netns",
}

// leadsInside reports whether a program of podman's in dir is one that the sandbox can
// write to: ~/.local/bin may hold links into a project, and a single file of it may be
// mounted. No link is on the way to dir, so only a name that is one is followed, which
// takes a system call for each part of its path.
func leadsInside(dir string, writable []mounts.Mount) bool {
	for _, name := range podmans {
		path := filepath.Join(dir, name)
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSymlink != 0 {
			path, err = filepath.EvalSymlinks(path)
		}
		if err == nil && inside(path, writable) {
			return true
		}
	}
	return false
}

func inside(dir string, writable []mounts.Mount) bool {
	for _, m := range writable {
		if !m.ReadOnly && (dir == m.Source || strings.HasPrefix(dir, strings.TrimSuffix(m.Source, "/")+"/")) {
			return true
		}
	}
	return false
}

// maybeProject is the current directory for a command that runs no sandbox
// itself: one may have written there. Not the home directory and what it lies
// in, since run refuses those, and a user's own programs may be there.
func maybeProject(getwd func() (string, error), home string) []mounts.Mount {
	dir, err := getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return nil // relative entries of PATH are never followed
	}
	here := []mounts.Mount{{Source: dir}}
	if real, err := filepath.EvalSymlinks(home); err != nil || inside(real, here) {
		return nil
	}
	return here
}
