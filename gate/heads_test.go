package gate

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// Large heads that do not end take the places that there are, and no more; small
// ones are served beside them, and a place is free again when its head has ended.
func TestLargeHeads(t *testing.T) {
	const places = 3
	o := tcpOrigin(t, fakes.Echo)
	web := site(t, nil)
	l := startTweaked(t, service(o.Addr)+"+tcp "+service(web.Addr), nil, nil, func(g *Gate) { g.large = make(chan struct{}, places) })
	get := "GET http://" + service(web.Addr) + "/ HTTP/1.1\r\nHost: x\r\n"
	large := "X: " + strings.Repeat("x", 20<<10) + "\r\n"
	crowded := func(c *raw) {
		t.Helper()
		answer := c.rest()
		if !strings.Contains(answer, "HTTP/1.1 503 ") || !strings.Contains(answer, "X-Aisb-Reason: limit\r\n") {
			t.Errorf("one too many: %q", answer)
		}
	}
	var holders []*raw
	for i, begin := range []string{
		"CONNECT " + service(o.Addr) + " HTTP/1.1\r\nHost: x\r\n", get, get + "\r\n" + get, // the last one on a kept connection
	} {
		c := l.dial()
		c.send(begin + large)
		holders = append(holders, c)
		l.waitLarge(i + 1)
	}
	over := l.dial()
	over.send(get + large)
	crowded(over)
	over = l.dial()
	over.send(get + "\r\n")
	over.head()
	over.send(get + large)
	crowded(over)
	l.connect(service(o.Addr)).Close()
	resp, err := l.client().Get("http://" + service(web.Addr) + "/")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("a small head beside them: %v", err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()

	for i, want := range []string{"HTTP/1.1 200 Connection established", "HTTP/1.1 200 OK", "HTTP/1.1 200 OK"} {
		holders[i].send("\r\n")
		if got := holders[i].head(); got != want {
			t.Errorf("head %d, when it ends: %s", i, got)
		}
	}
	l.waitLarge(0)
	c := l.dial()
	c.send(get + large)
	l.waitLarge(1)
	c.Close() // a client that goes gives its place back too
	l.waitLarge(0)
	l.waitLog(func(m map[string]any) bool { return m["event"] == "error" && m["reason"] == "limit" })
}

// waitLarge waits until so many large heads are counted.
func (l *lab) waitLarge(n int) {
	l.t.Helper()
	l.counted("large heads", func() int { return len(l.gate.large) }, n, n)
}

// weighs waits until the large heads of all that is under way weigh so much.
func (l *lab) weighs(least, most int) {
	l.t.Helper()
	l.counted("bytes of heads", func() int { return int(l.gate.underWay.bytes.Load()) }, least, most)
}

// pieces is a client's end that sends them one a read.
type pieces struct {
	net.Conn
	left []string
	got  bytes.Buffer
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, errors.New("nothing more is sent")
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; p.left[0] == "" {
		p.left = p.left[1:]
	}
	return n, nil
}

func (p *pieces) Write(b []byte) (int, error)      { return p.got.Write(b) }
func (p *pieces) Close() error                     { return nil }
func (p *pieces) CloseRead() error                 { return nil }
func (p *pieces) CloseWrite() error                { return nil }
func (p *pieces) RemoteAddr() net.Addr             { return &net.UnixAddr{} }
func (p *pieces) LocalAddr() net.Addr              { return &net.UnixAddr{} }
func (p *pieces) SetReadDeadline(time.Time) error  { return nil }
func (p *pieces) SetWriteDeadline(time.Time) error { return nil }

// A head that has all the bytes it may have and no end is answered, whatever the
// empty line before it counts for. Handed on, it would be waited for without a limit.
func TestLongestHead(t *testing.T) {
	l := startLab(t, "", nil, nil)
	for _, before := range []string{"", "\r\n"} {
		for more := range 3 {
			begin := before + "GET http://a.test/ HTTP/1.1\r\nHost: x\r\nX: "
			c := &pieces{left: []string{begin + strings.Repeat("x", maxHead-len(begin)), strings.Repeat("y", more+1)}}
			if l.gate.serveFirst(c, func() {}, func() {}) {
				t.Errorf("%q and %d bytes more: handed on", before, more)
			}
			if !strings.HasPrefix(c.got.String(), "HTTP/1.1 431 ") {
				t.Errorf("%q and %d bytes more: %.40q", before, more, c.got.String())
			}
		}
	}
}

// Large heads of requests under way have so much room and no more, whatever the
// origin takes its time for; small ones need none, and room comes back.
func TestLargeHeadsUnderWay(t *testing.T) {
	begun, answer := make(chan bool, 9), make(chan bool)
	web := site(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { begun <- true; <-answer }))
	l := startTweaked(t, service(web.Addr), nil, nil, func(g *Gate) { g.underWay.limit = 50 << 10 })
	ask := func(size int) *raw {
		c := l.dial()
		c.send("GET http://" + service(web.Addr) + "/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", size) + "\r\n\r\n")
		return c
	}
	var waiting []*raw
	for _, size := range []int{20 << 10, 20 << 10, 1 << 10} {
		waiting = append(waiting, ask(size))
		<-begun
	}
	if got := ask(20 << 10).rest(); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "X-Aisb-Reason: limit\r\n") {
		t.Errorf("one too many: %q", got)
	}
	close(answer)
	answered := func(c *raw) {
		if got := c.head(); got != "HTTP/1.1 200 OK" {
			t.Errorf("got %s", got)
		}
	}
	for _, c := range waiting {
		answered(c)
	}
	l.weighs(0, 0)
	answered(ask(20 << 10))
	l.weighs(0, 0)
}

// A connection that is kept open doesn't keep the head of what was asked over it.
func TestHeadIsLetGo(t *testing.T) {
	c := &checkedConn{}
	c.check.feed([]byte("GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n"))
	c.check.advance()
	h := weak.Make(c.takeHead())
	for range 3 {
		runtime.GC()
	}
	if h.Value() != nil {
		t.Error("it is still there")
	}
	runtime.KeepAlive(c)
}

// Many small fields weigh more than their bytes.
func TestManyFieldsWeigh(t *testing.T) {
	web := site(t, nil)
	l := startTweaked(t, service(web.Addr), nil, nil, func(g *Gate) { g.underWay.limit = 20 << 10 })
	for fields, want := range map[int]string{20: "HTTP/1.1 200 OK", 250: "HTTP/1.1 503 Service Unavailable"} {
		c := l.dial()
		c.send("GET http://" + service(web.Addr) + "/ HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("X:\r\n", fields) + "\r\n")
		if got := c.head(); got != want {
			t.Errorf("%d fields: %s", fields, got)
		}
	}
}

// The first bytes of a tunnel are a head as any other: large ones that don't end have
// the same places.
func TestLargeHellos(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	l := startTweaked(t, service(o.Addr), nil, nil, func(g *Gate) { g.large = make(chan struct{}, 1) })
	begin := "\x16\x03\x01\x40\x00\x01\x00\x3f\xfc" + strings.Repeat("x", 9<<10)
	c := l.connect(service(o.Addr))
	c.send(begin)
	l.waitLarge(1)
	over := l.connect(service(o.Addr))
	over.send(begin)
	over.rest()
	l.waitLog(func(m map[string]any) bool { return m["event"] == "deny" && m["reason"] == "limit" })
	c.Close()
	l.waitLarge(0)
}
