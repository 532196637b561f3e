package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/gate/proc"
)

// gateSide is the host's side of the network: the gate's listener, which this
// process keeps open for the whole run, and the gate's process.
//
// Keeping the listener means that no other process can ever get the gate's
// port, and that clients of a dead gate fail at once instead of hanging.
type gateSide struct {
	listener atomic.Pointer[net.TCPListener] // with Inner nil until the entrypoint has made it
	canary   *net.TCPListener                // nil with Inner; the gate watches it: nobody may come
	log      *os.File
	up       chan struct{} // closed when process or err is set; nil before startGate
	process  *proc.Process
	err      error
	took     time.Duration // from its start to its ready
	stopping atomic.Bool
	died     chan struct{} // closed when the gate ended unasked
	watched  chan struct{} // closed when the watcher is done
}

// gateStopGrace is how long a gate may take to give its report.
const gateStopGrace = 5 * time.Second

// openGate opens the listeners; without a gate it does nothing. The port is
// known then, so podman can start before the gate is up.
func (s *Session) openGate() (endpoints, error) {
	if s.spec.Net != NetAllow {
		return endpoints{}, nil
	}
	side := &gateSide{watched: make(chan struct{}), died: make(chan struct{})}
	s.net = side
	var err error
	side.log, err = os.OpenFile(s.dirs.LogPath(), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return endpoints{}, fmt.Errorf("open the run's log: %w", err)
	}
	at := endpoints{gate: innerGate, key: make([]byte, 32)}
	rand.Read(at.key) // never fails (crypto/rand)
	if s.spec.Backend == Inner {
		return at, nil
	}
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	listener, err := net.ListenTCP("tcp4", loopback)
	if err != nil {
		return endpoints{}, fmt.Errorf("open the gate's listener: %w", err)
	}
	side.listener.Store(listener)
	if side.canary, err = net.ListenTCP("tcp4", loopback); err != nil {
		return endpoints{}, fmt.Errorf("open the canary's listener: %w", err)
	}
	mapped := func(l *net.TCPListener) netip.AddrPort {
		return netip.AddrPortFrom(HostLoopback, l.Addr().(*net.TCPAddr).AddrPort().Port())
	}
	at.gate, at.canary = mapped(listener), mapped(side.canary)
	return at, nil
}

// serveInner gives the gate the listener that the entrypoint has made.
func (s *Session) serveInner(m fdmsg.Message) error {
	if s.net == nil || s.spec.Backend != Inner || s.net.listener.Load() != nil || len(m.Files) != 1 {
		return errors.New("entrypoint sent a listener that nobody asked for")
	}
	ln, err := net.FileListener(m.Files[0])
	if err != nil {
		return fmt.Errorf("keep the gate's listener: %w", err)
	}
	listener, ok := ln.(*net.TCPListener)
	if !ok {
		ln.Close()
		return errors.New("entrypoint sent a listener that is not TCP's")
	}
	s.net.listener.Store(listener)
	return s.net.process.Serve(m.Files[0])
}

// startGate starts the gate beside podman; gateUp waits for it.
func (s *Session) startGate(ctx context.Context, key []byte) {
	side := s.net
	if side == nil {
		return
	}
	cfg := s.spec.Gate
	cfg.Run = s.spec.Name
	cfg.Command = "aisb run"
	cfg.RunDir = s.dirs.Runtime
	cfg.Key = key
	cfg.Enclosed = s.spec.Backend == Inner
	side.up = make(chan struct{})
	begin := time.Now()
	go func() {
		defer close(side.up)
		p, err := proc.Start(ctx, s.host.Exe, cfg, proc.Listeners{
			Gate: side.listener.Load(), Canary: side.canary, Log: side.log,
		})
		if err != nil {
			side.err = fmt.Errorf("start the gate: %w", err)
			return
		}
		side.process, side.took = p, time.Since(begin)
		go side.watch()
	}()
}

// gateUp waits until the gate serves, or says why it doesn't.
func (s *Session) gateUp() error {
	if s.net == nil {
		return nil
	}
	<-s.net.up
	s.trace.took(PartGate, s.net.took)
	return s.net.err
}

// watch waits for the gate's end. If nobody asked for it, it says so and
// answers the gate's clients by closing: they must not wait. So it waits for
// nobody either.
func (g *gateSide) watch() {
	defer close(g.watched)
	<-g.process.Done()
	if g.stopping.Load() {
		return
	}
	close(g.died)
	listener := g.listener.Load()
	if listener == nil {
		return // nobody can have come yet, and the start is about to fail
	}
	for {
		conn, err := listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			conn.Close()
		}
	}
}

// stop ends the gate and returns what it saw, and whether it had ended before.
func (g *gateSide) stop(ctx context.Context) (gate.Report, bool) {
	ctx, cancel := context.WithTimeout(ctx, gateStopGrace)
	defer cancel()
	var report gate.Report
	died := false
	select {
	case <-g.died:
		died = true
	default:
		g.stopping.Store(true)
		var err error
		report, err = g.process.Stop(ctx)
		died = err != nil
	}
	g.close()
	<-g.watched
	return report, died
}

// kill ends a gate whose run never began.
func (g *gateSide) kill() {
	g.stopping.Store(true)
	if g.up != nil {
		<-g.up
	}
	if g.process != nil {
		ctx, cancel := context.WithTimeout(context.Background(), gateStopGrace)
		defer cancel()
		g.process.Stop(ctx)
	}
	g.close()
}

func (g *gateSide) close() {
	if l := g.listener.Load(); l != nil {
		l.Close()
	}
	if g.canary != nil {
		g.canary.Close()
	}
	if g.log != nil {
		g.log.Close()
	}
}

// namePasta finds the run's pasta, checks its arguments and tells the gate, so
// that only this run's connections are served.
func (s *Session) namePasta(pid int) error {
	if s.spec.Net == NetNone || s.spec.Net == NetAllow && s.spec.Backend == Inner {
		return nil // no way out, so nobody to name
	}
	pasta, err := FindPasta("/proc", pid, s.host.UID, mappedLoopback(s.spec.Net))
	if err != nil {
		return &Failure{Status: 78, Err: err, Hint: "see docs/networking.md for what aisb expects of pasta"}
	}
	if s.net == nil {
		return nil
	}
	return s.net.process.Pasta(pasta)
}
