package control

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Times of a command.
const (
	startTimeout = 30 * time.Second // the sandbox says sooner what is the matter
	killTimeout  = 2 * time.Second  // for the status of a command that was killed
	lastOutput   = 100 * time.Millisecond
)

// Execution is a command that runs in a sandbox for this client. It ends when the
// client does.
type Execution struct {
	// PTY is the master of its terminal. Without one it is nil, and the others are
	// what the command reads and writes. They don't block, and take deadlines.
	PTY, Stdin, Stdout, Stderr *os.File

	conn   *fdmsg.Conn
	kill   sync.Once
	killed chan struct{}
	ended  chan struct{} // closed when the two below are known
	status int
	err    error
}

// ErrSandboxEnded means that a command has ended because its sandbox has.
var ErrSandboxEnded = errors.New("the sandbox has ended")

// Exec starts a command.
func (c *Client) Exec(x handshake.Exec) (*Execution, error) {
	_, m, err := c.ask(Request{Op: OpExec, Exec: &x}, startTimeout)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	want := 4
	if x.TTY {
		want = 2
	}
	if len(m.Files) != want {
		return nil, fmt.Errorf("the sandbox has sent %d descriptors, not %d", len(m.Files), want)
	}
	e := &Execution{killed: make(chan struct{}), ended: make(chan struct{})}
	streams := []**os.File{&e.Stdin, &e.Stdout, &e.Stderr}
	if x.TTY {
		streams = []**os.File{&e.PTY}
	}
	for i, to := range streams {
		if *to, err = pollable(m.Files[1+i]); err != nil {
			e.closeStreams()
			return nil, err
		}
	}
	conn, err := fdmsg.FromFile(m.Files[0])
	if err != nil {
		e.closeStreams()
		return nil, err
	}
	e.conn = conn
	go e.hear()
	return e, nil
}

// pollable is a copy of a descriptor that doesn't block. Nobody else has this end.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.SetNonblock(fd, true)
	}
	if err != nil {
		return nil, fmt.Errorf("keep the command's stream: %w", err)
	}
	return os.NewFile(uintptr(fd), "stream"), nil
}

func (e *Execution) closeStreams() {
	for _, f := range []*os.File{e.PTY, e.Stdin, e.Stdout, e.Stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// hear waits for the end of the command, and then lets reading its output end:
// whatever it has left in the background may keep that open for ever.
func (e *Execution) hear() {
	var st handshake.Stage
	m, err := e.conn.Recv(&st)
	m.Close()
	switch {
	case err == nil && st.Stage == handshake.Exit && st.Status >= 0 && st.Status < 256:
		e.status = st.Status
	case err == nil:
		e.err = fmt.Errorf("the sandbox says %q of the command", st.Stage)
	case errors.Is(err, io.EOF):
		e.err = ErrSandboxEnded
	default:
		e.err = err
	}
	close(e.ended)
	now := time.Now()
	if e.PTY != nil {
		// What was written to a terminal comes a moment later (flush_to_ldisc in
		// the kernel's tty_buffer.c), to a pipe at once.
		_ = e.PTY.SetReadDeadline(now.Add(lastOutput)) // an error means that it is closed
		return
	}
	_ = e.Stdout.SetReadDeadline(now)
	_ = e.Stderr.SetReadDeadline(now)
}

// Signal sends a signal to the command: to its process group without a terminal. It
// never waits, though the container may be paused.
func (e *Execution) Signal(sig syscall.Signal) error {
	return e.conn.SendNow(handshake.Control{Signal: int(sig)})
}

// Kill kills the command's process group.
func (e *Execution) Kill() {
	e.kill.Do(func() {
		_ = e.Signal(syscall.SIGKILL) // an error means that it has ended
		close(e.killed)
	})
}

// Killed is closed once Kill was called.
func (e *Execution) Killed() <-chan struct{} { return e.killed }

// Wait waits for the command's end and returns its status, or ErrSandboxEnded.
func (e *Execution) Wait() (int, error) {
	select {
	case <-e.ended:
		return e.status, e.err
	case <-e.killed:
	}
	select {
	case <-e.ended:
		return e.status, e.err
	case <-time.After(killTimeout):
		return 128 + int(syscall.SIGKILL), nil // closing the socket is its end
	}
}

// Rest is a reader of a command's output that goes on to what is there already
// after a deadline has passed, and then ends.
type Rest struct {
	F    *os.File
	done int
}

// maxRest bounds what is read after the end: as much as a pipe holds at most
// (pipe-max-size in proc_sys_fs(5)).
const maxRest = 1 << 20

// Read reads as F does, but for the end.
func (r *Rest) Read(b []byte) (int, error) {
	n, err := r.F.Read(b)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	raw, err := r.F.SyscallConn()
	if err != nil {
		return 0, err
	}
	var readErr error
	if err := raw.Control(func(fd uintptr) { n, readErr = unix.Read(int(fd), b) }); err != nil {
		return 0, err
	}
	if r.done += n; n <= 0 || readErr != nil || r.done > maxRest {
		return max(n, 0), io.EOF
	}
	return n, nil
}
