package fakes

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"
)

// TCP is a server without HTTP. Its event is logged when a connection ends,
// with the bytes received.
type TCP struct {
	Log  *Log
	Addr netip.AddrPort

	ln   net.Listener
	done sync.WaitGroup

	mu     sync.Mutex
	conns  map[net.Conn]bool
	closed bool
}

// Talk serves one connection and returns how many bytes it received. The
// server closes the connection.
type Talk func(*net.TCPConn) int64

// StartTCP serves each connection to addr by talk. A nil log makes one.
func StartTCP(addr string, talk Talk, log *Log) (*TCP, error) {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start tcp origin: %w", err)
	}
	if log == nil {
		log = &Log{}
	}
	t := &TCP{Log: log, Addr: ln.Addr().(*net.TCPAddr).AddrPort(), ln: ln, conns: map[net.Conn]bool{}}
	t.done.Go(func() { t.accept(talk) })
	return t, nil
}

func (t *TCP) accept(talk Talk) {
	for {
		conn, err := t.ln.Accept()
		if err != nil {
			return
		}
		if !t.track(conn) {
			conn.Close()
			return
		}
		began := time.Now().UTC()
		t.done.Go(func() {
			n := talk(conn.(*net.TCPConn))
			conn.Close()
			t.mu.Lock()
			delete(t.conns, conn)
			t.mu.Unlock()
			t.Log.Add(Event{Fake: "tcp", Began: began, Addr: t.Addr.String(), Client: conn.RemoteAddr().String(), Bytes: n})
		})
	}
}

func (t *TCP) track(conn net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.conns[conn] = true
	return true
}

// Open is the number of connections that are being served.
func (t *TCP) Open() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.conns)
}

// Close cuts all connections and waits for the server to end.
func (t *TCP) Close() error {
	t.mu.Lock()
	t.closed = true
	err := t.ln.Close()
	for conn := range t.conns {
		err = errors.Join(err, conn.Close())
	}
	t.mu.Unlock()
	t.done.Wait()
	return err
}

// Echo sends back what comes.
func Echo(c *net.TCPConn) int64 {
	n, _ := io.Copy(c, c)
	c.CloseWrite()
	return n
}

// Count reads to the end, and only then says how much it got: it sees whether
// half-closed connections survive the way.
func Count(c *net.TCPConn) int64 {
	n, err := io.Copy(io.Discard, c)
	if err == nil {
		fmt.Fprintf(c, "%d bytes\n", n)
	}
	return n
}

// Silent reads and never answers.
func Silent(c *net.TCPConn) int64 {
	n, _ := io.Copy(io.Discard, c)
	return n
}

// Banner speaks first, as SSH and SMTP servers do, then echoes.
func Banner(text string) Talk {
	return func(c *net.TCPConn) int64 {
		if _, err := io.WriteString(c, text); err != nil {
			return 0
		}
		return Echo(c)
	}
}

// HalfClosed sends text, ends its own side at once, and goes on reading.
func HalfClosed(text string) Talk {
	return func(c *net.TCPConn) int64 {
		io.WriteString(c, text)
		c.CloseWrite()
		n, _ := io.Copy(io.Discard, c)
		return n
	}
}

// Reset answers the first byte with a connection reset.
func Reset(c *net.TCPConn) int64 {
	n, _ := c.Read(make([]byte, 1))
	c.SetLinger(0) // close then sends RST (socket(7), SO_LINGER)
	return int64(n)
}
