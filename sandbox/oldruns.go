package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// OldRun is what an ended run has left in the state directory: its log and how its
// fence was proved.
type OldRun struct {
	Name string
	Size int64
	Used time.Time

	path string
}

// OldRuns are the runs that have ended and written nothing since before, the oldest
// first. state is Paths.State.
func OldRuns(state string, before time.Time) ([]OldRun, error) {
	paths, err := list(filepath.Join(state, "runs"), "", fs.FileInfo.IsDir)
	if err != nil {
		return nil, fmt.Errorf("list old runs: %w", err)
	}
	var old []OldRun
	for _, path := range paths {
		r := OldRun{Name: filepath.Base(path), path: path}
		if err := r.look(); err != nil || r.Used.After(before) {
			continue // another removes it just now
		}
		held, err := hold(path)
		if err != nil {
			continue // it runs
		}
		held.Close()
		old = append(old, r)
	}
	return old, nil
}

// look adds the files up: a log is written to after its directory was made.
func (r *OldRun) look() error {
	entries, err := os.ReadDir(r.path)
	if err != nil {
		return err
	}
	info, err := os.Lstat(r.path)
	if err != nil {
		return err
	}
	r.Used = info.ModTime()
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			r.Size += info.Size()
			if info.ModTime().After(r.Used) {
				r.Used = info.ModTime()
			}
		}
	}
	return nil
}

// Remove removes it, unless a run of that name has begun meanwhile.
func (r OldRun) Remove() error { return removeUnused(r.path) }

// setAside gives an ended run's directory another name, by the time of its end, so
// that a run may have its name again.
func setAside(path string) error {
	held, err := hold(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer held.Close()
	r := OldRun{path: path}
	if err := r.look(); err != nil {
		return err
	}
	for n := range 100 {
		aside := path + "." + r.Used.UTC().Format("20060102-150405")
		if n > 0 {
			aside += fmt.Sprintf("-%d", n)
		}
		// RENAME_NOREPLACE, since an empty directory would be replaced (rename(2)).
		err = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, aside, unix.RENAME_NOREPLACE)
		if !errors.Is(err, unix.EEXIST) {
			return err
		}
	}
	return err
}

// deadGrace is how long the gate of a killed run may take to remove its directory.
const deadGrace = 2 * time.Second

// clearDead sees to it that nothing of a killed run is where a run of the same name
// will listen. Its claim is held, so that no other run has that name.
func clearDead(dir string) error {
	for end := time.Now().Add(deadGrace); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	return os.RemoveAll(dir)
}
