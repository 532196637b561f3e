package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/control"
)

// What is kept, and for how long.
const (
	keptRuns    = 100                // the newest, with their logs
	keptCopies  = 7 * 24 * time.Hour // of a binary: it is made again when it is needed
	keptHalves  = 24 * time.Hour     // what a call that was killed has left
	pruneEvery  = 24 * time.Hour
	pruneAtOnce = 1000 // it must not hold up the end of a run
)

// Prune removes what earlier runs have left and nobody needs. The command runs
// meanwhile, so it costs no time of the start.
func (s *Session) Prune(now time.Time) error {
	return errors.Join(s.host.Paths.pruneDead(now), s.host.Paths.prune(now, s.binary))
}

// pruneDead removes the control sockets of runs whose aisb was killed. With a gate
// there are none: it removes the run's directory itself.
func (p Paths) pruneDead(now time.Time) error {
	dead, err := control.DeadOnes(p.Runtime)
	errs := []error{err}
	for _, name := range dead {
		// A run that is about to listen holds its directory of state already. That
		// may be elsewhere, so what is new is left alone too.
		dir := filepath.Join(p.Runtime, name)
		info, err := os.Stat(dir)
		if err != nil || now.Sub(info.ModTime()) < time.Minute {
			continue
		}
		held, err := hold(filepath.Join(p.State, "runs", name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		errs = append(errs, os.RemoveAll(dir))
		if held != nil {
			held.Close()
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// prune removes logs beyond the newest, old copies of binaries but the one in
// use, and what was cut off half way. It does so once a day, and otherwise costs
// one look at a file.
func (p Paths) prune(now time.Time, inUse string) error {
	stamp := filepath.Join(p.State, "pruned")
	if info, err := os.Stat(stamp); err == nil && now.Sub(info.ModTime()) < pruneEvery && !info.ModTime().After(now) {
		return nil
	}
	// First, so that of two runs one does it, and a failure is not met each time.
	err := os.WriteFile(stamp, nil, 0o600)
	if err == nil {
		err = os.Chtimes(stamp, now, now)
	}
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	old := func(age time.Duration) func(fs.FileInfo) bool {
		return func(i fs.FileInfo) bool { return now.Sub(i.ModTime()) > age }
	}
	runs, err := list(filepath.Join(p.State, "runs"), "", func(fs.FileInfo) bool { return true })
	errs := []error{err}
	runs = runs[:max(0, len(runs)-keptRuns)]
	for _, l := range []struct {
		dir, prefix string
		drop        func(fs.FileInfo) bool
	}{
		{filepath.Join(p.State, "scratch"), "", old(time.Hour)},
		{p.Cache, "entry-", func(i fs.FileInfo) bool { return i.Name() != filepath.Base(inUse) && old(keptCopies)(i) }},
		{p.Cache, ".entry-", old(keptHalves)},
		{p.Runtime, "podman-", func(i fs.FileInfo) bool { return strings.Contains(i.Name(), ".new-") && old(keptHalves)(i) }},
	} {
		more, err := list(l.dir, l.prefix, l.drop)
		runs, errs = append(runs, more...), append(errs, err)
	}
	for _, path := range runs[:min(len(runs), pruneAtOnce)] {
		errs = append(errs, removeUnused(path))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}

// list returns the paths in dir that have the prefix and pass, oldest first.
func list(dir, prefix string, pass func(fs.FileInfo) bool) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []fs.FileInfo
	for _, e := range entries {
		// An entry that is gone by now is another's to remove.
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), prefix) && pass(info) {
			found = append(found, info)
		}
	}
	slices.SortFunc(found, func(a, b fs.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	var paths []string
	for _, info := range found {
		paths = append(paths, filepath.Join(dir, info.Name()))
	}
	return paths, nil
}

// removeUnused removes path unless a living aisb holds it.
func removeUnused(path string) error {
	f, err := hold(path)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK), errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	return removeTree(path)
}

// hold locks a file or directory until the result is closed, or this process
// ends. EWOULDBLOCK means that another holds it.
func hold(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, &fs.PathError{Op: "lock", Path: path, Err: err}
	}
	return f, nil
}

// Scratch is a directory of one run that the agent may fill. Make it only when
// it is needed; nil stands for none.
type Scratch struct {
	Path string
	lock *os.File
}

// ScratchPath is where the scratch directory of a run lies, if it has one: not
// in the runtime directory, whose file system is small.
func (p Paths) ScratchPath(run string) string { return filepath.Join(p.State, "scratch", run) }

// HoldScratch keeps the scratch directory of a run from being removed, and
// returns nil if the run has none.
func (p Paths) HoldScratch(run string) (*Scratch, error) {
	path := p.ScratchPath(run)
	f, err := hold(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("hold the scratch directory: %w", err)
	}
	return &Scratch{Path: path, lock: f}, nil
}

// Remove removes the directory when the run has ended.
func (s *Scratch) Remove() error {
	if s == nil {
		return nil
	}
	defer s.lock.Close()
	if err := removeTree(s.Path); err != nil {
		return fmt.Errorf("remove the scratch directory: %w", err)
	}
	return nil
}
