package gate

import (
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// countedBody is a request's body, counted and held against the rule's budget. The
// Transport reads it in a goroutine of its own, for as long as it wants.
type countedBody struct {
	io.ReadCloser
	w       *responseWriter
	trailer http.Header // what the body's end fills; it goes up too
	ended   atomic.Bool // nothing of it is left on the connection

	closing sync.Mutex // held in Close, which reads the rest

	kept    atomic.Bool   // the client waits to be asked for it
	wanted  chan struct{} // closed when the origin asks for it
	through chan struct{} // closed when the answer is through
	lost    chan struct{} // closed when the origin has gone without a word
	leave   func()        // closes through, once
	lose    func()        // closes lost, once
}

// newBody wraps the body of a request that has one.
func newBody(r *http.Request, w *responseWriter) *countedBody {
	b := &countedBody{
		ReadCloser: r.Body, w: w, trailer: r.Trailer,
		wanted: make(chan struct{}), through: make(chan struct{}), lost: make(chan struct{}),
	}
	b.kept.Store(w.x.head.expects)
	b.leave = sync.OnceFunc(func() { close(b.through) })
	b.lose = sync.OnceFunc(func() { close(b.lost) })
	return b
}

// Errors of a read that is not to be.
var (
	errThrough = errors.New("the answer is through")
	errLost    = errors.New("the origin has gone")
)

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	if b.kept.Load() {
		if err := b.ask(); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, os.ErrDeadlineExceeded) && b.isLost() {
		err = errLost
	}
	up := n
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
		stripHopByHop(b.trailer)
		up += fieldBytes(b.trailer)
	}
	if b.isThrough() {
		// finish reads, too: what came here may have a hole before it, and an end that is
		// none. The origin must not take it for the whole.
		return 0, errThrough
	}
	if up > 0 && !b.w.spend(up) {
		return 0, errBudget
	}
	return n, err
}

// fieldBytes is what fields take on the wire.
func fieldBytes(h http.Header) (n int) {
	for name, values := range h {
		for _, v := range values {
			n += len(name) + len(v) + len(": \r\n")
		}
	}
	return n
}

// askAfter is how long an origin may take to ask for a body or to say that it
// doesn't want it. Many never ask (RFC 9110, section 10.1.1).
const askAfter = time.Second

// ask tells the client to send what it keeps back until then. net/http would do that
// by itself with the first read, and the Transport reads also when the answer is there
// already: the client would then send what nobody takes.
func (b *countedBody) ask() error {
	timer := time.NewTimer(b.w.x.gate.times.ask)
	defer timer.Stop()
	select {
	case <-b.wanted:
	case <-timer.C:
	case <-b.through:
		return errThrough
	case <-b.lost:
		return errLost
	}
	if b.w.proceed(b) {
		return nil
	}
	// The answer is there. An error now would end the origin's connection under it.
	select {
	case <-b.through:
		return errThrough
	case <-b.lost:
		return errLost
	}
}

// want notes that the origin asks for the body.
func (b *countedBody) want() {
	if !isClosed(b.wanted) {
		close(b.wanted)
	}
}

// giveUp ends the wait for a body whose origin has gone: the client may be waiting
// for an answer, and send nothing more before it.
func (b *countedBody) giveUp() {
	b.lose()
	b.w.conn.stream.SetReadDeadline(time.Unix(1, 0))
}

func (b *countedBody) isLost() bool    { return b != nil && isClosed(b.lost) }
func (b *countedBody) isThrough() bool { return isClosed(b.through) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Close implements io.Closer. net/http reads to the end of a body that it closes, or
// knows that it must not use the connection again.
func (b *countedBody) Close() error {
	if b.kept.Load() {
		return nil // nothing of it will come
	}
	b.closing.Lock()
	defer b.closing.Unlock()
	err := b.ReadCloser.Close()
	if err == nil {
		b.ended.Store(true)
	}
	return err
}

// maxLeft is how much of a body that nobody wants is read, as net/http has it.
const maxLeft = 256 << 10

// finish reads what is left of a body when the answer is through: what comes next on
// the connection is to be a request. net/http does that itself only where it doesn't
// serve both directions at once; where it does, it would take the rest of a body for
// a request. A body that doesn't end soon ends the connection.
func (b *countedBody) finish() {
	b.leave()
	if b.ended.Load() {
		return
	}
	b.w.Flush() // an answer without content waits for the end of its handler otherwise
	if b.kept.Load() {
		b.w.conn.stop() // whether it comes all the same, nobody knows
		return
	}
	conn := b.w.conn.stream
	conn.SetReadDeadline(time.Now().Add(b.w.x.gate.times.linger))
	_, err := io.CopyN(io.Discard, b.ReadCloser, maxLeft)
	b.closing.Lock() // the Transport may be at it, and must not be left without a deadline
	if !errors.Is(err, io.EOF) && !b.ended.Load() {
		b.w.conn.stop()
	}
	b.closing.Unlock()
	conn.SetReadDeadline(time.Time{})
}
