package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// How long things may take before they are taken for hung.
const (
	helloTimeout = 2 * time.Minute  // podman may copy an image's layers for keep-id first
	endGrace     = 30 * time.Second // podman cleans up after its container, slowly on a busy machine
	startGrace   = 10 * time.Second // a podman whose container hasn't come up may wait for a lock, and for ever
	killGrace    = 2 * time.Second  // pid 1 ends when its lifeline does
	wordsGrace   = time.Minute      // podman says why it failed when it has cleaned up, which a busy machine draws out
)

// podmanProcess is a running podman run. Its output is what podman has to say,
// since the command's own streams don't pass through it.
type podmanProcess struct {
	podman podman.Podman
	name   string
	cmd    *exec.Cmd
	stderr *tail
	done   chan struct{} // closed when cmd was waited for
	orphan atomic.Bool   // podman has lost the container

	init, conmon handle // of the container, once it has said hello
	alone        bool   // conmon had ended by then
}

// startPodman starts the container with its end of the lifeline.
func (s *Session) startPodman(c podman.Container) error {
	conn, theirs, err := fdmsg.Pair()
	if err != nil {
		return err
	}
	defer theirs.Close()
	p := &podmanProcess{podman: s.host.Podman, name: c.Name, stderr: &tail{}, done: make(chan struct{}), init: noHandle, conmon: noHandle}
	p.cmd = s.host.Podman.Command(context.Background(), c.RunArgs()...)
	p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, theirs)
	p.cmd.Stderr = p.stderr
	p.cmd.Stdout = p.stderr
	// conmon inherits podman's stderr; don't wait for it after podman's end.
	p.cmd.WaitDelay = time.Second
	if err := p.cmd.Start(); err != nil {
		conn.Close()
		return &Failure{Status: podman.StatusPodman, Err: fmt.Errorf("start podman: %w", err)}
	}
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	s.entry, s.podman = conn, p
	return nil
}

// launch starts the container and returns the host pid of its first process. What has
// its name already and doesn't run is left of a run that was killed together with its
// podman: nobody else has the name (claim), so it goes.
func (s *Session) launch(ctx context.Context, c podman.Container) (int, error) {
	if err := s.startPodman(c); err != nil {
		return 0, err
	}
	pid, err := s.hello(ctx)
	if err == nil || ctx.Err() != nil || !podman.NameTaken(s.podman.stderr.String()) || !s.podman.removeEnded(ctx) {
		return pid, err
	}
	s.entry.Close()
	if err := s.startPodman(c); err != nil {
		return 0, err
	}
	return s.hello(ctx)
}

// hello waits for the entrypoint's first word and returns its host pid.
func (s *Session) hello(ctx context.Context) (int, error) {
	stop := context.AfterFunc(ctx, func() { s.entry.Close() })
	defer stop()
	if err := s.entry.SetReadDeadline(time.Now().Add(helloTimeout)); err != nil {
		return 0, err
	}
	var st handshake.Stage
	said, watching := make(chan struct{}), sync.WaitGroup{}
	watching.Go(func() {
		select {
		case <-s.podman.done:
			// conmon has the other end of the socket, too, and waits for its podman.
			_ = s.entry.SetReadDeadline(time.Now().Add(killGrace)) // an error shows in Recv
		case <-said:
		}
	})
	m, err := s.entry.Recv(&st)
	close(said)
	watching.Wait()
	m.Close()
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case err != nil:
		return 0, s.podmanFailure(fmt.Errorf("container did not start: %w", err))
	case st.Stage != handshake.Hello || m.PID == 0:
		return 0, &Failure{Status: podman.StatusPodman, Err: fmt.Errorf("entrypoint said %q first", st.Stage),
			Hint: "another program in podman's place may have said that: see 'type -a podman'"}
	}
	s.podman.init = openHandle(m.PID)
	if s.dog.proc, err = os.OpenRoot(fmt.Sprintf("/proc/%d", m.PID)); err != nil {
		return 0, s.goneOr(fmt.Errorf("watch the container's first process: %w", err))
	}
	s.podman.holdConmon(m.PID)
	if err := checkNamespaces("/proc", m.PID); err != nil {
		return 0, s.goneOr(err)
	}
	if s.on.Mounted != nil {
		s.on.Mounted()
	}
	return m.PID, s.entry.SetReadDeadline(time.Time{})
}

// status waits for podman's end and returns its status.
func (p *podmanProcess) status() int {
	<-p.done
	state := p.cmd.ProcessState
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return state.ExitCode()
}

// goneOr is err, or the failure of a start whose pid 1 has ended, where err comes of that.
func (s *Session) goneOr(err error) error {
	if !pidGone(err) {
		return err
	}
	return s.podmanFailure(fmt.Errorf("entrypoint ended without a word: %w", err))
}

// lost reports whether podman or its conmon has ended although the container lives, as
// after a kill: nobody would clean up. Otherwise pid 1 ends first.
func (p *podmanProcess) lost() bool {
	ended := p.alone || p.conmon != noHandle && p.conmon.ended()
	select {
	case <-p.done:
		ended = true
	default:
	}
	return ended && !p.init.ended() // looked at last: pid 1 may end meanwhile, and they with it
}

// lostFailure is what comes of it.
func (p *podmanProcess) lostFailure(when string) *Failure {
	p.orphan.Store(true)
	how := "it has lost its conmon"
	if within(p.done, killGrace) { // of its conmon's end it hears in a moment
		how = p.cmd.ProcessState.String()
	}
	return &Failure{Status: podman.StatusPodman, Err: fmt.Errorf("podman has ended %s: %s", when, how), Hint: killedOutside}
}

// podmanFailure is the failure of a container that did not come to its
// entrypoint, told in podman's words where it left some. fallback is used when
// it said nothing. podman has 126 and 127 for failures of its own too (no pasta,
// a limit that can't be set), but a command of the user's was not even looked
// for: those are for the entrypoint to say.
func (s *Session) podmanFailure(fallback error) error {
	f := &Failure{Status: podman.StatusPodman, Err: fallback}
	within(s.podman.done, wordsGrace)
	if text := s.podman.stderr.String(); podman.NoImage(text) {
		f.Err, f.Hint = fmt.Errorf("%w: %s", podman.ErrNoImage, s.spec.Image), podman.Hint(text)
	} else if text != "" {
		f.Err, f.Hint = errors.New("podman: "+lastLine(text)), podman.Hint(text)
	}
	if f.Hint == "" {
		f.Hint = "if 'podman run' of an image of yours fails alike, it is podman's set-up; if not, please report it"
	}
	return f
}

// lastLine is podman's error without the lines and prefixes around it.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	line := strings.TrimPrefix(strings.TrimSpace(lines[len(lines)-1]), "Error: ")
	if len(line) > maxLine {
		line = strings.ToValidUTF8(line[:maxLine], "") + " ..."
	}
	return line
}

// maxLine is how much of podman's error is shown: what stands in podman's place may say
// anything.
const maxLine = 500

// tail keeps the end of what is written to it, bounded.
type tail struct {
	mu sync.Mutex
	b  bytes.Buffer
}

const tailSize = 8 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b.Write(p)
	if extra := t.b.Len() - tailSize; extra > 0 {
		t.b.Next(extra)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(t.b.String())
}
