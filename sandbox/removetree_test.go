package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// TestRemoveTree: nothing that an agent leaves is there for good: directories in one
// another of which the innermost is shut, names like those that this gives, links.
func TestRemoveTree(t *testing.T) {
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: min(1024, old.Cur), Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	outside := t.TempDir()
	t.Cleanup(func() { _ = os.Chmod(outside, 0o700) }) // or it can't be removed
	put(t, outside+"/file", time.Now())
	top := filepath.Join(t.TempDir(), "tree")
	put(t, top+"/shut/file", time.Now())
	put(t, top+"/"+raisedName(0)+"/file", time.Now())
	put(t, top+"/"+raisedName(1), time.Now())
	put(t, top+"/"+raisedName(2)+"/", time.Now())
	for name, to := range map[string]string{"link": outside, "loop": "loop", raisedName(4): outside} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(top+"/shut", 0), os.Chmod(outside, 0o500), fakes.Deepen(top, 3000, 0)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := fakes.Shallow(top); err != nil {
			t.Error(err)
		}
	})
	if err := removeTree(top); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(top); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("left: %v", err)
	}
	if info, err := os.Stat(outside); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("outside: %v, %v", info, err)
	}
	if _, err := os.Stat(outside + "/file"); err != nil {
		t.Errorf("outside: %v", err)
	}
	for path, lay := range map[string]func(string) error{
		"file": func(p string) error { return os.WriteFile(p, nil, 0) }, "link": func(p string) error { return os.Symlink(outside, p) },
		"none": func(string) error { return nil },
	} {
		path = filepath.Join(filepath.Dir(top), path)
		if err := errors.Join(lay(path), removeTree(path)); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
