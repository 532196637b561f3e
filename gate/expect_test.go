package gate

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// refusingOrigin answers every head with what answer says, and takes no body.
func refusingOrigin(answer string) func(*net.TCPConn) int64 {
	return func(c *net.TCPConn) (n int64) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return n
			}
			m, _ := io.WriteString(c, answer)
			n += int64(m)
			if req.Method == http.MethodPut && strings.Contains(answer, "close") {
				c.CloseWrite()
				io.Copy(io.Discard, c)
				return n
			}
		}
	}
}

// A client that waits to be asked for its body isn't asked when the origin has an
// answer already, gets it at once, and may then go. Where the gate would wait for the body,
// it would for longer than this client does.
func TestUnwantedBody(t *testing.T) {
	for _, answer := range []string{
		"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n",
		"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"HTTP/1.1 401 Unauthorized\r\nContent-Length: 4\r\n\r\nwhy?",
		"HTTP/1.1 401 Unauthorized\r\nConnection: close\r\n\r\nwhy?",
	} {
		o := tcpOrigin(t, refusingOrigin(answer))
		l := startTweaked(t, service(o.Addr), nil, nil, unhurried)
		for _, framing := range []string{"Content-Length: 100", "Content-Length: 100000000", "Transfer-Encoding: chunked"} {
			for range 20 {
				c := l.dial()
				c.send(crlf("PUT http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", framing, "Expect: 100-continue", ""))
				if line := c.head(); line != "HTTP/1.1 401 Unauthorized" {
					t.Fatalf("%q, %s: got %q", answer, framing, line)
				}
				c.CloseWrite()
				if rest := c.rest(); strings.Contains(rest, "HTTP/1.1") {
					t.Errorf("%q, %s: then %q", answer, framing, rest)
				}
				c.Close()
			}
		}
	}
}

// The answer arrives too when the client sends the body all the same.
func TestUnwantedBodyComes(t *testing.T) {
	o := tcpOrigin(t, refusingOrigin("HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\n\r\n"))
	l := startTweaked(t, service(o.Addr), nil, nil, unhurried)
	for range 20 {
		c := l.dial()
		c.send(crlf("PUT http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", "Content-Length: 400000", "Expect: 100-continue", "") + strings.Repeat("x", 400000))
		if line := c.head(); line != "HTTP/1.1 401 Unauthorized" {
			t.Fatalf("got %q", line)
		}
		if rest := c.rest(); rest != "" {
			t.Errorf("then %q", rest)
		}
	}
}

// An origin that says nothing about it gets the body after a while, one that asks
// for it at once.
func TestAwaitedBody(t *testing.T) {
	for _, asks := range []string{"", "HTTP/1.1 103 Early Hints\r\n\r\n", "HTTP/1.1 100 Continue\r\n\r\n"} {
		l, o := tcpLab(t, func(c *net.TCPConn) int64 {
			r := bufio.NewReader(c)
			req, err := http.ReadRequest(r)
			if err != nil {
				return 0
			}
			io.WriteString(c, asks)
			body, _ := io.ReadAll(req.Body)
			n, _ := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			return int64(n)
		}, "")
		c := l.dial()
		c.send(crlf("PUT http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", "Content-Length: 4", "Expect: 100-continue", ""))
		want := []string{"HTTP/1.1 100 Continue", "HTTP/1.1 200 OK"}
		if strings.Contains(asks, "103") {
			want = append([]string{"HTTP/1.1 103 Early Hints"}, want...)
		}
		for _, w := range want {
			if line := c.head(); line != w {
				t.Fatalf("%q: got %q, want %q", asks, line, w)
			}
			if w == "HTTP/1.1 100 Continue" {
				c.send("body")
			}
		}
		got := make([]byte, 4)
		if _, err := io.ReadFull(c.r, got); err != nil || string(got) != "body" {
			t.Errorf("%q: got %q, %v", asks, got, err)
		}
		c.Close()
	}
}

// When the answer is through, the rest of a body is read for the connection's sake.
// The origin must not have a part of that, nor its end, for the whole.
func TestBodyAfterTheAnswer(t *testing.T) {
	h := &head{length: -1}
	w := &responseWriter{x: &exchange{head: h, decision: &decision{}}}
	for _, left := range []string{"more", ""} {
		b := newBody(&http.Request{Body: io.NopCloser(strings.NewReader(left))}, w)
		b.leave()
		if n, err := b.Read(make([]byte, 9)); n != 0 || err == nil || errors.Is(err, io.EOF) {
			t.Errorf("%q left: %d, %v", left, n, err)
		}
	}
}
