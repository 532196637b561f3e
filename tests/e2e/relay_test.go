//go:build e2e

package e2e

import (
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestReaderGone: a command that copes with a closed standard output goes on and
// its status is the run's, as without aisb.
func TestReaderGone(t *testing.T) {
	cmd := call{dir: project(t)}.command(t.Context(), runArgs(allowed,
		sh("trap '' PIPE; while echo line; do :; done 2>errors; sleep 1; echo yes >survived; exit 7")...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	out.Close()
	cmd.Wait() // the status is in ProcessState
	if got := cmd.ProcessState.ExitCode(); got != 7 {
		t.Errorf("status %d (%v), want the command's", got, cmd.ProcessState)
	}
	if _, err := os.Stat(cmd.Dir + "/survived"); err != nil {
		t.Errorf("the command did not live on: %v", err)
	}
}

// TestNobodyReads: SIGTERM ends a run whose output is stuck in a pipe.
func TestNobodyReads(t *testing.T) {
	gone := wantNothingLeft(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := call{dir: project(t)}.command(t.Context(), runArgs(allowed, "yes")...)
	cmd.Stdout, cmd.Stderr = w, w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	ended := make(chan struct{})
	go func() {
		cmd.Wait() // the status is in ProcessState
		close(ended)
	}()
	// A pipe holds 64 KiB (pipe(7)) less what lies unused at the end of a page.
	const full = 56 << 10
	waitUntil(t, runTimeout, "a full pipe", func() bool {
		n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ)
		if err != nil {
			t.Fatal(err)
		}
		return n >= full
	})
	cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-ended:
		if got := cmd.ProcessState.ExitCode(); got != 143 {
			t.Errorf("status %d (%v), want 143", got, cmd.ProcessState)
		}
	case <-time.After(runTimeout):
		t.Error("SIGTERM doesn't end the run")
		cmd.Process.Kill()
		<-ended
	}
	gone()
}

// TestTerminalGoneForGood: a command that ignores the hang-up ends all the same.
func TestTerminalGoneForGood(t *testing.T) {
	for name, script := range map[string]string{
		"silent":  "trap '' HUP TERM; echo ready; while :; do sleep 1000; done",
		"writing": "trap '' HUP TERM PIPE; echo ready; while :; do echo line 2>/dev/null; sleep 0.1; done",
	} {
		t.Run(name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			x := call{dir: project(t)}.onTerminal(t, 24, 80, allowed, sh(script)...)
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
		})
	}
}

// TestNoOutputLeft: signals still reach a command that has closed its output.
func TestNoOutputLeft(t *testing.T) {
	dir := project(t)
	l := call{dir: dir}.start(t, allowed,
		sh("exec </dev/null >/dev/null 2>&1; trap 'exit 9' USR1; echo >ready; while :; do sleep 0.05; done")...)
	waitUntil(t, runTimeout, "the command's start", func() bool {
		_, err := os.Stat(dir + "/ready")
		return err == nil
	})
	l.signal(syscall.SIGUSR1)
	l.wait(runTimeout).wantStatus(t, 9)
}
