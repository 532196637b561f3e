// Package ground lays out where proxies are measured: a network namespace for
// proxy and clients, and behind it another one in which an origin answers at an
// address that every proxy takes for a public one.
package ground

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Names of the roles in which the program is started again.
const (
	insideName = "ground-inside"
	originName = "ground-origin"
)

// The origin, as clients call it and where it is.
const (
	Host    = "origin.allowed.test"
	Address = "198.20.0.10"
)

// DNS is the name server that knows Host.
const DNS = "127.0.0.1:53"

// Enter starts this program again in a network namespace of its own, with the
// same arguments, and returns its status; inside it returns ok. Call it first in
// main, from the main goroutine: what is started here dies with its thread.
func Enter() (status int, ok bool) {
	runtime.LockOSThread()
	switch os.Args[0] {
	case originName:
		if err := serveOrigin(); err != nil {
			fmt.Fprintln(os.Stderr, "origin:", err)
			return 1, false
		}
		return 0, false
	case insideName:
		return 0, true
	}
	if os.Getuid() != 0 {
		fmt.Fprintln(os.Stderr, "left out: the namespace of the origin needs root")
		return 0, false
	}
	raiseDescriptors()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = insideName
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	err := Start(cmd, false)
	if err == nil {
		err = cmd.Wait()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, false
	}
	return 0, false
}

// raiseDescriptors lets what is started from here open many files. Where that is
// not allowed, what there is must do: see Most.
func raiseDescriptors() {
	limit := unix.Rlimit{Cur: 200_000, Max: 200_000}
	unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)
}

// Most is how many idle tunnels one proxy can hold under the present limit of
// descriptors, of which it needs two for each.
func Most() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil || limit.Max < 50_000 {
		return 9000
	}
	return 10_000
}

// Start starts a command on the last CPU if it is the proxy, and on the others
// if it is not, so that no proxy gains by the load's idle time and none loses by
// its pressure. With one CPU there is nothing to share out.
func Start(cmd *exec.Cmd, proxy bool) error {
	all, err := cpus()
	if err != nil {
		return err
	}
	var set, before unix.CPUSet
	left := all.Count()
	for cpu := 0; left > 0; cpu++ {
		if !all.IsSet(cpu) {
			continue
		}
		left--
		if all.Count() == 1 || (left == 0) == proxy {
			set.Set(cpu)
		}
	}
	// A child inherits the affinity of the thread that starts it.
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("pin %s: %w", cmd.Path, err)
	}
	return errors.Join(cmd.Start(), unix.SchedSetaffinity(0, &before))
}

// cpus are those that this program was given. The one inside is pinned already.
func cpus() (unix.CPUSet, error) {
	pid := 0
	if os.Args[0] == insideName {
		pid = os.Getppid()
	}
	var all unix.CPUSet
	err := unix.SchedGetaffinity(pid, &all)
	return all, err
}
