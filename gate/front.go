package gate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// exchange is one request of a client and what became of it.
type exchange struct {
	gate   *Gate
	id     uint64
	begin  time.Time
	from   netip.AddrPort
	method string
	target policy.Target
	head   *head // of plain HTTP

	decision *decision
	refusal  *refusal
	client   *clientEnd // of CONNECT
	joining  *joining   // of CONNECT
	stood    func()     // says that the tunnel stands, if its front waits for that
	hello    atomic.Pointer[hello]
}

func (g *Gate) newExchange(h *head, from netip.AddrPort) *exchange {
	return &exchange{
		gate: g, id: g.lastID.Add(1), begin: time.Now(), from: from,
		method: h.method, target: h.target, head: h,
	}
}

// exchangeKey finds the exchange in a request's context.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// front serves a new connection in a goroutine of its own, if there is room.
func (g *Gate) front(conn net.Conn) {
	c, ok := conn.(stream)
	if !ok {
		conn.Close()
		return
	}
	select {
	case g.slots <- struct{}{}:
	default:
		g.turnAway(c)
		return
	}
	if !g.wait(c) {
		c.Close()
		<-g.slots
		return
	}
	leave := sync.OnceFunc(func() { <-g.slots })
	g.fronts.Add(1)
	// A tunnel goes on in this goroutine, and is no front's business then.
	stood := sync.OnceFunc(g.fronts.Done)
	go func() {
		defer stood()
		kept := false
		defer func() {
			// One request must not end the gate for all others.
			if p := recover(); p != nil {
				g.logPanic(addrOf(c))
				kept = false
			}
			g.unwait(c)
			if !kept {
				c.Close()
				leave()
			}
		}()
		kept = g.serveFirst(c, leave, stood)
	}()
}

// maxLingering are the connections without room that are closed with patience. Each costs a
// goroutine and a buffer for times.linger at most.
const maxLingering = 64

// turnAway refuses a connection for which there is no room. Everyone waiting would be worse
// off with one more, so that is said quickly; and who calls it accepts for all of them, so
// it waits for nobody. Of a crowd the first have the time to read the answer while they
// still send (see lingerClose), and the rest may see a reset in its place: what
// comes by thousands is not to cost more than a refusal.
func (g *Gate) turnAway(c stream) {
	r := &refusal{reason: policy.Limit, status: http.StatusServiceUnavailable, why: "too many connections"}
	g.counts.limited.Add(1)
	g.metrics.Decision(string(EventError), policy.Limit) // a flood of lines would help nobody
	c.SetWriteDeadline(time.Now().Add(time.Second))
	_ = r.write(c, "", g.command)
	select {
	case g.lingering <- struct{}{}:
	default:
		c.Close()
		return
	}
	c.CloseWrite()
	c.SetReadDeadline(time.Now().Add(g.times.linger)) // and then wait: Drain may set another
	if !g.wait(c) {
		c.Close()
		<-g.lingering
		return
	}
	g.fronts.Go(func() {
		defer func() { <-g.lingering }()
		discard(c)
		g.unwait(c)
		c.Close()
	})
}

// wait notes a connection that Drain has to end. One that comes after it was accepted
// just before.
func (g *Gate) wait(c net.Conn) bool {
	g.frontsMu.Lock()
	defer g.frontsMu.Unlock()
	if !g.ended {
		g.waiting[c] = true
	}
	return !g.ended
}

func (g *Gate) unwait(c net.Conn) {
	g.frontsMu.Lock()
	delete(g.waiting, c)
	g.frontsMu.Unlock()
}

// serveFirst reads the first head and sends the connection on its way: CONNECT
// to goproxy at once, all else behind a checkedConn to net/http. It reports
// whether somebody else closes the connection now.
func (g *Gate) serveFirst(c stream, leave, stood func()) (kept bool) {
	from := addrOf(c)
	switch reason, err := g.CheckClient(c); {
	case errors.Is(err, errGone):
		return false
	case err != nil:
		g.unknown(c, from)
		return false
	case reason != "":
		g.foreign(c, from, reason)
		return false
	}
	c.SetReadDeadline(time.Now().Add(g.times.head))
	select {
	case <-g.ending: // Drain may have set its deadline before ours
		return false
	default:
	}
	room := &place{places: g.large}
	defer room.leave()
	b, err := readHead(c, room)
	if fault, ok := errors.AsType[*badRequest](err); ok {
		g.answer(c, from, malformed(fault))
		return false
	}
	if err != nil {
		return false
	}
	g.unwait(c)
	c.SetReadDeadline(time.Time{})
	skip := 0
	if len(b) > 1 && b[0] == '\r' && b[1] == '\n' { // RFC 9112, section 2.2
		skip = 2
	}
	end := headEnd(b, skip)
	if end == 0 { // the checker may see it a byte shorter, and net/http would wait for more without a limit
		g.answer(c, from, malformed(errLargeHead))
		return false
	}
	if end-skip > maxHead || !isConnect(b[skip:]) {
		return g.hand(c, b, leave)
	}
	h := parseHead(b[skip:end])
	if h.bad != nil {
		g.answer(c, from, malformed(h.bad))
		return false
	}
	x := g.newExchange(h, from)
	if r := g.unauthorized(h); r != nil {
		g.answerFor(x, c, r)
		return false
	}
	x.head = nil
	x.client = &clientEnd{stream: c, pending: append([]byte(nil), b[end:]...), linger: g.times.linger, done: leave}
	x.stood = stood
	room.leave() // the tunnel may last for days
	g.connect(x, &connectWriter{x: x})
	return true
}

func isConnect(b []byte) bool {
	const method = "CONNECT "
	return len(b) > len(method) && string(b[:len(method)]) == method
}

// hand gives a connection with the bytes read from it to net/http.
func (g *Gate) hand(c stream, b []byte, leave func()) bool {
	k := &checkedConn{stream: c, gone: leave, room: place{places: g.large}, linger: g.times.linger}
	k.check.feed(b)
	select {
	case g.handover <- k:
		return true
	case <-g.ending:
		return false
	}
}

// connect lets goproxy serve a CONNECT.
func (g *Gate) connect(x *exchange, w http.ResponseWriter) {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: x.target.String()}, Host: x.target.String(),
		ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{}, Body: http.NoBody, RemoteAddr: x.from.String(),
	}
	ctx := g.join(x)
	defer x.joining.end()
	g.engine.ServeHTTP(w, req.WithContext(ctx))
}

// answer refuses a connection whose request has no exchange.
func (g *Gate) answer(c stream, from netip.AddrPort, r *refusal) {
	g.answerFor(&exchange{gate: g, id: g.lastID.Add(1), from: from, begin: time.Now()}, c, r)
}

// answerFor refuses a request on a connection that nothing else is written to.
func (g *Gate) answerFor(x *exchange, c stream, r *refusal) {
	g.logRefusal(x, r)
	g.parting(c, r)
}

// parting says to a client that nothing else comes.
func (g *Gate) parting(c stream, r *refusal) {
	c.SetWriteDeadline(time.Now().Add(g.times.linger))
	_ = r.write(c, "", g.command)
	_ = lingerClose(c, g.times.linger)
}

// foreign refuses a client that may not use this gate. It is not told why.
func (g *Gate) foreign(c stream, from netip.AddrPort, reason policy.Reason) {
	g.counts.foreign.Add(1)
	g.write(Record{Event: EventForeign, ID: g.lastID.Add(1), Reason: reason, Client: from})
	g.parting(c, &refusal{reason: reason, status: http.StatusForbidden, why: "this gate serves other clients"})
}

// unknown refuses a client that can't be told from others, for want of
// descriptors as a rule. It may come again.
func (g *Gate) unknown(c stream, from netip.AddrPort) {
	g.counts.limited.Add(1)
	g.write(Record{Event: EventError, ID: g.lastID.Add(1), Reason: policy.Limit, Client: from})
	g.parting(c, &refusal{reason: policy.Limit, status: http.StatusServiceUnavailable, why: "the gate is out of resources"})
}

// lingerClose closes a connection so that an answer arrives: closed with
// unread bytes, a connection is reset, and a reset overtakes what was sent
// (RFC 9112, section 9.6). It takes no longer than within.
func lingerClose(c stream, within time.Duration) error {
	c.CloseWrite()
	c.SetReadDeadline(time.Now().Add(within))
	discard(c)
	return c.Close()
}

// discard reads what nobody wants, if that is not for ever.
func discard(c stream) { _, _ = io.CopyN(io.Discard, c, 1<<20) }

// isTemporary reports errors of accept(2) that pass.
func isTemporary(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.EPROTO, syscall.EINTR, syscall.EPERM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
