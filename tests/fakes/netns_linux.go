package fakes

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// OnThread runs f on a thread of its own, which ends with it. It is never the
// first one of the process: that one can't end before the process does, so it would
// stay where f has brought it, and what /proc/self and /proc/net show is where the
// first thread is.
func OnThread(f func()) {
	ran := make(chan struct{})
	go func() {
		defer close(ran)
		runtime.LockOSThread() // never unlocked, so the thread ends, unless it is the first
		if unix.Gettid() == unix.Getpid() {
			OnThread(f) // not here again: this goroutine holds the first thread
			runtime.UnlockOSThread()
			return
		}
		f()
	}()
	<-ran
}

// Netns is a network namespace of this process with mounts of its own. It is
// held by one thread; what Do runs, runs there. A listener that is opened there
// stays there, whichever thread accepts.
type Netns struct {
	tid  int
	jobs chan func()
	once sync.Once
	done sync.WaitGroup
}

// NewNetns makes a namespace in which only loopback is up. It needs root.
func NewNetns() (*Netns, error) {
	n := &Netns{jobs: make(chan func())}
	made := make(chan error)
	n.done.Go(func() {
		OnThread(func() { // nothing else ever runs in its namespaces
			err := n.enter()
			made <- err
			if err != nil {
				return
			}
			for job := range n.jobs {
				job()
			}
		})
	})
	if err := <-made; err != nil {
		return nil, fmt.Errorf("make network namespace: %w", err)
	}
	if err := n.IP("link set lo up"); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// enter moves the calling thread. CLONE_NEWNS implies CLONE_FS (unshare(2)), so
// the other threads keep their mounts, root and directory.
func (n *Netns) enter() error {
	n.tid = unix.Gettid()
	if err := unix.Unshare(unix.CLONE_NEWNET | unix.CLONE_NEWNS); err != nil {
		return err
	}
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
}

// Do runs f in the namespace, one call at a time.
func (n *Netns) Do(f func() error) error {
	var err error
	ran := make(chan struct{})
	n.jobs <- func() {
		defer close(ran)
		err = f()
	}
	<-ran
	return err
}

// Start starts a command in the namespace: a child is where the thread is that
// forks.
func (n *Netns) Start(cmd *exec.Cmd) error { return n.Do(cmd.Start) }

// Bind mounts a file or directory over another, for this namespace alone.
func (n *Netns) Bind(from, to string) error {
	return n.Do(func() error {
		if err := unix.Mount(from, to, "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("bind %s to %s: %w", from, to, err)
		}
		return nil
	})
}

// IP runs the ip program in the namespace, once for each list of arguments.
func (n *Netns) IP(commands ...string) error {
	for _, c := range commands {
		var out strings.Builder
		cmd := exec.Command("ip", strings.Fields(c)...)
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := n.Start(cmd); err != nil {
			return fmt.Errorf("ip %s: %w", c, err)
		}
		if err := cmd.Wait(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, strings.TrimSpace(out.String()))
		}
	}
	return nil
}

// Path is the namespace's file.
func (n *Netns) Path() string { return fmt.Sprintf("/proc/%d/task/%d/ns/net", os.Getpid(), n.tid) }

// Join joins two namespaces by a pair of devices with an address, as
// "10.0.0.1/30", at each end.
func (n *Netns) Join(device, addr string, other *Netns, otherDevice, otherAddr string) error {
	if err := n.IP(fmt.Sprintf("link add %s type veth peer name %s netns %s", device, otherDevice, other.Path())); err != nil {
		return err
	}
	for _, end := range []struct {
		n            *Netns
		device, addr string
	}{{n, device, addr}, {other, otherDevice, otherAddr}} {
		if err := end.n.IP("addr add "+end.addr+" dev "+end.device, "link set "+end.device+" up"); err != nil {
			return err
		}
	}
	return nil
}

// Close ends the thread. The namespace ends with the last socket and process in
// it.
func (n *Netns) Close() error {
	n.once.Do(func() { close(n.jobs) })
	n.done.Wait()
	return nil
}
