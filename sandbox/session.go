package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// Host is what a run uses of the machine.
type Host struct {
	Self   *os.File // the running binary
	Exe    string   // its path, to start the gate from: /proc/self/exe
	Podman podman.Podman
	Conf   podman.Conf
	Paths  Paths
	UID    int

	Version string // of this aisb, for who asks a sandbox
}

// Events are told by the goroutine that called Start, while a run starts. Nil
// fields are skipped.
type Events struct {
	Mounted func()                // the container is there, with its volumes, and nothing of it runs yet
	Stage   func(handshake.Stage) // each stage of the entrypoint
	Warn    func(string)          // something is less than was asked for
	Part    func(Part)            // what a part of the run took, when it ends, from Wait too
}

// Result is how a run ended.
type Result struct {
	Status   int
	Started  bool        // the command ran
	Err      error       // why it didn't, or what went wrong outside it
	Hint     string      // what to do about Err
	Report   gate.Report // what the gate saw; zero without a gate
	GateDied bool        // the gate ended before it was asked to
	NoPasta  bool        // pasta ended before the command
	Proof    []handshake.ProbeResult
	Log      string   // the gate's log file
	Stopped  *Failure // why the watchdog ended it; nil if it didn't
	Direct   uint64   // packets that tried to get past the gate, all refused
	Opened   Opened   // with NetNoGate
	Joined   []string // sandboxes with other rights whose files it shared
	Planted  Planted  // what the host would execute and is new or other
	Foreign  int64    // connections of other users to published ports, all refused
}

// Session is a run. Its methods are safe for concurrent use.
type Session struct {
	spec  Spec
	host  Host
	on    Events
	trace tracer
	dirs  RunDirs

	binary string // that the container runs

	reachable
	giveUp  context.CancelCauseFunc // ends the start
	running chan struct{}           // closed when the command is about to run
	aborted chan struct{}           // closed when the start has failed
	asked   chan struct{}           // a slot for each exec that pid 1 hasn't answered
	proxy   []environ.Var           // of all commands

	dog     watchdog
	net     *gateSide   // nil without a gate
	direct  *directSide // nil with one
	ports   *published  // nil before start
	entry   *fdmsg.Conn // lifeline of the container
	podman  *podmanProcess
	ending  *ending // nil before the entrypoint has handed its descriptors out
	cut     chan struct{}
	kill    sync.Once
	stdio   Stdio
	proof   []handshake.ProbeResult
	created time.Time
	started time.Time
	policy  netpolicy.Spec // of the fence
	watched chan struct{}  // closed when watch is done
	disks   chan struct{}  // closed when watchDisks is

	appeared chan string // see Appeared
}

// Start starts a run and returns when its command is about to. On error
// nothing is left behind, and the error is a *Failure where a status is known.
func Start(ctx context.Context, host Host, spec Spec, on Events) (*Session, error) {
	trace := tracer{tell: on.Part, since: time.Now()}
	dirs, err := host.Paths.enter(ctx, spec)
	if err != nil {
		return nil, startFailure(ctx, err)
	}
	s := &Session{
		spec: spec, host: host, on: on, trace: trace, dirs: dirs, created: time.Now(),
		cut: make(chan struct{}), running: make(chan struct{}), aborted: make(chan struct{}),
		asked: make(chan struct{}, maxAsked), watched: make(chan struct{}), disks: make(chan struct{}),
		appeared: make(chan string, 16),
	}
	ctx, s.giveUp = context.WithCancelCause(ctx)
	if err := s.start(ctx); err != nil {
		s.abort()
		return nil, startFailure(ctx, err)
	}
	close(s.running)
	s.ports.serve(s.dialInside)
	return s, nil
}

// start is the order of docs/architecture.md: gate and podman side by side, pasta named
// to the gate, then the entrypoint gets its go.
func (s *Session) start(ctx context.Context) error {
	var err error
	s.dog.room, s.dog.min = s.keepRoom(), s.spec.MinFree
	if f := s.dog.lookForRoom(); f != nil { // first: all that follows writes
		return f
	}
	if s.ports, err = listen(s.spec.Publish, s.host.UID); err != nil {
		return err
	}
	at, err := s.openGate()
	if err != nil {
		return err
	}
	if err := s.openDirect(ctx, &at); err != nil {
		return err
	}
	s.startGate(ctx, at.key)
	if s.binary, err = EntryBinary(s.host.Paths.Cache, s.host.Self); err != nil {
		return err
	}
	if at.files, err = s.layFiles(); err != nil {
		return err
	}
	c := s.spec.container(s.binary, s.host.Conf, at)
	s.trace.part(PartPrepare)
	pid, err := s.launch(ctx, c)
	if err != nil {
		return err
	}
	s.trace.part(PartPodman)
	if err := s.gateUp(); err != nil {
		return err
	}
	if err := s.openControl(); err != nil {
		return err
	}
	if err := s.namePasta(pid); err != nil {
		return err
	}
	s.trace.part(PartPasta)
	if at, err = at.reachable(pid); err != nil {
		return s.goneOr(err)
	}
	if err := s.sendGo(c, at); err != nil {
		return err
	}
	if err := s.stages(ctx); err != nil {
		return err
	}
	s.direct.proved()
	go s.watch()
	return nil
}

// sendGo tells the entrypoint everything.
func (s *Session) sendGo(c podman.Container, at endpoints) error {
	cfg, err := s.spec.handshake(c, at)
	if err != nil {
		return err
	}
	s.proxy = s.spec.proxy(at)
	if cfg.Fence != nil {
		s.policy = cfg.Fence.Settled()
	}
	if err := s.entry.Send(cfg); err != nil {
		return s.podmanFailure(fmt.Errorf("entrypoint ended without a word: %w", err))
	}
	return nil
}

// Stdio are the command's descriptors; the caller closes them.
func (s *Session) Stdio() Stdio { return s.stdio }

// Started is when the command was about to run.
func (s *Session) Started() time.Time { return s.started }

// Signal sends sig to the command. It never waits: a paused container reads nothing,
// and whoever ends the run must not be held up by that.
func (s *Session) Signal(sig syscall.Signal) error {
	return s.entry.SendNow(handshake.Control{Signal: int(sig)})
}

// Kill ends the container at once: its first process sees the end of file.
func (s *Session) Kill() {
	pause(pointKill)
	s.kill.Do(func() {
		close(s.cut)
		s.entry.Close()
	})
}

// abort undoes a start that failed: whatever runs is ended and waited for.
func (s *Session) abort() {
	close(s.aborted)
	defer s.closeControl()
	s.ports.close()
	if s.podman != nil && s.podman.lost() { // before pid 1 ends with the lifeline
		s.podman.orphan.Store(true)
	}
	if s.entry != nil {
		s.entry.Close()
	}
	if s.podman != nil {
		s.endContainer()
	}
	if s.net != nil {
		s.net.kill()
	}
	s.direct.close()
	s.stdio.close()
	s.dog.close()
	s.dirs.Remove()
}

// stages reads what the entrypoint reports until the command is about to run.
func (s *Session) stages(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { s.entry.Close() })
	defer stop()
	for {
		var st handshake.Stage
		m, err := s.entry.Recv(&st)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return s.podmanFailure(fmt.Errorf("entrypoint ended without a word: %w", err))
		}
		if s.on.Stage != nil {
			s.on.Stage(st)
		}
		if st.Error != "" {
			m.Close()
			return &Failure{Status: st.Status, Err: errors.New(st.Error), Hint: st.Hint}
		}
		s.trace.inside(st)
		if s.podman.lost() {
			m.Close()
			return s.podman.lostFailure("before the command ran")
		}
		switch st.Stage {
		case handshake.Fenced:
			if err := s.fenced(st, m); err != nil {
				m.Close()
				return err
			}
			continue // the socket stays open
		case handshake.Proved:
			s.proof = st.Probes
			if err := errors.Join(s.keepProof(st.Probes), s.dog.arm()); err != nil {
				return err
			}
		case handshake.Dropped:
			if err := s.dog.arm(); err != nil {
				return err
			}
		case handshake.Stdio:
			if err := s.takeStdio(m); err != nil {
				return err
			}
			continue
		case handshake.Listening:
			if err := s.serveInner(m); err != nil {
				return err
			}
		case handshake.Start:
			if err := s.complete(); err != nil {
				return err
			}
			s.started = time.Now()
			s.trace.since = s.started
			return nil
		}
		m.Close()
	}
}
