package gate

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// tunnel joins a client and a server after CONNECT. It judges the client's first
// bytes; then each direction is a way, which counts bytes and lets the kernel
// move them.
type tunnel struct {
	g      *Gate
	x      *exchange
	client *clientEnd
	server *serverEnd
	to     netip.AddrPort // the address that was judged, none if an upstream proxy resolved

	passed atomic.Bool // that the client's bytes may go up
	once   sync.Once   // whether they may, and the line that says so
	up     meter
	down   meter
	ways   [2]way       // up and down
	half   atomic.Bool  // one direction has ended
	open   atomic.Int32 // ends that are not closed
	cause  atomic.Pointer[policy.Reason]
}

// clientEnd is the client's side of a tunnel. Before the tunnel exists it is
// what answers are written to.
type clientEnd struct {
	stream
	pending []byte        // what came after the head of CONNECT
	linger  time.Duration // see times
	done    func()        // called when it is closed
	tunnel  *tunnel
	once    sync.Once
}

// serverEnd is the server's side of a tunnel.
type serverEnd struct {
	stream
	tunnel *tunnel
	once   sync.Once
}

// newTunnel joins a client with a connection that was dialled for it, to what was
// judged.
func newTunnel(x *exchange, conn stream, to netip.AddrPort) *tunnel {
	t := &tunnel{g: x.gate, x: x, to: to, client: x.client}
	t.server = &serverEnd{stream: conn, tunnel: t}
	t.client.tunnel = t
	t.up.all, t.down.all = &x.gate.moved.up, &x.gate.moved.down
	up, down := &t.ways[0], &t.ways[1]
	up.init(t, t.client.stream, conn, down, &t.up, x.decision.budget)
	down.init(t, conn, t.client.stream, up, &t.down, nil)
	t.open.Store(2)
	x.gate.flows.add(t)
	return t
}

// run judges the client's first bytes, and then goes with what follows until it
// ends or nothing comes for a while. A server that speaks first is not heard
// before the client has shown what it speaks.
func (t *tunnel) run() {
	defer t.contain()
	if err := t.admit(); err != nil {
		t.cutBy(err)
		t.client.Close()
		t.server.Close()
		return
	}
	go t.ways[1].run()
	t.ways[0].run()
}

// contain turns a panic into the end of this tunnel alone.
func (t *tunnel) contain() {
	if p := recover(); p != nil {
		t.g.logPanic(t.x.from)
		t.client.Close()
		t.server.Close()
	}
}

// errBudget ends what would send more than its rule lets go up.
var errBudget = refusalError{policy.Budget}

// refusalError is a tunnel's end by the gate itself.
type refusalError struct{ reason policy.Reason }

// Error implements error.
func (e refusalError) Error() string { return string(e.reason) }

// admit judges the client's first bytes and sends them up.
func (t *tunnel) admit() error {
	first := t.client.pending
	t.client.pending = nil
	if !t.x.decision.TCP {
		var err error
		if first, err = t.peek(first); err != nil {
			return err
		}
	}
	if err := t.pass(); err != nil {
		return err
	}
	if len(first) > 0 {
		if !t.x.decision.budget.spend(int64(len(first))) {
			return errBudget
		}
		n, err := t.server.stream.Write(first)
		t.up.Add(int64(n))
		if err != nil {
			return err
		}
	}
	return nil
}

// Close implements net.Conn.
func (c *clientEnd) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		if c.tunnel != nil {
			err = c.stream.Close()
			c.tunnel.closed()
		} else {
			err = lingerClose(c.stream, c.linger) // an answer was written
		}
		c.done()
	})
	return err
}

// Close implements net.Conn.
func (s *serverEnd) Close() error {
	err := net.ErrClosed
	s.once.Do(func() {
		err = s.stream.Close()
		s.tunnel.closed()
	})
	return err
}

// pass settles that the tunnel may pass bytes and writes that down, or returns why
// it may not. Whoever cuts it meanwhile waits, so that no end is told of before.
func (t *tunnel) pass() error {
	err := net.ErrClosed // cut before
	t.once.Do(func() {
		t.passed.Store(true)
		err = nil
		if !t.g.logAllow(t.x, t.to) {
			err = refusalError{policy.Limit}
		}
	})
	return err
}

// stay settles that the tunnel passes nothing, unless it does already.
func (t *tunnel) stay() { t.once.Do(func() {}) }

// goes implements flow.
func (t *tunnel) goes() (policy.Target, netip.Addr) {
	return t.x.target, t.to.Addr()
}

// cut implements flow. A TLS client is told by an alert, so that it has
// something better to show than a reset connection.
func (t *tunnel) cut(reason policy.Reason) {
	if !t.cause.CompareAndSwap(nil, &reason) {
		return
	}
	t.stay()
	if reason == policy.NoSNI || reason == policy.SNIMismatch && t.x.greeting().sni != "" {
		// fatal, unrecognized_name (RFC 6066, section 3)
		_, _ = t.client.stream.Write([]byte{21, 3, 1, 0, 2, 2, 112})
	} else {
		reset(t.client.stream)
	}
	reset(t.server.stream)
	t.client.Close()
	t.server.Close()
}

// reset makes the close of a connection a reset. What is cut must not look like
// what has ended: a server would take half an upload for the whole, and a client
// such as nc goes on waiting after a mere end.
func reset(s stream) {
	if c, ok := s.(interface{ SetLinger(int) error }); ok {
		_ = c.SetLinger(0) // where it fails, the connection is closed all the same
	}
}

// cutBy cuts the tunnel if the error is a reason to.
func (t *tunnel) cutBy(err error) {
	if r, ok := errors.AsType[refusalError](err); ok {
		t.cut(r.reason)
	}
}

// closed notes that one end is closed; after the second the tunnel is history.
func (t *tunnel) closed() {
	if t.open.Add(-1) == 0 {
		t.stay() // it went away in the middle of its first bytes
		t.g.idle.forget(&t.ways[0])
		t.g.idle.forget(&t.ways[1])
		t.g.logClose(t)
		t.g.flows.remove(t)
	}
}
