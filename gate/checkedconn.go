package gate

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// stream is a connection whose directions end separately: TCP or unix.
type stream interface {
	net.Conn
	CloseRead() error
	CloseWrite() error
}

// checkedConn is a client's connection as net/http sees it: reads return what
// the checker lets out.
type checkedConn struct {
	stream

	mu    sync.Mutex // of check; a handler takes heads while net/http reads
	check checker
	over  bool // nothing is read any more

	room   place         // of a head that has grown large
	linger time.Duration // see times

	once sync.Once
	gone func() // called when the connection is closed
}

// errFrame is what a read of a body returns when its framing is bad.
var errFrame = errors.New("bad chunk framing")

// readSize is how much is read at once into the checker.
const readSize = 16 << 10

// Read implements net.Conn. One goroutine calls it at a time. After a read
// that failed by a deadline, the next goes on where it stopped: net/http makes
// use of that when it takes a connection over.
func (c *checkedConn) Read(p []byte) (int, error) {
	for {
		n, direct, err := c.deliver(p)
		if n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		if direct > 0 {
			// Plain data: no need to look at it.
			n, err := c.stream.Read(p[:min(int64(len(p)), direct)])
			c.mu.Lock()
			if c.check.state != isRaw {
				c.check.pass(int64(n))
			}
			c.mu.Unlock()
			return n, c.cutShort(err)
		}
		buf := getBuffer()
		n, err = c.stream.Read(*buf)
		c.mu.Lock()
		c.feed((*buf)[:n])
		c.mu.Unlock()
		putBuffer(buf)
		if err != nil {
			if n > 0 {
				continue // what came before the error counts first
			}
			return 0, c.cutShort(err)
		}
	}
}

// feed needs the lock. A head that grows large is refused when too many do.
func (c *checkedConn) feed(p []byte) {
	k := &c.check
	if k.state == isEnd {
		return // it is read only to see the client go
	}
	k.feed(p)
	switch n := k.unfinished(); {
	case n == 0:
		c.room.leave()
	case !c.room.take(n):
		k.in = nil
		k.take(&head{bad: errCrowd})
	}
}

// deliver hands out judged bytes. direct is how many bytes of plain data are
// next, when nothing is waiting to be judged.
func (c *checkedConn) deliver(p []byte) (n int, direct int64, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := &c.check
	if c.over {
		return 0, 0, io.EOF
	}
	if len(k.out) == 0 {
		k.out = nil
		k.advance()
	}
	if len(k.out) > 0 {
		n = copy(p, k.out)
		k.out = k.out[n:]
		return n, 0, nil
	}
	switch {
	case k.state == isEnd && len(k.heads) > 0:
		// What is wrong belongs to a request that no handler has taken yet. An
		// error now would be taken for the end of the client, and cut short the
		// request before it.
		return 0, 0, nil
	case k.frame != nil:
		return 0, 0, errFrame
	case k.state == isEnd:
		return 0, 0, io.EOF
	case k.state == isRaw:
		return 0, 1 << 62, nil
	case k.state == inBody || k.state == inChunk:
		return 0, k.left, nil
	}
	return 0, 0, nil
}

// cutShort turns an end of file in the middle of a message into an error.
func (c *checkedConn) cutShort(err error) error {
	if !errors.Is(err, io.EOF) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k := &c.check; {
	case k.state == isRaw, k.state == atHead && len(k.in) == 0:
		return io.EOF
	}
	return io.ErrUnexpectedEOF
}

// takeHead returns the head of the request that net/http has just read.
func (c *checkedConn) takeHead() *head {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.check.heads) == 0 {
		return nil
	}
	h := c.check.heads[0]
	c.check.heads[0] = nil // or it stays for as long as the connection does
	c.check.heads = c.check.heads[1:]
	return h
}

// badFrame is what was wrong with a chunk of the request that is served, if
// anything.
func (c *checkedConn) badFrame() *badRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.check.heads) > 0 {
		return nil // of a later request
	}
	return c.check.frame
}

// stop lets net/http read an end of file from now on.
func (c *checkedConn) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
}

// release takes all bytes that came and were not delivered out of the checker.
func (c *checkedConn) release() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := append(c.check.out, c.check.in...)
	c.check.out, c.check.in = nil, nil
	return b
}

// unread puts bytes back that were read too early.
func (c *checkedConn) unread(b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.check.out = append(append([]byte(nil), b...), c.check.out...)
}

// Close implements net.Conn.
func (c *checkedConn) Close() error {
	defer c.once.Do(c.gone)
	c.room.leave()
	c.mu.Lock()
	over := c.over
	c.mu.Unlock()
	if over { // the client may still be sending what nobody wants
		return lingerClose(c.stream, c.linger)
	}
	return c.stream.Close()
}

// buffers are shared by all connections, so that an idle one holds none.
var buffers = sync.Pool{New: func() any { b := make([]byte, readSize); return &b }}

func getBuffer() *[]byte  { return buffers.Get().(*[]byte) }
func putBuffer(b *[]byte) { buffers.Put(b) }
