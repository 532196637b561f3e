package gate

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// What an origin sends at the end or in between says nothing of the message's length,
// nor of the gate.
func TestOriginsTrailers(t *testing.T) {
	const body = "Transfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n"
	for _, said := range []string{
		"HTTP/1.1 200 OK\r\n" + body + "X-Sum: 42\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\nX-Aisb-Reason: listed\r\nConnection: close\r\nHost: x\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTrailer: X-Sum, X-Aisb-Reason, Connection, Host\r\n" + body + "X-Sum: 42\r\nX-Aisb-Reason: listed\r\nConnection: close\r\nHost: x\r\n\r\n",
	} {
		l, o := tcpLab(t, answering(said), "")
		resp, err := l.client().Get("http://" + service(o.Addr) + "/")
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		if len(resp.Trailer) != 1 || resp.Trailer.Get("X-Sum") != "42" {
			t.Errorf("%q: the client got %v", said, resp.Trailer)
		}
	}
}

// Nor does an answer before the answer, or one that switches to a websocket.
func TestOriginsOtherHeads(t *testing.T) {
	l, o := tcpLab(t, answering("HTTP/1.1 103 Early Hints\r\nLink: a\r\nX-Aisb-Proof: 00\r\n\r\n"+
		"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade, x-secret\r\nX-Secret: 1\r\nUpgrade: WebSocket\r\nX-Aisb-Reason: listed\r\nProxy-Authenticate: Basic\r\n\r\nframes"), "")
	c := l.dial()
	c.send(crlf("GET http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket", ""))
	got := c.rest()
	if !strings.Contains(got, "Link: a\r\n") || !strings.Contains(got, "\r\nUpgrade: websocket\r\n") || !strings.HasSuffix(got, "\r\n\r\nframes") {
		t.Errorf("got %q", got)
	}
	for _, no := range []string{"X-Aisb", "X-Secret", "x-secret", "Proxy-"} {
		if strings.Contains(got, no) {
			t.Errorf("%s in %q", no, got)
		}
	}
	// One that switches without saying so for this connection switches nothing.
	l, o = tcpLab(t, answering("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"), "")
	c = l.dial()
	c.send(crlf("GET http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket", ""))
	if line := c.head(); line != "HTTP/1.1 502 Bad Gateway" {
		t.Errorf("got %s", line)
	}
}

// Trailer fields are sent up as well, and count as such.
func TestUploadBudgetOfTrailers(t *testing.T) {
	got := make(chan int, 9) // of trailer fields, -1 for a body that breaks off
	web := site(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		n := fieldBytes(r.Trailer)
		if err != nil {
			n = -1
		}
		got <- n
	}))
	l := startLab(t, service(web.Addr)+"+upload=2000", nil, nil)
	send := func(size int) string {
		c := l.dial()
		c.send(crlf("POST http://"+service(web.Addr)+"/ HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "Trailer: A", "") +
			"1\r\nx\r\n0\r\nA: " + strings.Repeat("x", size) + "\r\n\r\n")
		return c.head()
	}
	if line := send(900); line != "HTTP/1.1 200 OK" || <-got < 900 {
		t.Errorf("within the budget: %s", line)
	}
	if line := send(900); !strings.HasPrefix(line, "HTTP/1.1 403 ") {
		t.Errorf("beyond it: %s", line)
	}
	if n := <-got; n > 0 {
		t.Errorf("the origin got %d bytes of trailer fields", n)
	}
}

// What concerns the gate alone stays here at the end of a body, too.
func TestClientsTrailers(t *testing.T) {
	got := make(chan http.Header, 1)
	l, base := webLab(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		got <- r.Trailer
	}))
	send := func(fields string) string {
		c := l.dial()
		c.send(crlf("POST "+base+"/ HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "Trailer: X-Sum", "") + "1\r\nx\r\n0\r\n" + fields + "\r\n")
		return c.head()
	}
	if line := send("X-Sum: 42\r\nProxy-Authorization: Basic eDp5\r\nKeep-Alive: 1\r\n"); line != "HTTP/1.1 200 OK" {
		t.Fatal(line)
	}
	if h := <-got; len(h) != 1 || h.Get("X-Sum") != "42" {
		t.Errorf("the origin got %v", h)
	}
	for _, field := range []string{"Content-Length: 1", "Content_Length: 1", "transfer_encoding: chunked"} {
		if line := send(field + "\r\n"); line != "HTTP/1.1 400 Bad Request" {
			t.Errorf("%s: %s", field, line)
		}
	}
}
