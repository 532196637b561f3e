//go:build e2e

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// detached starts a sandbox that goes on alone, and returns its name.
func detached(t *testing.T, c call, flags []string, command ...string) string {
	t.Helper()
	o := c.aisb(t, append([]string{"--detach"}, flags...), command...)
	o.wantStatus(t, 0)
	name := strings.TrimSuffix(o.stdout, "\n")
	if !strings.HasPrefix(name, "aisb-") || strings.Contains(name, "\n") {
		t.Fatalf("--detach has printed %q", o.stdout)
	}
	// An error means that it has ended, as it should. t's own context is over by then.
	t.Cleanup(func() {
		_ = c.command(context.Background(), "stop", name).Run()
		forgetOutput(name)
	})
	return name
}

// forgetOutput removes what is kept of runs of a name: a command's output may hold the
// secrets that it was given, and is kept all the same (docs/detach.md).
func forgetOutput(name string) {
	dirs, _ := filepath.Glob(filepath.Join(xdg, "state/aisb/runs", name+"*")) // the pattern is well formed
	for _, dir := range dirs {
		os.RemoveAll(dir)
	}
}

// TestDetach: the run goes on without the aisb that started it, with all that a run
// has, is found, kept and stopped, and its end is told to who asks.
func TestDetach(t *testing.T) {
	gone := wantNothingLeft(t)
	c, secret := call{dir: project(t)}, newCanary(t)
	name := detached(t, c, append([]string{"--name", "work", "-e", "SECRET=" + secret.mark}, allowed...),
		sh(`echo begun; curl -s -o /dev/null -w '%{http_code}\n' http://allowed.test/; echo wrong >&2; while [ ! -e go ]; do echo tick; sleep 0.05; done; echo "$SECRET"; exit 7`)...)
	if name != "aisb-work" {
		t.Errorf("it is called %q", name)
	}
	waitUntil(t, runTimeout, "output", func() bool {
		text := c.do(t, "output", "work").stdout
		return strings.Contains(text, "begun\n") && strings.Contains(text, "200\n") && strings.Contains(text, "wrong\n")
	})
	list := (&sandbox{c: c}).ps(t)
	if len(list) != 1 || list[0].Name != name || list[0].State != "running" {
		t.Fatalf("%+v", list)
	}
	pid := list[0].PID
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("the supervisor's session is %d, %v", sid, err)
	}
	for fd, want := range map[string]string{"0": "/dev/null", "1": "/report", "2": "/report"} {
		if to, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", fd)); err != nil || !strings.HasSuffix(to, want) {
			t.Errorf("descriptor %s is %q, %v", fd, to, err)
		}
	}
	o := c.aisb(t, append([]string{"--name", "work"}, allowed...), "true")
	o.wantStatus(t, 2)
	wantIn(t, "a name that is taken", o.stderr, `a sandbox with the name "aisb-work" is running`)
	wantIn(t, "exec", c.do(t, "exec", "work", "--", "/bin/sh", "-c", "echo in it").stdout, "in it\n")
	waiter := c.startAny(t, "wait", "work")
	attached := c.startAny(t, "attach", "work")
	attached.waitOut("tick\n")
	write(t, c.dir, "go", "")
	for what, l := range map[string]*live{"wait": waiter, "attach": attached} {
		o := l.wait(runTimeout)
		o.wantStatus(t, 7)
		wantIn(t, what, o.stderr, "aisb: ended after", "with status 7", "reached allowed.test:80")
	}
	gone()
	c.do(t, "wait", "work").wantStatus(t, 7)
	wantIn(t, "output of one that has ended", c.do(t, "output", "work").stdout, secret.mark+"\n")
	for _, file := range []string{"output", "report", "end.json"} {
		info, err := os.Stat(filepath.Join(xdg, "state/aisb/runs", name, file))
		if err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	c.aisb(t, append([]string{"--name", "work"}, allowed...), "true").wantStatus(t, 0) // the name is free again
}

// TestDetachThatFails says why on the caller's stderr, with the start's own status.
func TestDetachThatFails(t *testing.T) {
	gone := wantNothingLeft(t)
	for what, tt := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"no rule":    {[]string{"run", "-d", "--image", testImage, "--ephemeral-home", "--", "true"}, 2, "the allowlist is empty"},
		"no command": {[]string{"run", "-d", "--image", testImage, "--ephemeral-home", "--net", "none", "--", "no-such"}, 127, "no-such"},
		"no image":   {[]string{"run", "-d", "--image", "localhost/none:1", "--ephemeral-home", "--net", "none", "--", "true"}, 125, "none:1"},
	} {
		o := call{dir: project(t)}.do(t, tt.args...)
		o.wantStatus(t, tt.status)
		wantIn(t, what, o.stderr, "aisb: error: ", tt.says)
		if o.stdout != "" {
			t.Errorf("%s: it has printed %q", what, o.stdout)
		}
	}
	gone()
}

// TestAttachTerminal: a detached command has a terminal when it was started on one or
// with -t; attach joins it, its size and its keys, and leaving leaves it running. What
// reaches the user's terminal is filtered, set up as the command has it, and put back.
func TestAttachTerminal(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	name := detached(t, c, append([]string{"-t"}, allowed...),
		// A signal right before read(2) is only noticed when that returns: another lets it.
		sh(`printf '\033[?2004h'; trap 'stty size' WINCH; trap : USR1; stty size; while sleep 0.1; do kill -USR1 $$; done &
			while :; do if read line; then printf 'got %s\033]52;c;aGFja2Vk\007.\n' "$line"; case "$line" in *end) exit 9; esac; fi; done`)...)
	x := c.anyOnTerminal(t, 31, 91, "attach", name)
	x.waitScreen("31 91", 1)
	x.typed("first\r")
	x.waitScreen("got first.", 1)
	setSize(t, x.pty, 32, 92)
	x.waitScreen("32 92", 1)
	x.pty.Close() // the user closes the window
	<-x.ended
	if s := (&sandbox{c: c}).ps(t); len(s) != 1 || s[0].State != "running" {
		t.Fatalf("after the window was closed: %+v", s)
	}
	one := c.anyOnTerminal(t, 32, 92, "attach", name) // the same size: it is painted anew all the same
	one.waitScreen("32 92", 1)
	two := c.anyOnTerminal(t, 34, 94, "attach", name)
	two.waitScreen("34 94", 1)
	<-one.ended
	if !strings.Contains(one.screen.String(), "goes on") || one.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("whose place was taken: %s", one.screen)
	}
	two.typed("\x10\x11end\r") // Ctrl-P and Ctrl-Q belong to the command
	<-two.ended
	if status := two.cmd.ProcessState.ExitCode(); status != 9 || !strings.Contains(two.screen.String(), "aisb: ended after") {
		t.Errorf("status %d: %s", status, two.screen)
	}
	for who, text := range map[string]string{"x": x.screen.String(), "one": one.screen.String(), "two": two.screen.String()} {
		if strings.Contains(text, "\x1b]52") || !strings.HasPrefix(text, "\x1b[?2004h") {
			t.Errorf("%s saw %q", who, text)
		}
	}
	if _, after, _ := strings.Cut(two.screen.String(), "\x1b[?2004h"); !strings.Contains(after, "\x1b[?2004l") {
		t.Errorf("bracketed paste was left on: %q", two.screen)
	}
	gone()
}

// TestStopOfADetached sandbox ends it as any other.
func TestStopOfADetached(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	name := detached(t, c, []string{"--net", "none"}, sh("trap 'exit 5' TERM; echo ready; while :; do sleep 0.05; done")...)
	waitUntil(t, runTimeout, "ready", func() bool { return c.do(t, "output", name).stdout == "ready\n" })
	c.do(t, "stop", "-t", "60", name).wantStatus(t, 0)
	gone()
	c.do(t, "wait", name).wantStatus(t, 5)
	if o := c.do(t, "attach", name); o.status != 125 {
		t.Errorf("attach to one that has ended: %d, %s", o.status, o.stderr)
	}
	// One that has its user's terminal has no other.
	s := waiting(t)
	o := c.do(t, "attach", s.name)
	o.wantStatus(t, 125)
	wantIn(t, "attach to one that isn't detached", o.stderr, "not started with --detach", "aisb shell")
	// Nor is it meant where no name is given and another is detached.
	name = detached(t, c, []string{"--net", "none"}, sh("while sleep 0.05; do echo tick; done")...)
	c.startAny(t, "attach").waitOut("tick\n")
	c.do(t, "stop", name).wantStatus(t, 0)
	s.ends(t)
}

// TestDetachTimeout: its status is the limit's.
func TestDetachTimeout(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	name := detached(t, c, []string{"--net", "none", "--timeout", "1s"}, sh("sleep 1000")...)
	o := c.do(t, "wait", name)
	o.wantStatus(t, 124)
	wantIn(t, "report", o.stderr, "as --timeout says")
	gone()
}
