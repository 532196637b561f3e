package gate

import (
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// countedBody is a request's body, counted and held against the rule's budget.
type countedBody struct {
	io.ReadCloser
	w     *responseWriter
	ended atomic.Bool // nothing of it is left on the connection

	closing sync.Mutex // held in Close, which reads the rest
}

// Read implements io.Reader.
func (b *countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended.Store(true)
	}
	if n > 0 && !b.w.spend(n) {
		return 0, errBudget
	}
	return n, err
}

// Close implements io.Closer. net/http reads to the end of a body that it closes, or
// knows that it must not use the connection again.
func (b *countedBody) Close() error {
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
	if b.ended.Load() {
		return
	}
	b.w.conn.stream.SetReadDeadline(time.Now().Add(lingerTime))
	_, err := io.CopyN(io.Discard, b.ReadCloser, maxLeft)
	b.w.conn.stream.SetReadDeadline(time.Time{})
	b.closing.Lock() // the Transport may be at it
	defer b.closing.Unlock()
	if !errors.Is(err, io.EOF) && !b.ended.Load() {
		b.w.conn.stop()
	}
}
