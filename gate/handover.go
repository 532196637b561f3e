package gate

import "net"

// chanListener hands connections to net/http.
type chanListener struct {
	conns  chan net.Conn
	ending chan struct{}
	addr   net.Addr
}

// Accept implements net.Listener.
func (l *chanListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.ending:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *chanListener) Close() error { return nil }

// Addr implements net.Listener.
func (l *chanListener) Addr() net.Addr { return l.addr }
