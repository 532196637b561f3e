//go:build e2e

package e2e

import (
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
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
		all, locked, err := fakes.LockedThreads(pid)
		if err != nil || want && locked != all || !want && locked != 0 {
			t.Errorf("%s: %d of %d threads are locked up, %v", name, locked, all, err)
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
