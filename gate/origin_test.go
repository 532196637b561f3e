package gate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// A request without a body goes out as such, whatever its method.
func TestNoBody(t *testing.T) {
	heads := make(chan string, 1)
	l, o := tcpLab(t, func(c *net.TCPConn) int64 {
		r := bufio.NewReader(c)
		var head strings.Builder
		for !strings.HasSuffix(head.String(), "\r\n\r\n") {
			line, err := r.ReadString('\n')
			if err != nil {
				return 0
			}
			head.WriteString(line)
		}
		heads <- head.String()
		n, _ := io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
		return int64(n)
	}, "")
	for _, method := range []string{"GET", "POST", "PUT", "DELETE", "ODD"} {
		c := l.dial()
		c.send(crlf(method+" http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", "Content-Length: 0", ""))
		if line := c.head(); line != "HTTP/1.1 200 OK" {
			t.Fatalf("%s: %s", method, line)
		}
		head := <-heads
		if strings.Contains(head, "chunked") {
			t.Errorf("%s: the origin got %q", method, head)
		}
		if method[0] == 'P' && !strings.Contains(head, "\r\nContent-Length: 0\r\n") {
			t.Errorf("%s: the origin got %q", method, head)
		}
	}
}

// An origin may close a connection that it has kept just when the next request is on
// its way; one that changes nothing is sent again.
func TestStaleConnection(t *testing.T) {
	l, o := tcpLab(t, func(c *net.TCPConn) int64 {
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return 0
		}
		n, _ := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		http.ReadRequest(r) // the next one finds no answer
		return int64(n)
	}, "")
	c := l.dial()
	for i := range 10 {
		c.send(crlf("GET http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", ""))
		if line := c.head(); line != "HTTP/1.1 200 OK" {
			t.Fatalf("request %d: %s", i, line)
		}
		io.ReadFull(c.r, make([]byte, 2))
	}
}

// A client in the middle of its body hears that the origin has gone, and need not
// send the rest for that.
func TestOriginGoesMidway(t *testing.T) {
	l, o := tcpLab(t, func(c *net.TCPConn) int64 {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err == nil {
			io.ReadFull(req.Body, make([]byte, 4))
		}
		return 0
	}, "")
	for _, framing := range []string{"Content-Length: 100", "Transfer-Encoding: chunked"} {
		c := l.dial()
		c.send(crlf("POST http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", framing, "") + "4\r\nbody\r\n")
		got := c.rest()
		if !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, "X-Aisb-Reason: upstream-failure\r\n") {
			t.Errorf("%s: got %q", framing, got)
		}
	}
}

// What an origin says before it closes on an upload that it doesn't want is what the
// client hears, though writing fails before it is read.
func TestRefusedUpload(t *testing.T) {
	l, o := tcpLab(t, func(c *net.TCPConn) int64 {
		b := make([]byte, 4096)
		c.Read(b)
		n, _ := io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\nConnection: close\r\n\r\nno\n")
		return int64(n) // with unread bytes: a reset
	}, "")
	body := strings.Repeat("x", 1<<20)
	for i := range 60 {
		c := l.dial()
		c.send(crlf("POST http://"+service(o.Addr)+"/ HTTP/1.1", "Host: x", "Content-Length: 1048576", ""))
		go io.WriteString(c, body) // it fails when the answer is there
		if line := c.head(); line != "HTTP/1.1 413 Content Too Large" && line != "HTTP/1.1 413 Request Entity Too Large" {
			t.Fatalf("upload %d: %s", i, line)
		}
		c.Close()
	}
}

// Heads of answers have so much room in all, also those that don't end and those of
// many small fields; it comes back.
func TestLargeAnswerHeads(t *testing.T) {
	release := make(chan bool)
	open := sync.OnceFunc(func() { close(release) })
	l, o := tcpLab(t, func(c *net.TCPConn) int64 {
		req, err := http.ReadRequest(bufio.NewReader(c))
		if err != nil {
			return 0
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n")
		switch req.URL.Path {
		case "/long":
			io.WriteString(c, "X: "+strings.Repeat("x", 60<<10)+"\r\n\r\n")
		case "/many":
			io.WriteString(c, strings.Repeat("x:\r\n", 400)+"\r\n")
		case "/unfinished":
			io.WriteString(c, "X: "+strings.Repeat("x", 60<<10))
		case "/small":
			io.WriteString(c, "\r\nok")
			return 0
		}
		<-release
		io.WriteString(c, "ok")
		return 0
	}, "")
	t.Cleanup(open) // before the origin's end, which waits for its connections
	l.gate.underWay.limit = 150 << 10
	ask := func(path string) *raw {
		c := l.dial()
		c.send(crlf("GET http://"+service(o.Addr)+path+" HTTP/1.1", "Host: x", ""))
		return c
	}
	a := ask("/long")
	if line := a.head(); line != "HTTP/1.1 200 OK" {
		t.Fatal(line)
	}
	l.weighs(60<<10, 62<<10)
	b := ask("/unfinished")
	l.weighs(120<<10, 124<<10)
	for _, path := range []string{"/long", "/many", "/unfinished"} {
		if got := ask(path).rest(); !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "X-Aisb-Reason: limit\r\n") {
			t.Errorf("%s beyond the room: %.200q", path, got)
		}
	}
	if line := ask("/small").head(); line != "HTTP/1.1 200 OK" {
		t.Errorf("a small one beside them: %s", line)
	}
	b.Close()
	l.weighs(60<<10, 62<<10)
	open()
	a.Close()
	l.weighs(0, 0)
}

// A client has the head of an answer before there is any content.
func TestHeadBeforeTheContent(t *testing.T) {
	for _, kind := range []string{"text/event-stream", "application/json"} {
		content := make(chan bool)
		l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			http.NewResponseController(w).Flush()
			<-content // the client has it
			io.WriteString(w, "data")
		}))
		c := l.dial()
		c.send(crlf("GET "+base+"/ HTTP/1.1", "Host: x", "Connection: close", ""))
		_, err := c.r.Peek(1)
		close(content)
		if err != nil {
			t.Fatalf("%s: %v", kind, err)
		}
		if got := c.rest(); !strings.Contains(got, "data") {
			t.Errorf("%s: got %q", kind, got)
		}
	}
}
