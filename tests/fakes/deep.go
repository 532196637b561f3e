package fakes

import (
	"errors"
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// deepName is the name of each directory that Deepen makes.
const deepName = "d"

// Deepen makes n directories in one another below dir, deeper than any path leads, as an
// agent can. The innermost one has the permissions mode.
func Deepen(dir string, n int, mode uint32) error {
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	for i := 0; i < n && err == nil; i++ {
		var next int
		if err = unix.Mkdirat(at, deepName, 0o700); err == nil {
			next, err = unix.Openat(at, deepName, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		}
		if err == nil && i == n-1 {
			err = unix.Fchmodat(at, deepName, mode, 0)
		}
		unix.Close(at)
		at = next
	}
	if err != nil {
		return fmt.Errorf("make directories in one another: %w", err)
	}
	return unix.Close(at)
}

// Shallow removes what Deepen has made, if it is still there, which is more than others
// can do: the library has a descriptor open for each.
func Shallow(dir string) error {
	first, aside := filepath.Join(dir, deepName), filepath.Join(dir, deepName+"-aside")
	for {
		err := unix.Chmod(first, 0o700)
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		if err == nil {
			err = unix.Rename(filepath.Join(first, deepName), aside)
		}
		if errors.Is(err, unix.ENOENT) {
			return unix.Rmdir(first)
		}
		if err == nil {
			err = errors.Join(unix.Rmdir(first), unix.Rename(aside, first))
		}
		if err != nil {
			return fmt.Errorf("remove directories in one another: %w", err)
		}
	}
}
