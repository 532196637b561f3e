package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/keeper"
)

// supervisorName is argv[0] of the process that a detached run goes on in.
const supervisorName = "aisb-supervisor"

// supervisorFD is its end of the socket pair with the aisb that the user has called.
const supervisorFD = 3

// supervisor is what a detached run has in the place of a user at a terminal. nil
// stands for none, in all other processes.
type supervisor struct {
	begin
	conn      *fdmsg.Conn
	ctx       context.Context //nolint:containedctx // that of the whole process
	started   atomic.Bool
	inherited []int // descriptors of the caller's

	dir     string // of what is kept of the run
	output  *keeper.Output
	keep    *keeper.Keeper
	u       *ui
	session *sandbox.Session
	done    chan struct{}
}

// supervise is the supervisor's main: it runs what the caller was called for.
func supervise(args []string) int {
	u := &ui{Out: io.Discard, Err: os.Stderr}
	s := &supervisor{inherited: inherited(), done: make(chan struct{})}
	var err error
	if s.conn, err = fdmsg.FromFile(os.NewFile(supervisorFD, "caller")); err != nil {
		return u.fail(&exitError{code: exitUsage, err: errors.New("it is started by 'aisb run --detach' alone")})
	}
	m, err := s.conn.Recv(&s.begin)
	m.Close()
	if err != nil {
		return u.fail(&exitError{code: exitPodman, err: fmt.Errorf("hear from who has called: %w", err)})
	}
	var cancel context.CancelCauseFunc
	s.ctx, cancel = context.WithCancelCause(context.Background())
	go func() {
		var never begin
		m, _ := s.conn.Recv(&never) // the end: the caller is gone
		m.Close()
		if !s.started.Load() {
			cancel(interrupted{syscall.SIGHUP})
		}
	}()
	u.super = s
	status := cli(args, u)
	s.end(status)
	return status
}

// inherited are the descriptors that the caller had been left open, such as the pipe
// of an --env-file <(...). Everything that this process opens is close-on-exec, as
// they are from here on: gate and podman don't get them.
func inherited() []int {
	entries, _ := os.ReadDir("/proc/self/fd") // the kernel's own list
	var fds []int
	for _, e := range entries {
		var fd int
		if _, err := fmt.Sscan(e.Name(), &fd); err != nil || fd <= supervisorFD {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			unix.CloseOnExec(fd)
			fds = append(fds, fd)
		}
	}
	return fds
}

// context is that of the process: without a caller, a start is given up.
func (s *supervisor) context() context.Context {
	if s == nil {
		return context.Background()
	}
	return s.ctx
}

// terminal is that of the caller.
func (s *supervisor) terminal(spec *sandbox.Spec) {
	if s != nil {
		spec.TTY, spec.Rows, spec.Cols, spec.Detached = s.TTY, s.Rows, s.Cols, true
	}
}

// take takes the command over and lets the caller go. After an error the caller of
// this ends the sandbox.
func (s *supervisor) take(u *ui, session *sandbox.Session, signals chan os.Signal) error {
	s.u, s.session, s.dir = u, session, session.StateDir()
	var err error
	if s.output, err = keeper.NewOutput(filepath.Join(s.dir, outputName)); err != nil {
		return err
	}
	report, err := openReport(s.dir)
	if err != nil {
		return err
	}
	io3 := session.Stdio()
	if io3.PTY == nil {
		io3.Stdin.Close() // nobody will ever write to it
	}
	s.keep, err = keeper.Keep(keeper.Streams{PTY: io3.PTY, Stdout: io3.Stdout, Stderr: io3.Stderr}, s.output, session.Signal, session.Ended())
	if err != nil {
		return err
	}
	signal.Ignore(syscall.SIGHUP)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
	go s.passSignals(signals)
	session.ServeAttach(s.keep.Attach)
	if err := s.letGo(report); err != nil {
		return err
	}
	s.started.Store(true)
	err = s.conn.Send(begun{session.Name()})
	s.conn.Close()
	if err != nil {
		return fmt.Errorf("nobody waits for the sandbox any more: %w", err)
	}
	return nil
}

// letGo gives up what is the caller's: a script may wait for the end of a pipe, or
// for a lock, and must not wait for as long as the sandbox lives. What is said from
// here on, by the runtime too, goes into the report.
func (s *supervisor) letGo(report *os.File) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd, f := range []*os.File{null, report, report} {
		if err := unix.Dup3(int(f.Fd()), fd, 0); err != nil {
			return fmt.Errorf("let go of the caller's streams: %w", err)
		}
	}
	for _, fd := range s.inherited {
		unix.Close(fd)
	}
	return nil
}

// passSignals ends the sandbox when the machine or a user ends the supervisor. A
// second such signal ends the supervisor itself, and by its lifelines the rest.
func (s *supervisor) passSignals(signals chan os.Signal) {
	for sig := range signals {
		switch sig {
		case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
			signal.Reset(syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT)
			go s.session.Stop(stopGrace)
		default: // what heldSignals takes
			_ = s.session.Signal(sig.(syscall.Signal)) // an error means that it has ended
		}
	}
}

// company is what a command has around it until it ends: a user, or a supervisor.
type company interface {
	tell(s *sandbox.Session) // what comes up meanwhile
	flush() bool             // waits for the last output; false if nobody reads it
	stop()
}

// accompany joins the command with its user, or takes it over.
func accompany(u *ui, session *sandbox.Session, held chan os.Signal, tty ttyOptions) (company, error) {
	if u.super == nil {
		return startRelay(session, u, held, os.Stdin, tty)
	}
	return u.super, u.super.take(u, session, held)
}

func (s *supervisor) tell(session *sandbox.Session) { tellAll(s.u, session, s.done) }

func (s *supervisor) flush() bool {
	select {
	case <-s.keep.Drained():
	case <-s.session.Killed():
		select {
		case <-s.keep.Drained():
		case <-time.After(drainGrace):
		}
	}
	return true // a file takes all
}

func (s *supervisor) stop() { close(s.done) }

// end tells all who wait, and those who come later.
func (s *supervisor) end(status int) {
	if s.keep == nil {
		return
	}
	if err := s.output.Close(); err != nil {
		s.u.warnf("%v", err)
	}
	text, err := json.Marshal(ended{endFormat, status, time.Now().UTC().Truncate(time.Millisecond)})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, endName), append(text, '\n'), 0o600)
	}
	if err != nil {
		s.u.warnf("%v", err)
	}
	s.keep.End(control.AttachEnd{Status: status, Words: reportWords(s.dir)})
}
