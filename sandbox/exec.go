package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mounts"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// Bounds of commands that are about to begin.
const (
	maxAsked   = 16               // that pid 1 hasn't answered: it must never block what else it is told
	askTimeout = 10 * time.Second // for pid 1's answer, for those before, and for a sandbox that is still starting
)

// Exec starts another command in the sandbox. pid 1 does it, so that the command
// has by birth what the first has. Its environment is x.Env over what the first
// got without being named by the user: no secret of the run's is in it. The
// result is what pid 1 says of it: the socket of handshake.Exec, then the
// terminal's master, or stdin, stdout and stderr. An error is a *control.Error
// where it is the user's.
func (s *Session) Exec(ctx context.Context, x handshake.Exec) ([]*os.File, error) {
	select {
	case <-s.running:
	case <-s.aborted:
		return nil, errEnded
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(askTimeout):
		return nil, &control.Error{Text: "the sandbox is still starting", Hint: "try again in a moment", Status: podman.StatusPodman}
	}
	if err := s.completeExec(&x); err != nil {
		return nil, err
	}
	if err := s.turn(ctx); err != nil {
		return nil, err
	}
	ours, conn, err := s.askPid1(x)
	if err != nil {
		<-s.asked
		return nil, err
	}
	files, answered, err := hearStart(ctx, conn, ours)
	if answered {
		conn.Close()
		<-s.asked
	} else {
		go s.forget(conn)
	}
	if err != nil {
		ours.Close()
		return nil, err
	}
	return files, nil
}

// turn waits until few enough commands are about to begin: of many at once each gets its
// own, as long as pid 1 begins them.
func (s *Session) turn(ctx context.Context) error {
	select {
	case s.asked <- struct{}{}:
		return nil
	case <-s.cut:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(askTimeout):
		return &control.Error{Text: fmt.Sprintf("%d commands are about to begin already", maxAsked),
			Hint: "try again in a moment; if the container is paused, 'podman unpause' lets it go on", Status: podman.StatusPodman}
	}
}

// errNoAnswer is said of a sandbox that stands still, as it seems.
var errNoAnswer = &control.Error{Text: "the sandbox doesn't answer", Status: podman.StatusPodman,
	Hint: "if its container is paused, 'podman unpause' lets it go on"}

// errEnded is said of a sandbox that is about to be gone.
var errEnded = &control.Error{Text: "the sandbox has ended", Hint: "see 'aisb ps'", Status: podman.StatusPodman}

// completeExec fills in what the client has left to the sandbox.
func (s *Session) completeExec(x *handshake.Exec) error {
	given := make([]environ.Var, 0, len(x.Env))
	for _, kv := range x.Env {
		name, value, _ := bytes.Cut(kv, []byte("="))
		given = append(given, environ.Var{Name: string(name), Value: value})
	}
	var err error
	if x.Env, _, err = environ.Merge(s.proxy, s.spec.Env, given); err != nil {
		refused := &control.Error{Text: err.Error(), Status: podman.StatusPodman}
		if e, ok := errors.AsType[*environ.Error](err); ok {
			refused.Hint = e.Hint
		}
		return refused
	}
	switch dir := string(x.Dir); {
	case dir == "":
		x.Dir = handshake.Bytes(s.spec.Workdir)
	case !path.IsAbs(dir):
		x.Dir = handshake.Bytes(path.Join(mounts.Project, dir))
	}
	return nil
}

// askPid1 tells pid 1 of the command. The request goes through the command's own
// socket: what goes through pid 1's must stay so small that it never blocks, even
// when the container is paused.
func (s *Session) askPid1(x handshake.Exec) (*os.File, *fdmsg.Conn, error) {
	ours, theirs, err := fdmsg.Files()
	if err != nil {
		return nil, nil, err
	}
	defer theirs.Close()
	second, err := unix.FcntlInt(ours.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		ours.Close()
		return nil, nil, fmt.Errorf("keep a socket: %w", err)
	}
	conn, err := fdmsg.FromFile(os.NewFile(uintptr(second), "exec"))
	if err != nil {
		ours.Close()
		return nil, nil, err
	}
	if told := s.entry.SendNow(handshake.Control{Exec: true}, theirs); errors.Is(told, fdmsg.ErrBusy) {
		err = errNoAnswer
	} else if told != nil {
		err = errEnded
	}
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(askTimeout))
	}
	if err == nil {
		err = conn.Send(x)
	}
	if errors.Is(err, fdmsg.ErrTooLarge) {
		err = &control.Error{Text: "the command and its environment are too long", Status: handshake.ExitNoExec}
	}
	if err != nil {
		ours.Close()
		conn.Close()
		return nil, nil, err
	}
	return ours, conn, nil
}

// hearStart waits for pid 1's answer. Files are ours and what came along.
func hearStart(ctx context.Context, conn *fdmsg.Conn, ours *os.File) (files []*os.File, answered bool, err error) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	defer stop()
	var st handshake.Stage
	m, err := conn.Recv(&st)
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, false, errNoAnswer
	case err != nil:
		return nil, true, errEnded
	case st.Error != "":
		m.Close()
		return nil, true, &control.Error{Text: st.Error, Hint: st.Hint, Status: st.Status}
	}
	return append([]*os.File{ours}, m.Files...), true, nil
}

// forget lets a command go that nobody waits for any more: pid 1 ends it as soon
// as it reads of it.
func (s *Session) forget(conn *fdmsg.Conn) {
	defer func() { <-s.asked }()
	defer conn.Close()
	if conn.SetDeadline(time.Time{}) != nil || conn.CloseWrite() != nil {
		return
	}
	for {
		var st handshake.Stage
		m, err := conn.Recv(&st)
		m.Close()
		if err != nil {
			return
		}
	}
}
