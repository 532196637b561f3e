//go:build e2e

package e2e

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"golang.org/x/sys/unix"
)

// terminal is a run with a terminal, the test on its other side.
type terminal struct {
	t      *testing.T
	pty    *os.File
	cmd    *exec.Cmd
	screen *output
	ended  chan struct{}
}

// onTerminal starts a run on a terminal of its own.
func (c call) onTerminal(t *testing.T, rows, cols uint16, flags []string, command ...string) *terminal {
	t.Helper()
	return c.anyOnTerminal(t, rows, cols, runArgs(flags, command...)...)
}

// anyOnTerminal starts aisb on a terminal of its own with any arguments.
func (c call) anyOnTerminal(t *testing.T, rows, cols uint16, args ...string) *terminal {
	t.Helper()
	master, slave := openTerminal(t)
	defer slave.Close()
	setSize(t, master, rows, cols)
	term := &terminal{t: t, pty: master, screen: &output{}, ended: make(chan struct{})}
	term.cmd = c.command(context.Background(), args...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = slave, slave, slave
	term.cmd.SysProcAttr.Setctty = true
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	copied := make(chan struct{})
	go func() {
		io.Copy(term.screen, master) // ends with EIO when aisb has closed its side
		close(copied)
	}()
	go func() {
		term.cmd.Wait() // the status is in ProcessState
		<-copied
		close(term.ended)
	}()
	t.Cleanup(func() {
		term.cmd.Process.Kill()
		<-term.ended
		master.Close()
	})
	return term
}

// openTerminal opens both sides of a terminal. Closing the master hangs up even
// while it is being read: that needs a descriptor that doesn't block, which the
// pty package's own is not.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	blocking, slave, err := pty.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer blocking.Close()
	fd, err := unix.FcntlInt(blocking.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "master"), slave
}

// setSize sets the size as a terminal's window does.
func setSize(t *testing.T, master *os.File, rows, cols uint16) {
	t.Helper()
	raw, err := master.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var ioctlErr error
	err = raw.Control(func(fd uintptr) {
		ioctlErr = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
	})
	if err := errors.Join(err, ioctlErr); err != nil {
		t.Fatal(err)
	}
}

// waitScreen waits until text was shown, n times.
func (x *terminal) waitScreen(text string, n int) {
	x.t.Helper()
	deadline := time.Now().Add(runTimeout)
	for strings.Count(x.screen.String(), text) < n {
		if time.Now().After(deadline) {
			x.t.Fatalf("%q was not shown %d times:\n%s", text, n, x.screen)
		}
		select {
		case <-x.ended:
			if strings.Count(x.screen.String(), text) < n {
				x.t.Fatalf("ended without %q:\n%s", text, x.screen)
			}
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (x *terminal) typed(keys string) {
	x.t.Helper()
	if _, err := io.WriteString(x.pty, keys); err != nil {
		x.t.Fatal(err)
	}
}

func (x *terminal) wait(want int) {
	x.t.Helper()
	select {
	case <-x.ended:
	case <-time.After(runTimeout):
		x.t.Fatalf("did not end:\n%s", x.screen)
	}
	if got := x.cmd.ProcessState.ExitCode(); got != want {
		x.t.Errorf("status %d, want %d:\n%s", got, want, x.screen)
	}
}

// TestTerminalSize is right at the first byte and follows the user's.
func TestTerminalSize(t *testing.T) {
	x := call{dir: project(t)}.onTerminal(t, 33, 101, allowed, sh(`stty size; tty; trap 'stty size' WINCH; echo ready; while :; do sleep 0.05; done`)...)
	x.waitScreen("ready", 1)
	wantIn(t, "screen", x.screen.String(), "33 101\r\n", "/dev/pts/")
	setSize(t, x.pty, 44, 122)
	x.waitScreen("44 122\r\n", 1)
	x.typed("\x03")
	x.wait(130)
}

// TestTerminalKeys: control keys reach the command and not aisb.
func TestTerminalKeys(t *testing.T) {
	dir := project(t)
	write(t, dir, "keys.py", `import os, signal, sys
# Not print: a handler may come while that is at work, which it doesn't stand.
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"got-int\n"))
signal.signal(signal.SIGQUIT, lambda *_: os.write(1, b"got-quit\n"))
# A signal just before read(2) is only noticed when that returns: let it.
signal.signal(signal.SIGALRM, lambda *_: None)
signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
print("ready", flush=True)
for line in sys.stdin:
    print("line", ascii(line), flush=True)
print("end")
sys.exit(9)
`)
	x := call{dir: dir}.onTerminal(t, 24, 80, allowed, sh("stty -echo; exec python3 keys.py")...)
	x.waitScreen("ready", 1)
	x.typed("\x03")
	x.waitScreen("got-int", 1)
	x.typed("\x1c")
	x.waitScreen("got-quit", 1)
	// podman's own keys to detach. ^Q is the line discipline's, which takes it.
	x.typed("a\x10\x11b\n")
	x.waitScreen(`line 'a\x10b\n'`, 1)
	x.typed("\x04")
	x.waitScreen("end", 1)
	x.wait(9)
}

// TestTerminalIsPutBack: aisb leaves the user's terminal as it was, also after
// an error and after a signal.
func TestTerminalIsPutBack(t *testing.T) {
	for name, end := range map[string]struct {
		script string
		sig    syscall.Signal
		status int
	}{
		"end":    {"stty raw -echo; echo ready", 0, 0},
		"error":  {"stty raw -echo; echo ready; exit 3", 0, 3},
		"signal": {"echo ready; sleep 1000", syscall.SIGTERM, 143},
	} {
		t.Run(name, func(t *testing.T) {
			master, slave := openTerminal(t)
			defer master.Close()
			defer slave.Close()
			before := stty(t, slave)
			screen := &output{}
			go io.Copy(screen, master) // ends with the test's closing it
			cmd := call{dir: project(t)}.command(t.Context(), runArgs(allowed, sh(end.script)...)...)
			cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
			cmd.SysProcAttr.Setctty = true
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			waitUntil(t, runTimeout, "ready", func() bool { return strings.Contains(screen.String(), "ready") })
			if end.sig != 0 {
				cmd.Process.Signal(end.sig)
			}
			err := cmd.Wait()
			var exit *exec.ExitError
			if err != nil && !errors.As(err, &exit) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != end.status {
				t.Errorf("status %d, want %d:\n%s", got, end.status, screen)
			}
			if after := stty(t, slave); after != before {
				t.Errorf("the terminal was %s and is %s", before, after)
			}
		})
	}
}

// stty is the state of a terminal.
func stty(t *testing.T, tty *os.File) string {
	t.Helper()
	cmd := exec.Command("stty", "-g")
	cmd.Stdin = tty
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestTerminalHangup: when the terminal goes, so does the run.
func TestTerminalHangup(t *testing.T) {
	gone := wantNothingLeft(t)
	x := call{dir: project(t)}.onTerminal(t, 24, 80, allowed, sh("echo ready; sleep 1000")...)
	x.waitScreen("ready", 1)
	if err := x.pty.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-x.ended:
	case <-time.After(runTimeout):
		t.Error("the run outlives its terminal")
	}
	gone()
}
