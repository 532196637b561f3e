package control

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// fakePid1 answers an exec as pid 1 would, with pipes of its own.
func fakePid1(t *testing.T, end func(conn *fdmsg.Conn, out *os.File)) Handler {
	return Handler{Exec: func(_ context.Context, x handshake.Exec) ([]*os.File, error) {
		if len(x.Argv) != 1 {
			return nil, &Error{Text: "no such command", Status: 127}
		}
		ours, theirs, err := fdmsg.Files()
		if err != nil {
			return nil, err
		}
		conn, err := fdmsg.FromFile(theirs)
		if err != nil {
			return nil, err
		}
		inR, inW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		outR, outW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		errR, errW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() {
			for _, f := range []*os.File{inR, outW, errW} {
				f.Close()
			}
			conn.Close()
		})
		go end(conn, outW)
		return []*os.File{ours, inW, outR, errR}, nil
	}}
}

// TestOutputEndsWithTheCommand although something in the background keeps the
// pipe open, and nothing that was written is lost.
func TestOutputEndsWithTheCommand(t *testing.T) {
	runtime := t.TempDir()
	const size = 60000 // less than a pipe holds, more than one read takes here
	serve(t, runtime, "r", fakePid1(t, func(conn *fdmsg.Conn, out *os.File) {
		io.WriteString(out, strings.Repeat("x", size))
		conn.Send(handshake.Stage{Stage: handshake.Exit, Status: 7})
	}))
	e, err := dial(t, runtime, "r").Exec(handshake.Exec{Argv: handshake.Args{"x"}})
	if err != nil {
		t.Fatal(err)
	}
	if status, err := e.Wait(); status != 7 || err != nil {
		t.Errorf("status %d, %v", status, err)
	}
	var got int64
	b := make([]byte, 1000)
	for r := (&Rest{F: e.Stdout}); ; {
		n, err := r.Read(b)
		got += int64(n)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if got != size {
		t.Errorf("%d bytes, want %d", got, size)
	}
}

func TestEndsOfAnExecution(t *testing.T) {
	runtime := t.TempDir()
	var signals atomic.Int64
	serve(t, runtime, "gone", fakePid1(t, func(conn *fdmsg.Conn, _ *os.File) { conn.Close() }))
	serve(t, runtime, "odd", fakePid1(t, func(conn *fdmsg.Conn, _ *os.File) {
		conn.Send(handshake.Stage{Stage: handshake.Exit, Status: 4711})
	}))
	serve(t, runtime, "kill", fakePid1(t, func(conn *fdmsg.Conn, _ *os.File) {
		for {
			var c handshake.Control
			if _, err := conn.Recv(&c); err != nil {
				return
			}
			signals.Store(int64(c.Signal))
			if c.Signal == int(unix.SIGKILL) {
				conn.Send(handshake.Stage{Stage: handshake.Exit, Status: 137})
			}
		}
	}))
	begin := func(name string) *Execution {
		t.Helper()
		e, err := dial(t, runtime, name).Exec(handshake.Exec{Argv: handshake.Args{"x"}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	if _, err := begin("gone").Wait(); !errors.Is(err, ErrSandboxEnded) {
		t.Errorf("a sandbox that ends: %v", err)
	}
	if _, err := begin("odd").Wait(); err == nil {
		t.Error("a status of 4711 is none")
	}
	e := begin("kill")
	e.Kill()
	e.Kill()
	if status, err := e.Wait(); status != 137 || err != nil || signals.Load() != 9 {
		t.Errorf("killed: status %d, %v, signal %d", status, err, signals.Load())
	}
	_, err := dial(t, runtime, "kill").Exec(handshake.Exec{})
	if refused, ok := errors.AsType[*Error](err); !ok || refused.Status != 127 {
		t.Errorf("refused: %v", err)
	}
	if _, err := dial(t, runtime, "kill").Exec(handshake.Exec{Argv: handshake.Args{"x"}, TTY: true}); err == nil {
		t.Error("pipes were taken for a terminal")
	}
}
