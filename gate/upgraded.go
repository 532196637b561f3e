package gate

import (
	"io"
	"net"
	"time"
)

// upgraded is the origin's side of a websocket, as goproxy copies from and to
// it. goproxy takes the end of either direction for the end of both and closes
// nothing; here each direction ends for itself, and the second may follow
// within a while.
type upgraded struct {
	io.ReadWriteCloser
	w *responseWriter

	sent, got chan struct{} // closed when a direction has ended
}

// upgradeGrace is how long a websocket may go on in one direction after the
// other has ended: long enough for the closing handshake of RFC 6455.
const upgradeGrace = 10 * time.Second

func newUpgraded(body io.ReadCloser, w *responseWriter) io.ReadCloser {
	both, ok := body.(io.ReadWriteCloser)
	if !ok {
		return body
	}
	return &upgraded{ReadWriteCloser: both, w: w, sent: make(chan struct{}), got: make(chan struct{})}
}

// ReadFrom implements io.ReaderFrom: from the client to the origin.
func (u *upgraded) ReadFrom(src io.Reader) (n int64, err error) {
	defer u.contain(&err)
	n, err = copyCounted(u.ReadWriteCloser, src, u.w.spend)
	close(u.sent)
	if c, ok := u.ReadWriteCloser.(interface{ CloseWrite() error }); ok && err == nil {
		c.CloseWrite()
	}
	u.linger(u.got, err)
	return n, err
}

// WriteTo implements io.WriterTo: from the origin to the client.
func (u *upgraded) WriteTo(dst io.Writer) (n int64, err error) {
	defer u.contain(&err)
	n, err = copyCounted(dst, u.ReadWriteCloser, func(n int) bool { u.w.down.Add(int64(n)); return true })
	close(u.got)
	if c, ok := dst.(interface{ CloseWrite() error }); ok && err == nil {
		c.CloseWrite()
	}
	u.linger(u.sent, err)
	return n, err
}

// contain turns a panic into the end of this websocket alone: goproxy calls both
// directions in goroutines of its own.
func (u *upgraded) contain(err *error) {
	if p := recover(); p != nil {
		u.w.x.gate.logPanic(u.w.x.from)
		*err = net.ErrClosed
		u.ReadWriteCloser.Close()
		u.w.conn.stream.Close()
	}
}

// linger waits for the other direction, unless this one broke.
func (u *upgraded) linger(other <-chan struct{}, err error) {
	if err != nil {
		return
	}
	timer := time.NewTimer(upgradeGrace)
	defer timer.Stop()
	select {
	case <-other:
	case <-timer.C:
	}
}

// copyCounted copies until the source ends or count says no.
func copyCounted(dst io.Writer, src io.Reader, count func(int) bool) (total int64, _ error) {
	buf := getBuffer()
	defer putBuffer(buf)
	for {
		n, err := src.Read(*buf)
		if n > 0 {
			if !count(n) {
				return total, errBudget
			}
			m, werr := dst.Write((*buf)[:n])
			total += int64(m)
			if werr != nil {
				return total, werr
			}
		}
		if err == io.EOF {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
}
