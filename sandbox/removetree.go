package sandbox

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// deepest is how far down a tree is followed: each level holds a descriptor.
const deepest = 64

// removeTree removes what an agent may have filled: also with directories that even
// their owner can't enter, and with ones so deep in one another that no path leads
// there and there are not descriptors enough on the way (os.RemoveAll takes one for
// each). So first it opens what is shut, and brings up what is deep. It takes each
// directory once, by its descriptor, and follows no link.
func removeTree(path string) error {
	flatten(path)
	return os.RemoveAll(path)
}

// flatten does what it can: what it can't do shows when the tree is to be removed.
func flatten(path string) {
	top, err := enter(unix.AT_FDCWD, path)
	if err != nil {
		return // no directory, most likely
	}
	defer top.Close()
	f := flattener{top: top}
	f.directory(top, 0)
	for next := 0; next < f.raised; next++ { //nolint:intrange // f.raised grows meanwhile
		if dir, err := enter(int(top.Fd()), raisedName(next)); err == nil {
			f.directory(dir, 0)
			dir.Close()
		}
	}
}

// flattener is one tree that is made flat enough.
type flattener struct {
	top    *os.File
	raised int // directories that were brought up to the top
}

// raisedName is the name of a directory that was brought up. One that has it already is
// replaced when it is empty, and is in the way otherwise.
func raisedName(n int) string { return fmt.Sprintf(".aisb-raised-%d", n) }

// directory looks at all directories in one.
func (f *flattener) directory(dir *os.File, depth int) {
	var names []string // all of them before the first is moved away
	for {
		entries, err := dir.ReadDir(1000)
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
		if err != nil || len(entries) == 0 {
			break
		}
	}
	for _, name := range names {
		sub, err := enter(int(dir.Fd()), name)
		if err != nil {
			continue
		}
		if depth < deepest {
			f.directory(sub, depth+1)
		} else {
			f.raise(dir, name)
		}
		sub.Close()
	}
}

// raise brings a directory up to the top. It has been entered, so it may be moved.
func (f *flattener) raise(dir *os.File, name string) {
	for {
		err := unix.Renameat(int(dir.Fd()), name, int(f.top.Fd()), raisedName(f.raised))
		taken := errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOTDIR) // rename(2)
		if err == nil || taken {
			f.raised++
		}
		if !taken {
			return
		}
	}
}

// enter opens a directory to read it, and gives its owner the right to first.
func enter(parent int, name string) (*os.File, error) {
	fd, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, err
	}
	if st.Mode&0o700 != 0o700 {
		// By /proc, since fchmod(2) takes no descriptor of O_PATH. An error shows next.
		_ = unix.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o700)
	}
	again, err := unix.Openat(fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	// Its name is where ReadDir asks for the types that a file system doesn't tell.
	return os.NewFile(uintptr(again), fmt.Sprintf("/proc/self/fd/%d", again)), nil
}
