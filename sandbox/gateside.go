package sandbox

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/gate/proc"
)

// gateSide is the host's side of the network: the gate's listeners, which this
// process keeps open for the whole run, and the gate's process.
//
// Keeping the listeners means that no other process can ever get the gate's
// ports, and that clients of a dead gate fail at once instead of hanging.
type gateSide struct {
	sockets  proc.Listeners                  // with Inner the log alone
	inner    atomic.Pointer[net.TCPListener] // with Inner, once the entrypoint has made it
	up       chan struct{}                   // closed when process or err is set; nil before startGate
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
	log, err := os.OpenFile(s.dirs.LogPath(), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return endpoints{}, fmt.Errorf("open the run's log: %w", err)
	}
	side.sockets.Log = log
	at := endpoints{gate: innerGate, key: make([]byte, 32)}
	rand.Read(at.key) // never fails (crypto/rand)
	if s.spec.Backend == Inner {
		return at, nil
	}
	four, six := net.IPv4(127, 0, 0, 1), net.IPv6loopback
	for _, l := range []struct {
		to **net.TCPListener
		ip net.IP
	}{{&side.sockets.Gate, four}, {&side.sockets.Canary, four}, {&side.sockets.Gate6, six}, {&side.sockets.Canary6, six}} {
		if *l.to, err = net.ListenTCP("tcp", &net.TCPAddr{IP: l.ip}); err == nil {
			continue
		}
		if l.ip.To4() == nil && (errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.EAFNOSUPPORT)) {
			break // a host without IPv6
		}
		return endpoints{}, fmt.Errorf("open the gate's listeners: %w", err)
	}
	at.gate, at.canaries = mapped(side.sockets.Gate), []netip.AddrPort{mapped(side.sockets.Canary)}
	if side.sockets.Canary6 != nil {
		at.gate6, at.canaries = mapped(side.sockets.Gate6), append(at.canaries, mapped(side.sockets.Canary6))
	}
	return at, nil
}

// mapped is where a listener on the host's loopback is for the container.
func mapped(l *net.TCPListener) netip.AddrPort {
	at := l.Addr().(*net.TCPAddr).AddrPort()
	if at.Addr().Is6() {
		return netip.AddrPortFrom(HostLoopback6, at.Port())
	}
	return netip.AddrPortFrom(HostLoopback, at.Port())
}

// serveInner gives the gate the listener that the entrypoint has made.
func (s *Session) serveInner(m fdmsg.Message) error {
	if s.net == nil || s.spec.Backend != Inner || s.net.inner.Load() != nil || len(m.Files) != 1 {
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
	s.net.inner.Store(listener)
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
		p, err := proc.Start(ctx, s.host.Exe, cfg, side.sockets)
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

// GateDied is closed when the gate has ended although nobody asked it to. It is
// nil, and so never closed, without a gate.
func (s *Session) GateDied() <-chan struct{} {
	if s.net == nil {
		return nil
	}
	return s.net.died
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
	var all sync.WaitGroup
	for _, l := range []*net.TCPListener{g.sockets.Gate, g.sockets.Gate6, g.inner.Load()} {
		if l != nil { // with Inner there is none before the entrypoint has made it, and the start is about to fail
			all.Go(func() { refuse(l) })
		}
	}
	all.Wait()
}

// refusePause is how long a client may wait when there is no descriptor for it.
const refusePause = 10 * time.Millisecond

// refuse closes each connection until the listener is closed.
func refuse(l *net.TCPListener) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			// Out of descriptors, most likely: until others are closed there is nothing to do.
			time.Sleep(refusePause)
			continue
		}
		conn.Close()
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
	at := g.sockets
	for _, l := range []*net.TCPListener{at.Gate, at.Canary, at.Gate6, at.Canary6, g.inner.Load()} {
		if l != nil {
			l.Close()
		}
	}
	if at.Log != nil {
		at.Log.Close()
	}
}

// namePasta finds the run's pasta, checks its arguments and tells the gate, so
// that only this run's connections are served.
func (s *Session) namePasta(pid int) error {
	if s.spec.Net == NetNone || s.spec.Net == NetAllow && s.spec.Backend == Inner {
		return nil // no way out, so nobody to name
	}
	pasta, err := FindPasta("/proc", pid, s.host.UID, s.spec.Net)
	if err != nil && s.podman.lost() {
		return s.podman.lostFailure("before the command ran")
	}
	if err != nil {
		return &Failure{Status: 78, Err: err, Hint: "see docs/networking.md for what aisb expects of pasta"}
	}
	s.dog.pasta = newPastaEnd(pasta)
	if s.net == nil {
		return nil
	}
	return s.net.process.Pasta(pasta)
}
