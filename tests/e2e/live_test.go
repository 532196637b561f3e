//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// live is a run that goes on while the test looks at it.
type live struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout *output
	stderr *output
	ended  chan struct{}
}

// output collects what a process writes.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// start starts a run in the test image and goes on. The test's end kills it.
func (c call) start(t *testing.T, flags []string, command ...string) *live {
	t.Helper()
	return c.startAny(t, runArgs(flags, command...)...)
}

// startAny starts aisb, or c.bin, with any arguments.
func (c call) startAny(t *testing.T, args ...string) *live {
	t.Helper()
	l := &live{t: t, stdout: &output{}, stderr: &output{}, ended: make(chan struct{})}
	l.cmd = c.command(context.Background(), args...)
	l.cmd.Stdout, l.cmd.Stderr = l.stdout, l.stderr
	var err error
	if l.stdin, err = l.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		l.cmd.Wait() // the status is in ProcessState
		close(l.ended)
	}()
	t.Cleanup(func() {
		if err := l.cmd.Process.Signal(syscall.SIGTERM); err == nil {
			select {
			case <-l.ended:
			case <-time.After(goneLimit): // killed it would leave its container to the next test
			}
		}
		l.cmd.Process.Kill()
		<-l.ended
	})
	return l
}

// waitOut waits until the process has written text to stdout.
func (l *live) waitOut(text string) {
	l.t.Helper()
	l.waitFor(l.stdout, text)
}

// waitErr waits until the process has written text to stderr.
func (l *live) waitErr(text string) {
	l.t.Helper()
	l.waitFor(l.stderr, text)
}

func (l *live) waitFor(o *output, text string) {
	l.t.Helper()
	deadline := time.After(runTimeout)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !strings.Contains(o.String(), text) {
		select {
		case <-tick.C:
			continue
		case <-deadline:
		case <-l.ended:
			if strings.Contains(o.String(), text) {
				return
			}
		}
		l.t.Fatalf("%q did not come\nstdout: %s\nstderr: %s", text, l.stdout, l.stderr)
	}
}

// signal sends sig to aisb itself.
func (l *live) signal(sig syscall.Signal) {
	l.t.Helper()
	if err := l.cmd.Process.Signal(sig); err != nil {
		l.t.Fatal(err)
	}
}

// wait waits for the end and returns how it was. A process that a signal ended
// has status -1.
func (l *live) wait(limit time.Duration) outcome {
	l.t.Helper()
	begin := time.Now()
	select {
	case <-l.ended:
	case <-time.After(limit):
		l.t.Fatalf("did not end within %v\nstdout: %s\nstderr: %s", limit, l.stdout, l.stderr)
	}
	return outcome{l.cmd.ProcessState.ExitCode(), l.stdout.String(), l.stderr.String(), time.Since(begin)}
}

// say writes a line to its stdin.
func (l *live) say(line string) {
	l.t.Helper()
	if _, err := io.WriteString(l.stdin, line+"\n"); err != nil && !errors.Is(err, syscall.EPIPE) {
		l.t.Fatal(err)
	}
}

// child is the pid of the only process of a role that the run with this aisb
// has started. Tests run one after another, so there is one, as soon as what an earlier
// one has ended is gone.
func child(t *testing.T, role string) int {
	t.Helper()
	var pids []int
	waitUntil(t, goneLimit, "one process is "+role, func() bool {
		pids = find(role)
		return len(pids) == 1
	})
	return pids[0]
}
