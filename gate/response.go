package gate

import (
	"bufio"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// responseWriter is what goproxy writes the answer of a plain HTTP request to.
// It sends on at once what comes, counts it, and writes refusals itself,
// because net/http knows no reason phrases of ours.
type responseWriter struct {
	http.ResponseWriter
	x    *exchange
	conn *checkedConn

	err     error // of the round trip
	up      meter
	down    meter
	refused bool
	told    bool     // the log has what became of it
	handed  bool     // to a tunnel, which tells of itself
	broken  bool     // the origin's answer has broken off
	taken   net.Conn // the raw connection after Hijack
	allowed atomic.Bool
	to      atomic.Pointer[netip.Addr] // what it is connected to
	cause   atomic.Pointer[policy.Reason]

	body   *countedBody // of the request; nil if there is none
	answer answerHead
	origin atomic.Pointer[originConn] // what it goes out on

	early sync.Mutex // held while an interim answer is written
	over  bool       // no interim answer goes out any more
}

// errSwitched reports a change of protocol that was not asked for.
var errSwitched = errors.New("answer switches to another protocol")

// errStatus reports an answer whose status is none (RFC 9110, section 15).
var errStatus = errors.New("answer has no valid status")

// WriteHeader implements http.ResponseWriter.
func (w *responseWriter) WriteHeader(status int) {
	if r := w.x.refusal; r != nil {
		w.refuse(r)
		return
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter. Each piece leaves at once: who streams
// does so for a reason, and an answer in one piece has one flush.
func (w *responseWriter) Write(p []byte) (int, error) {
	if w.refused {
		return len(p), nil
	}
	n, err := w.ResponseWriter.Write(p)
	w.down.Add(int64(n))
	if err == nil {
		err = http.NewResponseController(w.ResponseWriter).Flush()
	}
	return n, err
}

// ReadFrom implements io.ReaderFrom, with a shared buffer.
func (w *responseWriter) ReadFrom(src io.Reader) (int64, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{src}, *buf)
}

// Flush implements http.Flusher.
func (w *responseWriter) Flush() {
	if !w.refused {
		_ = http.NewResponseController(w.ResponseWriter).Flush()
	}
}

// interim sends an answer before the answer (103 and the like). The goroutine that
// calls it is the Transport's, and goes on after a round trip has failed.
func (w *responseWriter) interim(code int, header http.Header) error {
	if code < 100 || code > 199 || code == http.StatusSwitchingProtocols || w.x.head.http10 {
		return nil // HTTP/1.0 knows no interim answers (RFC 9110, section 15.2)
	}
	w.early.Lock()
	defer w.early.Unlock()
	if w.over {
		return nil
	}
	h := w.Header()
	maps.Copy(h, header)
	stripHopByHop(h)
	stripOwn(h)
	w.ResponseWriter.WriteHeader(code)
	clear(h)
	return nil
}

// proceed asks the client for a body that it keeps back, unless the answer has come.
func (w *responseWriter) proceed(b *countedBody) bool {
	w.early.Lock()
	defer w.early.Unlock()
	if w.over {
		return false
	}
	w.ResponseWriter.WriteHeader(http.StatusContinue)
	b.kept.Store(false)
	return true
}

// endInterim leaves the header and the connection to the answer itself.
func (w *responseWriter) endInterim() {
	w.early.Lock()
	defer w.early.Unlock()
	w.over = true
}

// refuse writes a refusal on the raw connection and closes it. What was cut fails in some
// way or another, which is no news: finish tells of the cut.
func (w *responseWriter) refuse(r *refusal) {
	if w.refused {
		return
	}
	w.refused = true
	if w.told = !w.wasCut(); w.told {
		w.x.gate.logRefusal(w.x, r)
	}
	raw, err := w.takeOver()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.taken = nil
	within := w.x.gate.times.linger
	raw.SetWriteDeadline(time.Now().Add(within))
	_ = r.write(raw, w.x.method, w.x.gate.command)
	_ = lingerClose(raw.stream, within)
	raw.Close()
}

// takeOver takes the connection from net/http.
func (w *responseWriter) takeOver() (*checkedConn, error) {
	_, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		return nil, err
	}
	// What net/http has read ahead goes back to the front of the connection.
	ahead, _ := rw.Reader.Peek(rw.Reader.Buffered())
	w.conn.unread(ahead)
	w.conn.stream.SetDeadline(time.Time{})
	w.taken = w.conn
	return w.conn, nil
}

// Hijack implements http.Hijacker, for goproxy to relay after an upgrade.
func (w *responseWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	c, err := w.takeOver()
	if err != nil {
		return nil, nil, err
	}
	return c, &bufio.ReadWriter{}, nil
}

// connect serves a CONNECT that was not the first request of its connection.
func (w *responseWriter) connect() {
	c, err := w.takeOver()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	w.taken, w.handed = nil, true
	w.x.head = nil // the tunnel may last for days
	w.x.client = &clientEnd{stream: c.stream, pending: c.release(), linger: c.linger, done: func() { c.once.Do(c.gone) }}
	w.x.gate.connect(w.x, &connectWriter{x: w.x})
}

// failure is the refusal for a round trip that brought no answer.
func (w *responseWriter) failure() *refusal {
	x := w.x
	if frame := w.conn.badFrame(); frame != nil {
		r := malformed(frame)
		r.what = x.method + " " + x.target.String()
		return r
	}
	if c := w.cause.Load(); c != nil && *c == policy.Budget {
		return overBudget(x)
	}
	if w.answer.crowded() {
		r := exhausted(x.method, x.target, x.decision.Decision)
		r.why = errCrowdedAnswer.Error()
		return r
	}
	if !w.allowed.Load() { // no connection was got
		return dialFailure(x, w.err)
	}
	status := http.StatusBadGateway
	if isTimeout(w.err) {
		status = http.StatusGatewayTimeout
	}
	return failure(x.method, x.target, x.decision.Decision, policy.UpstreamFailure, status)
}

// connected notes the connection that the request goes out on. A retry has
// another, and no second line in the log.
func (w *responseWriter) connected(conn net.Conn) {
	to := addrOf(conn)
	addr := to.Addr()
	w.to.Store(&addr)
	if c, ok := conn.(*originConn); ok {
		w.origin.Store(c)
		c.user.Store(w)
	}
	if w.allowed.CompareAndSwap(false, true) && !w.x.gate.logAllow(w.x, to) {
		w.cut(policy.Limit)
	}
	w.x.gate.recheck(w, w.x.decision)
	if w.wasCut() {
		conn.Close() // this one and those of retries, before the request goes out
	}
}

// goes implements flow.
func (w *responseWriter) goes() (policy.Target, netip.Addr) {
	if addr := w.to.Load(); addr != nil {
		return w.x.target, *addr
	}
	return w.x.target, netip.Addr{}
}

// cut implements flow. net/http sees the closed connection and cancels the
// request. A client of HTTP/1.0 would take half an answer for the whole (see reset).
func (w *responseWriter) cut(reason policy.Reason) {
	if w.cause.CompareAndSwap(nil, &reason) {
		reset(w.conn.stream)
		w.conn.stream.Close()
	}
}

// wasCut reports whether cut has ended it.
func (w *responseWriter) wasCut() bool {
	c := w.cause.Load()
	return c != nil && (*c == policy.PolicyChanged || *c == policy.Shutdown || *c == policy.Limit)
}

// finish ends what a request has begun. One that was cut before it was connected is a
// denial, as of a tunnel.
func (w *responseWriter) finish() {
	if c := w.origin.Load(); c != nil {
		c.user.CompareAndSwap(w, nil) // a connection that is kept keeps nothing of it
	}
	w.answer.end()
	if w.taken != nil {
		w.taken.Close()
	}
	var cause policy.Reason
	if c := w.cause.Load(); c != nil {
		cause = *c
	}
	switch {
	case w.allowed.Load():
		w.x.gate.logDone(w.x, w.up.Load(), w.down.Load(), cause)
	case w.wasCut() && !w.told && !w.handed:
		w.x.gate.logCut(w.x, cause)
	}
	w.x.gate.flows.remove(w)
}

// spend counts bytes that go up, if the rule lets them.
func (w *responseWriter) spend(n int) bool {
	if !w.x.decision.budget.spend(int64(n)) {
		reason := policy.Budget
		w.cause.CompareAndSwap(nil, &reason)
		return false
	}
	w.up.Add(int64(n))
	return true
}
