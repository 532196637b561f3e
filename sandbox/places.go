package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// Place is a file or directory of aisb's own on the host: all that it keeps outside of
// podman's store.
type Place struct {
	Kind PlaceKind
	Path string
}

// PlaceKind is what lies in a place.
type PlaceKind string

// The kinds of places.
const (
	PlaceRuns       PlaceKind = "runs"       // logs, records and output of runs
	PlaceApprovals  PlaceKind = "approvals"  // which content of a .aisb.toml the user has approved
	PlaceQuarantine PlaceKind = "quarantine" // what was moved out of projects
	PlaceHomes      PlaceKind = "homes"      // where podman keeps the homes, and their last use
	PlaceImages     PlaceKind = "images"     // which images were built, and their last use
	PlaceCache      PlaceKind = "cache"      // what can be made again
	PlaceRuntime    PlaceKind = "run-time"   // sockets, locks and podman's configuration, in memory
)

// Places are all of them, there or not. That of run-time files is the last: podman is
// called with what lies there.
func (p Paths) Places() []Place {
	return []Place{
		{PlaceRuns, filepath.Join(p.State, "runs")},
		{PlaceApprovals, filepath.Join(p.State, "trust")},
		{PlaceQuarantine, filepath.Join(p.State, "quarantine")},
		{PlaceHomes, filepath.Join(p.State, "homes")},
		{PlaceImages, filepath.Join(p.State, "images")},
		{PlaceCache, filepath.Join(p.State, "scratch")},
		{PlaceCache, filepath.Join(p.State, "pruned")},
		{PlaceCache, p.Cache},
		{PlaceRuntime, p.Runtime},
	}
}

// Remove removes what lies there, and the directory of aisb's around it when nothing
// else is in that. A link in its place stays: the user has made it.
func (p Place) Remove(paths Paths) error {
	remove := removeTree
	if p.Kind == PlaceRuntime {
		remove = removeAside
	}
	if _, link := p.Link(); link {
		return nil
	}
	if err := remove(p.Path); err != nil {
		return err
	}
	if parent := filepath.Dir(p.Path); parent == paths.State {
		_ = unix.Rmdir(parent) // one that isn't empty stays, and so does a link, which os.Remove would take
	}
	return nil
}

// Link is where the place is instead, if there is a link.
func (p Place) Link() (to string, link bool) {
	to, err := os.Readlink(p.Path)
	return to, err == nil
}

// removeAside removes a directory that others may make anew meanwhile, and keep locks
// in: it goes at once or not at all, so that nothing of the new one is removed.
func removeAside(path string) error {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	aside, err := os.MkdirTemp(filepath.Dir(path), "aisb-removed-")
	if err != nil {
		return removeTree(path) // no room, most likely
	}
	if err := os.Rename(path, filepath.Join(aside, "aisb")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(err, os.Remove(aside))
	}
	return removeTree(aside)
}

// RemoveRuntime removes the directory of run-time files unless a run has not ended.
func (p Paths) RemoveRuntime(ctx context.Context) error {
	release, running, err := p.Quiet(ctx)
	if err != nil {
		return err
	}
	defer release()
	if len(running) > 0 {
		return nil
	}
	return removeAside(p.Runtime)
}

// Strange are the names in the state directory that this aisb doesn't know: another
// version has made them, or the user.
func (p Paths) Strange() ([]string, error) {
	entries, err := os.ReadDir(p.State)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var list []string
	for _, e := range entries {
		path := filepath.Join(p.State, e.Name())
		if !slices.ContainsFunc(p.Places(), func(known Place) bool { return known.Path == path }) {
			list = append(list, path)
		}
	}
	return list, nil
}

// Running names the runs that have not ended, see Quiet.
func (p Paths) Running(ctx context.Context) ([]string, error) {
	release, running, err := p.Quiet(ctx)
	if err == nil {
		release()
	}
	return running, err
}

// Quiet keeps runs from beginning until release is called, and names those that have not
// ended: also of another login, and those that only start or clean up.
func (p Paths) Quiet(ctx context.Context) (release func(), running []string, err error) {
	dir := filepath.Join(p.Runtime, claimsDir)
	lock, err := holdClaims(ctx, dir)
	if err != nil {
		return nil, nil, fmt.Errorf("look what runs: %w", err)
	}
	claims, err := living(dir)
	if err != nil {
		lock.Close()
		return nil, nil, fmt.Errorf("look what runs: %w", err)
	}
	for _, c := range claims {
		running = append(running, c.Run)
	}
	dirs, err := list(filepath.Join(p.State, "runs"), "", fs.FileInfo.IsDir)
	if err != nil {
		lock.Close()
		return nil, nil, fmt.Errorf("look what runs: %w", err)
	}
	for _, path := range dirs {
		held, err := hold(path)
		if errors.Is(err, unix.EWOULDBLOCK) {
			running = append(running, filepath.Base(path))
		}
		if held != nil {
			held.Close()
		}
	}
	slices.Sort(running)
	return func() { lock.Close() }, slices.Compact(running), nil
}
