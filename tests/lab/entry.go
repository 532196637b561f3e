//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// cgroupLeaf is where the processes of an entry start. Its parent is the user's,
// so that podman can make siblings; a cgroup with processes of its own could not
// hand controllers on (cgroups(7), "no internal processes").
const cgroupLeaf = "me"

// entry is what one run has on the host: a directory with the overlay's upper
// layer, and a cgroup. The lock tells a running entry's from a dead one's.
type entry struct {
	dir    string
	lock   *os.File
	cgroup string // root of a cgroup2 mount that only this process has
	mount  *os.File
}

func (l *lab) newEntry() (*entry, error) {
	mount, err := cgroup2()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(l.entries(), "aisb-lab-")
	if err != nil {
		return nil, err
	}
	e := &entry{dir: dir, mount: mount, cgroup: fmt.Sprintf("/proc/self/fd/%d", mount.Fd())}
	if e.lock, err = os.OpenFile(dir+"/lock", os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if err := unix.Flock(int(e.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, err
	}
	for _, sub := range []string{"upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			return nil, err
		}
	}
	return e, e.makeCgroup()
}

// cgroup2 mounts the unified hierarchy for this process alone: a machine with
// the hybrid layout has it elsewhere than others, or nowhere.
func cgroup2() (*os.File, error) {
	fs, err := unix.Fsopen("cgroup2", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open cgroup2: %w", err)
	}
	defer unix.Close(fs)
	if err := unix.FsconfigCreate(fs); err != nil {
		return nil, fmt.Errorf("create cgroup2: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("mount cgroup2: %w", err)
	}
	return os.NewFile(uintptr(fd), "cgroup2"), nil
}

func (e *entry) cgroupName() string { return filepath.Base(e.dir) }
func (e *entry) cgroupDir() string  { return filepath.Join(e.cgroup, e.cgroupName()) }

// makeCgroup makes the entry's cgroup, delegated as cgroups(7) says.
func (e *entry) makeCgroup() error {
	leaf := filepath.Join(e.cgroupDir(), cgroupLeaf)
	if err := os.MkdirAll(leaf, 0o755); err != nil {
		return err
	}
	for _, controller := range []string{"+cpu", "+memory", "+pids"} {
		// Best effort: where version 1 has a controller it is not to be had.
		_ = os.WriteFile(e.cgroupDir()+"/cgroup.subtree_control", []byte(controller), 0)
	}
	for _, dir := range []string{e.cgroupDir(), leaf} {
		for _, name := range []string{"", "/cgroup.procs", "/cgroup.threads", "/cgroup.subtree_control"} {
			if err := os.Chown(dir+name, userID, userID); err != nil {
				return err
			}
		}
	}
	return nil
}

// complete adds the entry's own places to the order.
func (e *entry) complete(l *lab, ord *order) {
	ord.Root = e.dir + "/merged"
	ord.Overlay = fmt.Sprintf("lowerdir=%s,upperdir=%s/upper,workdir=%s/work", l.root(), e.dir, e.dir)
	ord.Cgroup = e.cgroupName()
}

// remove takes away what the entry has on the host. Its processes are gone: the
// kernel ended them with the PID namespace's first (pid_namespaces(7)).
func (e *entry) remove() {
	err := errors.Join(removeCgroup(e.cgroupDir()), os.RemoveAll(e.dir))
	if err != nil {
		say("warning: clean-up: %v", err)
	}
	e.lock.Close()
	e.mount.Close()
}

// removeCgroup removes a tree of cgroups, deepest first.
func removeCgroup(dir string) error {
	children, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, c := range children {
		if c.IsDir() {
			if err := removeCgroup(filepath.Join(dir, c.Name())); err != nil {
				return err
			}
		}
	}
	return syscall.Rmdir(dir)
}

// sweep removes the entries of runs that were killed.
func (l *lab) sweep() error {
	dirs, err := filepath.Glob(l.entries() + "/aisb-lab-*")
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		f, err := os.OpenFile(dir+"/lock", os.O_RDWR, 0)
		if err != nil {
			continue // being made, or being removed
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
			f.Close()
			continue
		}
		mount, err := cgroup2()
		if err != nil {
			f.Close()
			return err
		}
		dead := &entry{dir: dir, lock: f, mount: mount, cgroup: fmt.Sprintf("/proc/self/fd/%d", mount.Fd())}
		dead.remove()
	}
	return nil
}
