package gate

import (
	"io"
	"net"
	"testing"
	"time"
)

// A tunnel of which one direction has ended ends too when the other one's receiver
// reads nothing any more.
func TestHalfOpenUnread(t *testing.T) {
	ended := make(chan error, 1)
	o := tcpOrigin(t, func(c *net.TCPConn) (n int64) {
		io.Copy(io.Discard, c)
		b := make([]byte, 64<<10)
		for {
			m, err := c.Write(b)
			if n += int64(m); err != nil {
				ended <- err
				return n
			}
		}
	})
	l := startTweaked(t, service(o.Addr)+"+tcp", nil, nil, func(g *Gate) { g.times.halfOpen = 300 * time.Millisecond })
	c := l.connect(service(o.Addr))
	c.send("x")
	c.CloseWrite()
	l.waitLog(event("close"))
	if err := <-ended; err == nil {
		t.Error("the origin could go on")
	}
	l.noneLeft()
}
