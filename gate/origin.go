package gate

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// originConn is a connection to an origin as the Transport has it. It sees what the
// Transport doesn't say: how the head of an answer grows, that an origin has gone
// while the client is still to send, and what it said before it went.
type originConn struct {
	*net.TCPConn
	to    netip.AddrPort                 // that was judged; of an upstream proxy's tunnel its end
	user  atomic.Pointer[responseWriter] // the request that it serves
	ended chan struct{}                  // closed when nothing more is read
	once  sync.Once
}

func newOriginConn(conn *net.TCPConn, to netip.AddrPort) *originConn {
	return &originConn{TCPConn: conn, to: to, ended: make(chan struct{})}
}

// RemoteAddr implements net.Conn.
func (c *originConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.to) }

// errCrowdedAnswer ends the reading of an answer's head for which there is no room.
var errCrowdedAnswer = errors.New("too many large answer heads at once")

// Read implements net.Conn.
func (c *originConn) Read(p []byte) (int, error) {
	w := c.user.Load()
	if w != nil && w.answer.crowded() {
		return 0, errCrowdedAnswer // once more: net/textproto passes over an error between two lines
	}
	n, err := c.TCPConn.Read(p)
	w = c.user.Load() // a kept connection waits here for its next request
	if err != nil {
		c.end()
	}
	if w == nil || w.answer.whole.Load() {
		return n, err
	}
	if !w.answer.grow(p[:n]) {
		return 0, errCrowdedAnswer
	}
	if err != nil && !errors.Is(err, net.ErrClosed) && !w.answer.heard.Load() && w.body != nil {
		w.body.giveUp()
	}
	return n, err
}

// Write implements net.Conn. An origin that wants no more of a body answers, and
// closes: then a write fails, and the Transport would return that error and not the
// answer, whichever it sees first. So the answer comes first.
func (c *originConn) Write(p []byte) (int, error) {
	n, err := c.TCPConn.Write(p)
	if err != nil {
		c.hear()
	}
	return n, err
}

// hearTime bounds how long an answer may take that has arrived.
const hearTime = 5 * time.Second

// hear waits until what came from the origin before its end has been read.
func (c *originConn) hear() {
	w := c.user.Load()
	if w == nil || w.body == nil {
		return
	}
	timer := time.NewTimer(hearTime)
	defer timer.Stop()
	select {
	case <-c.ended:
	case <-w.body.through:
	case <-timer.C:
	}
}

// ReadFrom implements io.ReaderFrom, by Write.
func (c *originConn) ReadFrom(r io.Reader) (int64, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	return io.CopyBuffer(struct{ io.Writer }{c}, struct{ io.Reader }{r}, *buf)
}

// Close implements net.Conn.
func (c *originConn) Close() error {
	c.end()
	return c.TCPConn.Close()
}

func (c *originConn) end() { c.once.Do(func() { close(c.ended) }) }

// answerHead weighs the head of an answer, from its first byte to the end of its
// request: an origin may leave it unfinished, and what is parsed stays for as long as
// the content comes.
type answerHead struct {
	room  *weight
	whole atomic.Bool // it is read, or nobody reads it
	heard atomic.Bool // something of it has come

	mu         sync.Mutex
	size, held int
	refused    atomic.Bool
}

// grow reports whether there is room for what has come.
func (a *answerHead) grow(p []byte) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(p) == 0 || a.whole.Load() {
		return true
	}
	a.heard.Store(true)
	a.size += headCost(len(p), bytes.Count(p, []byte{'\n'}))
	if !a.room.change(a.held, a.size) {
		a.refused.Store(true)
		return false
	}
	a.held = a.size
	return true
}

// restart forgets an interim answer, which has been passed on.
func (a *answerHead) restart() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.room.change(a.held, 0)
	a.size, a.held = 0, 0
}

// settle notes that the head is read, and weighs what is kept of it: the content may
// have begun in the same piece. nil is none.
func (a *answerHead) settle(h http.Header) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.whole.Store(true)
	n := 0
	for _, values := range h {
		n += len(values)
	}
	cost := min(headCost(fieldBytes(h), n), a.held)
	a.room.change(a.held, cost)
	a.held = cost
}

// end gives the room back.
func (a *answerHead) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.whole.Store(true)
	a.room.change(a.held, 0)
	a.held = 0
}

// crowded reports whether there was no room for it.
func (a *answerHead) crowded() bool { return a.refused.Load() }
