package snapshot

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// Moved is something that was to be moved aside.
type Moved struct {
	Path string // as shown
	Err  error  // why it is still there
}

// mostDeep bounds how deep a directory is copied.
const mostDeep = 100

// repositoryNames are files that make a directory a repository and tell git what to
// run. They are moved out of one that became one: what else lies in it may have
// been there before, as directories named config and hooks often are. Without HEAD it
// is none, whatever stays.
var repositoryNames = []string{"HEAD", "config", "config.worktree", "commondir"}

// Quarantine moves what is new to a directory of the user's that no sandbox
// writes to. Nothing there is replaced. Call it when nobody inside lives.
func (w *Watch) Quarantine(dir string, changes []protect.Change) []Moved {
	var moved []Moved
	for _, c := range changes {
		if !c.New || slices.ContainsFunc(w.Left, func(left string) bool { return protect.Within(c.Path, left) }) {
			continue
		}
		tree, rel, ok := w.place(c)
		if !ok {
			continue
		}
		m := Moved{Path: c.Path}
		parts := []string{""}
		if c.Rule == w.Set.Bare() {
			parts = slices.DeleteFunc(slices.Clone(repositoryNames), func(name string) bool {
				kind, err := kindAt(tree, path.Join(rel, name))
				return err != nil || kind == protect.Directory
			})
			if len(parts) == 0 {
				m.Err = errors.New("no file in it makes it a repository")
			}
		}
		for _, part := range parts {
			err := move(tree, path.Join(rel, part), filepath.Join(dir, filepath.FromSlash(c.Path), part))
			m.Err = errors.Join(m.Err, err)
		}
		moved = append(moved, m)
	}
	return moved
}

// move moves rel of a tree to a place that doesn't exist yet.
func move(tree *os.File, rel, to string) error {
	parent, err := openDir(int(tree.Fd()), path.Dir(rel))
	if err != nil {
		return fmt.Errorf("open %q: %w", path.Dir(rel), err)
	}
	defer unix.Close(parent)
	name := path.Base(rel)
	var st unix.Stat_t
	if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return fmt.Errorf("look at %q: %w", rel, err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	err = unix.Renameat2(parent, name, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EXDEV) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		if err != nil {
			return fmt.Errorf("move %q: %w", rel, err)
		}
		return nil
	}
	// Another file system, or one that can't promise to replace nothing.
	if err := copyTo(parent, name, to, 0); err != nil {
		return fmt.Errorf("copy %q: %w", rel, err)
	}
	if err := remove(parent, name, 0); err != nil {
		return fmt.Errorf("remove %q: %w", rel, err)
	}
	return nil
}

// copyTo copies what lies at a name. Links are made anew, sockets and FIFOs left out.
func copyTo(parent int, name, to string, depth int) error {
	if depth > mostDeep {
		return errors.New("it is too deep")
	}
	fd, err := open(parent, name, unix.O_PATH|unix.O_NOFOLLOW)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	switch kindOfMode(st.Mode) {
	case protect.File:
		return copyFile(fd, to, os.FileMode(st.Mode&0o700|0o600))
	case protect.Link:
		buf := make([]byte, unix.PathMax)
		n, err := unix.Readlinkat(fd, "", buf)
		if err != nil {
			return err
		}
		return os.Symlink(string(buf[:n]), to)
	case protect.Directory:
		if err := os.Mkdir(to, 0o700); err != nil {
			return err
		}
		return eachName(fd, func(dir int, child string) error {
			return copyTo(dir, child, filepath.Join(to, child), depth+1)
		})
	}
	return nil
}

// copyFile copies a file that was opened by O_PATH.
func copyFile(fd int, to string, mode os.FileMode) error {
	from, err := os.Open(fmt.Sprintf("/proc/self/fd/%d", fd))
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	return errors.Join(err, f.Close())
}

// remove removes what lies at a name.
func remove(parent int, name string, depth int) error {
	if depth > mostDeep {
		return errors.New("it is too deep")
	}
	err := unix.Unlinkat(parent, name, 0)
	if !errors.Is(err, unix.EISDIR) { // unlink(2) of a directory on Linux
		return err
	}
	fd, err := openDir(parent, name)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if err := eachName(fd, func(dir int, child string) error { return remove(dir, child, depth+1) }); err != nil {
		return err
	}
	return unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
}

// eachName calls do for each entry of a directory.
func eachName(fd int, do func(dir int, name string) error) error {
	again, err := openDir(fd, ".")
	if err != nil {
		return err
	}
	dir := os.NewFile(uintptr(again), "directory")
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := do(int(dir.Fd()), name); err != nil {
			return err
		}
	}
	return nil
}
