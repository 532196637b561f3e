package gate

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// A websocket goes both ways, also what is sent before the answer, and both
// ends see each other's end.
func TestWebsocket(t *testing.T) {
	l, base := webLab(t, nil)
	for _, early := range []string{"", "early "} {
		c := l.dial()
		c.send(crlf("GET "+base+"/switch HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket", "") + early)
		if line := c.head(); line != "HTTP/1.1 101 Switching Protocols" {
			t.Fatalf("got %q", line)
		}
		c.send("over here")
		buf := make([]byte, len(early)+9)
		if _, err := io.ReadFull(c.r, buf); err != nil || string(buf) != early+"over here" {
			t.Fatalf("got %q, %v", buf, err)
		}
		c.CloseWrite()
		if rest := c.rest(); rest != "" {
			t.Errorf("after the end: %q", rest)
		}
	}
	for _, n := range []float64{9, 15} {
		l.waitLog(func(m map[string]any) bool { return m["event"] == "close" && m["up"] == n && m["down"] == n })
	}
}

// Only websockets are let through; an answer that switches all the same is a
// fault, and after a refused upgrade the connection ends.
func TestOtherUpgrades(t *testing.T) {
	l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			fmt.Fprintf(w, "upgrade %q", r.Header.Get("Upgrade"))
			return
		}
		conn, _, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: rot13\r\n\r\nxyz")
	}))
	ask := func(path, upgrade string) string {
		c := l.dial()
		c.send(crlf("GET "+base+path+" HTTP/1.1", "Host: x", "Connection: Upgrade, close", "Upgrade: "+upgrade, ""))
		return c.rest()
	}
	if got := ask("/plain", "h2c"); !strings.Contains(got, `upgrade ""`) {
		t.Errorf("h2c: %q", got)
	}
	for _, upgrade := range []string{"rot13", "websocket"} {
		if got := ask("/switch", upgrade); !strings.HasPrefix(got, "HTTP/1.1 502") || !strings.Contains(got, "upstream-failure") {
			t.Errorf("%s: %q", upgrade, got)
		}
	}
	if got := ask("/plain", "websocket"); !strings.Contains(got, "Connection: close") {
		t.Errorf("a declined upgrade: %q", got)
	}
}

// Each request of a connection is decided anew, also a CONNECT after others.
func TestKeptConnection(t *testing.T) {
	l, base := webLab(t, nil)
	c := l.dial()
	c.send(crlf("GET "+base+"/1 HTTP/1.1", "Host: x", "") + crlf("GET http://evil.test/2 HTTP/1.1", "Host: x", "") + crlf("GET "+base+"/3 HTTP/1.1", "Host: x", ""))
	answer := c.rest()
	if !strings.Contains(answer, "/1\n") || !strings.Contains(answer, "HTTP/1.1 403 Blocked by aisb: not-listed\r\n") || strings.Contains(answer, "/3\n") {
		t.Errorf("got %q", answer)
	}
	if names := l.dns.Log.Names(); len(names) > 0 {
		t.Errorf("queries for %q", names)
	}

	echo := tcpOrigin(t, fakes.Echo)
	l.gate.SetPolicy(l.policy(strings.TrimPrefix(base, "http://") + " " + service(echo.Addr) + "+tcp"))
	c = l.dial()
	c.send(crlf("GET "+base+"/bytes/5 HTTP/1.1", "Host: x", "") + crlf("CONNECT "+service(echo.Addr)+" HTTP/1.1", "Host: x", "") + "early")
	if line := c.head(); line != "HTTP/1.1 200 OK" {
		t.Fatalf("got %q", line)
	}
	io.CopyN(io.Discard, c.r, 5)
	if line := c.head(); line != "HTTP/1.1 200 Connection established" {
		t.Fatalf("got %q", line)
	}
	c.send(" and late")
	c.CloseWrite()
	if got := c.rest(); got != "early and late" {
		t.Errorf("the tunnel brings %q", got)
	}
}

// A bad frame in the middle of a body ends the request without the origin
// having seen a whole one.
func TestBadFrame(t *testing.T) {
	done := make(chan error, 1)
	l, base := webLab(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		done <- err
	}))
	c := l.dial()
	c.send(crlf("POST "+base+"/ HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "") + "3\r\nabc\r\n0x3\r\nabc\r\n0\r\n\r\n")
	if answer := c.rest(); !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "bad-request") {
		t.Errorf("got %q", answer)
	}
	if err := <-done; err == nil {
		t.Error("the origin saw a whole body")
	}
}

// A client that leaves takes its request to the origin with it.
func TestClientLeaves(t *testing.T) {
	left := make(chan struct{})
	begun := make(chan struct{})
	l, base := webLab(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(left)
	}))
	c := l.dial()
	c.send(crlf("GET "+base+"/ HTTP/1.1", "Host: x", ""))
	<-begun
	c.Close()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the origin still waits")
	}
}

// Trailer fields of all lengths that the gate takes arrive, and longer ones are the
// client's fault, not the origin's.
func TestLongTrailers(t *testing.T) {
	l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, len(r.Trailer.Get("X")))
	}))
	const overhead = len("X: \r\n\r\n")
	for _, tt := range []struct {
		length int
		want   string
	}{{maxTrailers - overhead, fmt.Sprint(maxTrailers - overhead)}, {maxTrailers - overhead + 1, "bad-request"}, {2 * maxTrailers, "bad-request"}} {
		c := l.dial()
		c.send(crlf("POST "+base+"/ HTTP/1.1", "Host: x", "Connection: close", "Trailer: X", "Transfer-Encoding: chunked", "") +
			"3\r\nabc\r\n0\r\nX: " + strings.Repeat("x", tt.length) + "\r\n\r\n")
		if got := c.rest(); !strings.Contains(got, tt.want) {
			t.Errorf("%d bytes: got %q", tt.length, got)
		}
	}
}
