// Package gate is a forward proxy that connects only where a policy allows.
//
// A connection passes these steps, each in a file of its own: the client is
// checked (clients.go); its first head is read and checked (front.go, head.go);
// the target is decided, resolved and its addresses judged (decide.go); one of
// these addresses is dialled (dial.go). goproxy serves both methods (engine.go).
// It hands a CONNECT that is allowed back to the gate, which judges the first
// bytes (tunnel.go), moves and counts the rest (way_linux.go) and keeps what is
// silent (idle_linux.go). Plain HTTP it relays, behind a connection that lets
// net/http see checked bytes alone (checkedconn.go).
package gate

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/aisb-dev/aisb/gate/metrics"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// Config is what a gate is made of. A gate has one policy; other listeners with
// other policies are other gates, which may share resolver and log.
type Config struct {
	Policy   *policy.Policy // nil allows nothing
	Resolver *resolve.Resolver
	Log      *Log
	Clients  Clients
	Tokens   *Tokens // that clients must have one of; nil asks for none
	Key      []byte  // proves to a client which gate it talks to; nil proves nothing
	Command  string  // what an --allow is added to, in answers: "aisb run"
	MaxConns int     // connections at once, 0 is DefaultMaxConns

	Metrics  *metrics.Metrics // nil counts nothing
	Upstream *Upstream        // the proxy to connect through, nil for none
}

// DefaultMaxConns leaves room for some ten thousand tunnels that are silent.
const DefaultMaxConns = 16384

// Gate is a proxy. It is made by New, runs in Serve and ends by Drain.
type Gate struct {
	resolver *resolve.Resolver
	log      *Log
	clients  Clients
	key      []byte
	command  string

	policy  atomic.Pointer[policy.Policy]
	tokens  atomic.Pointer[Tokens] // nil asks for none
	own     ownAddrs
	diag    diag
	names   nameCap
	counts  counts
	metrics *metrics.Metrics
	moved   struct{ up, down atomic.Int64 } // bytes of all flows, ended or not
	budgets budgets
	times   times

	upstream  *Upstream // nil connects directly
	flows     flows
	idle      idlers
	lastID    atomic.Uint64
	slots     chan struct{} // one a connection
	lingering chan struct{} // one a connection that got none, see turnAway
	large     chan struct{} // one a large head that has not ended
	underWay  weight        // of large heads whose requests have not

	engine    *goproxy.ProxyHttpServer
	transport *http.Transport
	server    *http.Server
	handover  chan net.Conn // to server

	ending    chan struct{} // closed when Drain begins
	endOnce   sync.Once
	fronts    sync.WaitGroup    // goroutines of connections whose head is awaited
	frontsMu  sync.Mutex        // of what follows
	waiting   map[net.Conn]bool // connections of fronts
	listeners []net.Listener
	ended     bool
}

// New makes a gate.
func New(c Config) (*Gate, error) {
	if c.Resolver == nil || c.Log == nil {
		return nil, errors.New("a gate needs a resolver and a log")
	}
	if c.MaxConns == 0 {
		c.MaxConns = DefaultMaxConns
	}
	if c.Command == "" {
		c.Command = "aisb gate"
	}
	g := &Gate{
		resolver: c.Resolver, log: c.Log, clients: c.Clients, key: c.Key, command: c.Command, metrics: c.Metrics, upstream: c.Upstream,
		names:     nameCap{limit: newNames},
		times:     patient(),
		slots:     make(chan struct{}, c.MaxConns),
		lingering: make(chan struct{}, maxLingering),
		large:     make(chan struct{}, maxLarge),
		underWay:  weight{limit: maxUnderWay},
		handover:  make(chan net.Conn),
		ending:    make(chan struct{}),
		waiting:   make(map[net.Conn]bool),
	}
	g.policy.Store(c.Policy)
	g.tokens.Store(c.Tokens)
	if c.Policy == nil {
		g.policy.Store(&policy.Policy{})
	}
	g.watch()
	g.transport = newTransport(g)
	g.engine = newEngine(g)
	g.server = &http.Server{ //nolint:gosec // each head has its deadline in front.go, before this server sees it
		Handler:                      http.HandlerFunc(g.serveHTTP),
		ConnContext:                  withChecked,
		IdleTimeout:                  g.times.idle,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     log.New(io.Discard, "", 0),
	}
	return g, nil
}

// times bound how long a client or an origin may take. They are fields, so that a test need
// not wait for as long.
type times struct {
	idle     time.Duration // between requests, to the end of the next head
	head     time.Duration // for the first head of a connection
	hello    time.Duration // for the first bytes in a tunnel
	halfOpen time.Duration // that a tunnel may be silent after one direction has ended
	linger   time.Duration // to take an answer while it still sends what nobody wants
	ask      time.Duration // that an origin may take to ask for a body, see askAfter
}

// patient are the times of a gate in use. A tunnel that is silent in both
// directions has none: models think for long, and a peer that is gone is found
// by keep-alive.
func patient() times {
	return times{idle: 2 * time.Minute, head: 20 * time.Second, hello: 10 * time.Second, halfOpen: 5 * time.Minute, linger: 500 * time.Millisecond, ask: askAfter}
}

// Serve accepts clients until the listener is closed, by Drain or else.
func (g *Gate) Serve(ln net.Listener) error {
	inheritKeepAlive(ln)
	if !g.listens(ln) {
		ln.Close()
		return nil
	}
	var all sync.WaitGroup
	all.Go(func() { _ = g.server.Serve(&chanListener{conns: g.handover, ending: g.ending, addr: ln.Addr()}) })
	err := g.accept(ln)
	g.end()
	all.Wait()
	g.fronts.Wait()
	return err
}

// accept takes connections. When the process is out of descriptors or memory,
// it waits a little: those who are connected may go, and then there is room.
func (g *Gate) accept(ln net.Listener) error {
	const firstPause, longestPause = 5 * time.Millisecond, time.Second
	pause := firstPause
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			pause = firstPause
			g.front(conn)
			continue
		case errors.Is(err, net.ErrClosed):
			return nil
		case !isTemporary(err):
			return err
		}
		select {
		case <-g.ending:
			return nil
		case <-time.After(pause):
			pause = min(pause*2, longestPause)
		}
	}
}

// listens notes what end has to close, unless that has been.
func (g *Gate) listens(ln net.Listener) bool {
	g.frontsMu.Lock()
	defer g.frontsMu.Unlock()
	if !g.ended {
		g.listeners = append(g.listeners, ln)
	}
	return !g.ended
}

// end stops accepting, once. When it returns, nobody gets a connection any more.
func (g *Gate) end() {
	g.endOnce.Do(func() {
		close(g.ending)
		g.frontsMu.Lock()
		defer g.frontsMu.Unlock()
		g.ended = true
		for _, ln := range g.listeners {
			ln.Close()
		}
	})
}

// Drain stops accepting, lets requests and tunnels end, and cuts what is left
// when ctx is done. When it returns, the log has the ends of them all.
func (g *Gate) Drain(ctx context.Context) {
	g.end()
	g.frontsMu.Lock()
	for conn := range g.waiting { // they have not asked for anything yet
		conn.SetReadDeadline(time.Unix(1, 0))
	}
	g.frontsMu.Unlock()
	shut := g.server.Shutdown(ctx) // closes idle connections, waits for requests
	g.flows.wait(ctx)
	g.flows.cutAll(policy.Shutdown)
	g.idle.close()
	if shut != nil {
		g.server.Close()
	}
	g.transport.CloseIdleConnections()
	// A request that was cut is told of by its handler, which has nothing left to wait for.
	last, cancel := context.WithTimeout(context.Background(), g.times.linger/2)
	defer cancel()
	g.flows.wait(last)
}

// SetPolicy replaces the policy. What is under way and would be refused now is
// cut; it returns how much that was.
func (g *Gate) SetPolicy(p *policy.Policy) (cut int) {
	g.policy.Store(p)
	g.transport.CloseIdleConnections()
	return g.flows.cutWhere(policy.PolicyChanged, func(f flow) bool { return refuses(p, f) })
}

// refuses reports whether a policy refuses what is under way.
func refuses(p *policy.Policy, f flow) bool {
	target, addr := f.goes()
	if isReserved(target.Host) {
		return false
	}
	d := p.Decide(target)
	if !d.Allow {
		return true
	}
	if t, ok := f.(*tunnel); ok && t.x.decision.TCP && !d.TCP {
		return true // nobody has looked at what is spoken in it
	}
	return d.Reason != policy.HostService && addr.IsValid() && p.CheckAddr(d, addr, target.Port) != d.Reason
}

// recheck cuts what has just been connected if a reload came between its
// decision and now: SetPolicy could not see it, or not where it leads.
func (g *Gate) recheck(f flow, d *decision) {
	if p := g.policy.Load(); p != d.under && refuses(p, f) {
		f.cut(policy.PolicyChanged)
	}
}

// addrOf is the peer of a connection.
func addrOf(c net.Conn) netip.AddrPort {
	if a, ok := c.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		return netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	return netip.AddrPort{}
}
