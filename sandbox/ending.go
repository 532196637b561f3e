package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// ErrNoStatus reports that the container's first process has ended in a way
// that it didn't choose, and the command with it.
var ErrNoStatus = errors.New("the container's pid 1 ended without handing over a status")

// ending is what comes through the pipe for the command's status: one byte, or
// the end of file when pid 1 is gone.
type ending struct {
	done   chan struct{} // closed when the two below are known
	gone   chan struct{} // closed when pid 1 has closed the pipe, which it does by ending
	told   bool
	status int
}

func watchEnding(pipe *os.File) *ending {
	e := &ending{done: make(chan struct{}), gone: make(chan struct{})}
	go func() {
		defer close(e.gone)
		defer pipe.Close()
		var b [1]byte
		if _, err := io.ReadFull(pipe, b[:]); err == nil {
			e.told, e.status = true, int(b[0])
		}
		close(e.done)
		_, _ = io.Copy(io.Discard, pipe)
	}()
	return e
}

// handed is the command's status, if pid 1 has handed it over by now.
func (e *ending) handed() (status int, ok bool) {
	select {
	case <-e.done:
		return e.status, e.told
	default:
		return 0, false
	}
}

// Wait waits for the end of the command, ends the gate and cleans up. However
// podman fares, it returns soon after the command has ended or Kill was called.
func (s *Session) Wait(ctx context.Context) Result {
	select {
	case <-s.ending.done:
	case <-s.podman.done:
		// pid 1 may be about to hand the status over. If it isn't, the watchdog says why the
		// sandbox ends, and ends it.
		select {
		case <-s.ending.done:
		case <-s.cut:
		case <-time.After(2 * killGrace):
		}
	case <-s.cut:
	}
	s.trace.part(PartCommand)
	s.ports.close()
	looked := s.lastLook(ctx)
	s.endContainer()
	s.trace.part(PartCleanUp)
	r := Result{Started: true, Proof: s.proof, Log: s.dirs.LogPath(), Joined: s.Joined(), Foreign: s.ports.foreign.Load()}
	podmans := s.podman.status()
	// Another status than that of its container's end: it has lost the container, since
	// conmon, which cleans up, is gone.
	if status, ok := s.ending.handed(); ok && podmans != status || !ok && podmans != 128+int(unix.SIGKILL) {
		s.podman.remove(endGrace)
	}
	within(s.disks, killGrace) // it looks by the descriptors that the caller closes, unless it hangs
	var listed error
	r.Planted, listed = s.planted() // nobody inside lives any more
	s.trace.part(PartScan)
	r.Status, r.Err = s.verdict(podmans)
	if r.Err != nil {
		r.Hint = "something outside has killed it, such as podman kill or a limit of memory, or it crashed: please report that"
	}
	counted := looked(&r)
	if r.Stopped = s.dog.bitten(); r.Stopped == nil && errors.Is(counted, nft.ErrMismatch) {
		r.Stopped = fenceFailure(counted) // after the watchdog's last look
	}
	if r.Stopped != nil {
		r.Status, r.Err, counted = r.Stopped.Status, nil, nil // it can't count what was changed
	}
	r.Err = errors.Join(r.Err, counted, listed)
	s.trace.part(PartReport)
	if err := s.dirs.Remove(); err != nil {
		r.Err = errors.Join(r.Err, err)
	}
	s.closeControl() // when nothing is left: it ends who waits for that
	return r
}

// lastLook ends the gate and reads the counters beside podman's cleaning up, as soon as
// pid 1 has gone and nobody inside has a claim to either. What it returns waits for
// that, puts it into the result, and returns why the counters could not be read.
func (s *Session) lastLook(ctx context.Context) func(*Result) error {
	var seen Result
	var err error
	late, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case <-s.ending.gone:
		case <-late: // it can't be killed, or its end can't be seen
		}
		if s.net != nil {
			seen.Report, seen.GateDied = s.net.stop(ctx)
		}
		<-s.watched
		seen.NoPasta = s.dog.pasta.died()
		seen.Direct, seen.Opened.Up, seen.Opened.Down, err = s.dog.tally()
		s.dog.close()
	}()
	return func(r *Result) error {
		close(late)
		<-done
		r.Report, r.GateDied, r.NoPasta, r.Direct = seen.Report, seen.GateDied, seen.NoPasta, seen.Direct
		r.Opened = s.direct.close()
		r.Opened.Up, r.Opened.Down = seen.Opened.Up, seen.Opened.Down
		return err
	}
}

// verdict is the status of a run whose podman ended with a status of its own.
// The command's is what pid 1 handed over. Without that, a signal's is kept,
// since it tells what happened; any other would pass for the command's.
func (s *Session) verdict(podmans int) (int, error) {
	if status, ok := s.ending.handed(); ok {
		return status, nil
	}
	select {
	case <-s.cut:
		if podmans <= 128 { // a podman that has lost its container has a status of its own
			podmans = 128 + int(unix.SIGKILL)
		}
		return podmans, nil // as asked
	default:
	}
	if podmans <= 128 {
		podmans = podman.StatusPodman
	}
	return podmans, ErrNoStatus
}

// endContainer sees to it that podman and the container end.
func (s *Session) endContainer() {
	defer s.podman.close()
	s.podman.end()
	// podman may have been killed, and the container live on.
	s.entry.Close()
	if s.ending != nil && !within(s.ending.done, killGrace) {
		s.podman.init.signal(unix.SIGKILL)
		within(s.ending.done, endGrace)
	}
	if s.podman.orphan.Load() {
		s.podman.remove(endGrace)
	}
}

// podmanLost is why a sandbox ends whose podman has ended while the command runs: nobody
// else may clean up after it. nil where podman has only been faster with its end than pid 1.
func (s *Session) podmanLost() *Failure {
	select {
	case <-s.cut:
		return nil
	default:
	}
	if within(s.ending.done, killGrace) {
		return nil
	}
	f := s.podman.lostFailure("before it")
	f.Err = fmt.Errorf("the sandbox was stopped: %w", f.Err)
	return f
}

// handle is a process that can be killed though its parent hangs. A pidfd can't
// come to mean another process.
type handle int

const noHandle handle = -1

func openHandle(pid int) handle {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return noHandle // it has ended already
	}
	return handle(fd)
}

// signal reaches root of the container too, since the user owns the user
// namespace above, and by SIGKILL a frozen process.
func (h handle) signal(sig unix.Signal) {
	if h != noHandle {
		_ = unix.PidfdSendSignal(int(h), sig, nil, 0)
	}
}

func (h handle) close() {
	if h != noHandle {
		unix.Close(int(h))
	}
}

// end sees to it that container and podman end, once the command has or the
// lifeline is cut: usually by waiting. A container that is paused can't see the
// end of its lifeline, and a podman whose conmon is stopped never ends.
func (p *podmanProcess) end() {
	if within(p.done, killGrace) {
		if p.init == noHandle && p.status() > 128 {
			p.remove(startGrace) // a signal has ended podman, half way
		}
		return
	}
	p.init.signal(unix.SIGKILL)
	p.conmon.signal(unix.SIGCONT)
	grace := endGrace
	if p.init == noHandle {
		grace = startGrace
	}
	if within(p.done, grace) {
		return
	}
	p.conmon.signal(unix.SIGKILL)
	p.cmd.Process.Kill()
	<-p.done
	p.remove(grace)
}

// remove removes the container, and its pasta, when nobody else does.
func (p *podmanProcess) remove(grace time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), grace)
	defer cancel()
	for range 2 { // without a conmon the first one fails, and notes that the container has ended
		if p.podman.Command(ctx, "rm", "--force", "--time=0", "--ignore", p.name).Run() == nil {
			return
		}
	}
}

// removeEnded removes a container of the name that doesn't run, and reports whether it
// has. One that does is kept: whose it is can't be known.
func (p *podmanProcess) removeEnded(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, startGrace)
	defer cancel()
	return p.podman.Command(ctx, "rm", p.name).Run() == nil
}

func (p *podmanProcess) close() {
	p.init.close()
	p.conmon.close()
}

// within reports whether ch is closed within a time.
func within(ch <-chan struct{}, limit time.Duration) bool {
	select {
	case <-ch:
		return true
	case <-time.After(limit):
		return false
	}
}
