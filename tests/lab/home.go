//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// storage is podman's, below the home.
const storage = ".local/share/containers/storage"

func (l *lab) settled() string { return filepath.Join(l.dir, "home.settled") }

// lendHome gives an entry the user's home: the lasting one for it alone, or a
// copy. podman takes a runtime directory without its marks for a reboot and
// resets every container's state, so two entries can't share one storage.
func (l *lab) lendHome(e *entry, scratch bool) (func(), error) {
	if scratch {
		return func() {}, l.copyForScratch(e)
	}
	release, err := lock(filepath.Join(l.dir, "home.lock"), unix.LOCK_EX,
		"another entry of the lab (with --scratch there is no need to)")
	if err != nil {
		return nil, err
	}
	return func() {
		defer release()
		if err := l.settle(); err != nil {
			say("warning: keep a copy of the home: %v", err)
		}
	}, nil
}

// copyForScratch copies the home as it was when the last entry that had it
// ended; whoever has it now may be in the middle of a change.
func (l *lab) copyForScratch(e *entry) error {
	release, err := lock(filepath.Join(l.dir, "settled.lock"), unix.LOCK_SH, "a copy of the home")
	if err != nil {
		return err
	}
	defer release()
	return copyHome(l.settled(), e.dir+"/home", storage+"/overlay")
}

// settle makes the copy that copyForScratch takes, when images have changed.
func (l *lab) settle() error {
	if exists(l.settled()) && imagesState(l.home()) == imagesState(l.settled()) {
		return nil
	}
	release, err := lock(filepath.Join(l.dir, "settled.lock"), unix.LOCK_EX, "copies of the home")
	if err != nil {
		return err
	}
	defer release()
	part := l.settled() + ".partial"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := copyHome(l.home(), part, storage+"/overlay"); err != nil {
		return err
	}
	if err := os.RemoveAll(l.settled()); err != nil {
		return err
	}
	return os.Rename(part, l.settled())
}

// imagesState changes with each change of the images in a home; a copy's is the
// same.
func imagesState(home string) string {
	var state strings.Builder
	for _, name := range []string{"overlay-images/images.json", "overlay-layers/layers.json"} {
		info, err := os.Stat(filepath.Join(home, storage, name))
		if err == nil {
			fmt.Fprintf(&state, "%s %d %s\n", name, info.Size(), info.ModTime())
		}
	}
	return state.String()
}

// copyHome copies a tree as it is; the one at linked (relative to from) by hard
// links: the layers of images are never written in place.
func copyHome(from, to, linked string) error {
	first, rest, _ := strings.Cut(linked, "/")
	if first == "" {
		return tool("cp", "-al", from, to)
	}
	if !exists(filepath.Join(from, first)) {
		return tool("cp", "-a", from, to)
	}
	var st unix.Stat_t
	if err := unix.Lstat(from, &st); err != nil {
		return err
	}
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	if err := errors.Join(os.Chown(to, int(st.Uid), int(st.Gid)), os.Chmod(to, os.FileMode(st.Mode&0o777))); err != nil {
		return err
	}
	names, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, n := range names {
		a, b := filepath.Join(from, n.Name()), filepath.Join(to, n.Name())
		if n.Name() == first {
			err = copyHome(a, b, rest)
		} else {
			err = tool("cp", "-a", a, b)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
