//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestGateIsLockedUp: the gate of a run is locked up on all its threads while it serves,
// says by what, and serves its run alone as ever. aisb, which starts it, is not: so
// the look sees a difference.
func TestGateIsLockedUp(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, allowed, sh(`curl -sS http://allowed.test/ && echo ready; read x; curl -sS http://allowed.test/again`)...)
	l.waitOut("ready\n")
	for name, want := range map[string]bool{"gate": true, "aisb": false} {
		pid := l.cmd.Process.Pid
		if name == "gate" {
			pid = l.gate()
		}
		all, locked := lockedThreads(t, pid)
		if want && locked != all || !want && locked != 0 {
			t.Errorf("%s: %d of %d threads are locked up", name, locked, all)
		}
	}
	l.say("")
	l.waitOut("origin GET allowed.test /again")
	o := l.wait(runTimeout)
	o.wantStatus(t, 0)
	wantNot(t, "receipt", o.stderr, "outside this sandbox")
	log := call{dir: agent.home}.do(t, "logs", "--json")
	wantIn(t, "log", log.stdout, fmt.Sprintf(`"confined":"landlock-%d seccomp"`, landlockVersion(t)))
	doctor := call{dir: agent.home}.do(t, "doctor")
	wantIn(t, "doctor", doctor.stdout, fmt.Sprintf("version %d: the gate can open nothing", landlockVersion(t)))
	gone()
}

// landlockVersion asks the kernel, as landlock_create_ruleset(2) says.
func landlockVersion(t *testing.T) int {
	t.Helper()
	n, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		t.Fatalf("this kernel has no Landlock, which the lab's has: %v", errno)
	}
	return int(n)
}

// lockedThreads counts a process's threads, and those with no_new_privs and a filter.
func lockedThreads(t *testing.T, pid int) (all, locked int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			t.Fatal(err)
		}
		all++
		if strings.Contains(string(text), "\nNoNewPrivs:\t1\n") && strings.Contains(string(text), "\nSeccomp:\t2\n") {
			locked++
		}
	}
	return all, locked
}
