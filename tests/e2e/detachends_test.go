//go:build e2e

package e2e

import (
	"io"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDetachGivenUp: until the command is about to run, the start is the caller's: its
// signals end it, and its death too.
func TestDetachGivenUp(t *testing.T) {
	gone := wantNothingLeft(t)
	for sig, status := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGHUP: 129, syscall.SIGKILL: -1} {
		dir := faultyProject(t, "before", "sleep 1000")
		l := call{dir: dir, bin: faulty}.start(t, append([]string{"-d"}, allowed...), "true")
		waitUntil(t, runTimeout, "the entrypoint is there", func() bool { return len(find("aisb-entry")) > 0 })
		l.signal(sig)
		o := l.wait(runTimeout)
		o.wantStatus(t, status)
		if sig != syscall.SIGKILL {
			wantIn(t, "error", o.stderr, "aisb: error: interrupted before the command ran")
		}
		gone()
	}
}

// TestDetachKilled: with the supervisor go the container and the gate, and who waits
// hears of it, also afterwards.
func TestDetachKilled(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	name := detached(t, c, allowed, sh("echo begun; while sleep 0.05; do echo tick; done")...)
	l := c.startAny(t, "wait", name)
	a := c.startAny(t, "attach", name)
	a.waitOut("tick\n")
	pid := (&sandbox{c: c}).ps(t)[0].PID
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.wait(runTimeout).wantStatus(t, 137)
	a.wait(runTimeout).wantStatus(t, 137)
	gone()
	o := c.do(t, "wait", name)
	o.wantStatus(t, 137)
	wantIn(t, "error", o.stderr, "the sandbox has ended", "its supervisor was killed")
	wantIn(t, "output", c.do(t, "output", name).stdout, "begun\n")
}

// TestDetachSignals: a hang-up means nothing to a supervisor, the end of the machine
// that of the sandbox.
func TestDetachSignals(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	name := detached(t, c, []string{"--net", "none"}, sh("trap 'echo one' USR1; trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")...)
	said := func(text string) {
		t.Helper()
		waitUntil(t, runTimeout, text, func() bool { return strings.Contains(c.do(t, "output", name).stdout, text) })
	}
	said("ready\n")
	pid := (&sandbox{c: c}).ps(t)[0].PID
	for _, sig := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
		if err := syscall.Kill(pid, sig); err != nil {
			t.Fatal(err)
		}
	}
	said("one\n") // so it has outlived the other
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	o := c.do(t, "wait", name)
	o.wantStatus(t, 5)
	wantIn(t, "report", o.stderr, "aisb: ended after", "with status 5")
	gone()
}

// TestDetachIsWatched: what is looked at while a user is there is looked at without
// one, and told to who asks later.
func TestDetachIsWatched(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	name := detached(t, c, allowed, sh("echo evil >.envrc; curl -s http://evil.test/; echo ready; sleep 1000")...)
	waitUntil(t, runTimeout, "ready", func() bool { return strings.Contains(c.do(t, "output", name).stdout, "ready\n") })
	// Its status is nobody's business: the container may be gone before it has one.
	call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, "exec", name, "/usr/sbin/nft", "add", "rule", "inet", "aisb", "output", "accept")
	o := c.do(t, "wait", name)
	o.wantStatus(t, 78)
	wantIn(t, "report", o.stderr, "aisb: error: the sandbox was stopped: its fence was changed from outside", "aisb: hint: ",
		"warning: new: .envrc (", "refused evil.test:80")
	gone()
}

// TestDetachLetsGo: what the caller has left open can be read during the start, and
// is open nowhere when aisb has returned.
func TestDetachLetsGo(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	env, envW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	kept, keptW, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if err := env.Chown(agent.uid, agent.gid); err != nil { // it is opened by its name
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	secret := newCanary(t)
	io.WriteString(envW, "SECRET="+secret.mark+"\n")
	envW.Close()
	cmd := c.command(t.Context(), runArgs([]string{"-d", "--net", "none", "--env-file", "/proc/self/fd/4"}, sh(`echo "$SECRET"; sleep 1000`)...)...)
	cmd.ExtraFiles = []*os.File{null, env, keptW} // from descriptor 3 on
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	name := strings.TrimSpace(string(out))
	for _, f := range cmd.ExtraFiles {
		f.Close()
	}
	if err := unix.SetNonblock(int(kept.Fd()), true); err != nil {
		t.Fatal(err)
	}
	var b [1]byte
	if n, err := unix.Read(int(kept.Fd()), b[:]); n != 0 || err != nil {
		t.Errorf("the caller's pipe is still open: %d, %v", n, err)
	}
	waitUntil(t, runTimeout, "output", func() bool { return c.do(t, "output", name).stdout == secret.mark+"\n" })
	c.do(t, "stop", name).wantStatus(t, 0)
	gone()
	forgetOutput(name)
}
