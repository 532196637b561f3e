package gate

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// An origin may answer while it is still being sent to, and what comes after its
// first word arrives there all the same, byte for byte.
func TestAnswerBeforeTheBodysEnd(t *testing.T) {
	got := make(chan string, 1)
	l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := http.NewResponseController(w)
		if err := c.EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		io.WriteString(w, "first\n")
		c.Flush()
		body, _ := io.ReadAll(r.Body)
		got <- string(body)
		io.WriteString(w, "last\n")
	}))
	for _, framing := range []string{"Transfer-Encoding: chunked", "Content-Length: 12"} {
		piece := func(text string) string {
			if strings.HasPrefix(framing, "Content") {
				return text
			}
			return "6\r\n" + text + "\r\n"
		}
		c := l.dial()
		c.send(crlf("POST "+base+"/ HTTP/1.1", "Host: x", framing, "") + piece("one..."))
		if line := c.head(); line != "HTTP/1.1 200 OK" {
			t.Fatalf("%s: got %q", framing, line)
		}
		c.send(piece("two..."))
		if !strings.HasPrefix(framing, "Content") {
			c.send("0\r\n\r\n")
		}
		if body := <-got; body != "one...two..." {
			t.Errorf("%s: the origin got %q", framing, body)
		}
		answer := ""
		for !strings.HasSuffix(answer, "last\n") { // its client may not go away before
			line, err := c.r.ReadString('\n')
			if answer += line; err != nil {
				t.Fatalf("%s: the client got %q, %v", framing, answer, err)
			}
		}
		c.Close()
		if !strings.Contains(answer, "first\n") {
			t.Errorf("%s: the client got %q", framing, answer)
		}
	}
}

// What an origin sends back as it comes is what was sent to it, whole.
func TestEchoedBody(t *testing.T) {
	l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		io.Copy(w, r.Body)
	}))
	const size = 1<<20 + 17
	want, err := io.ReadAll(fakes.Pattern(size))
	if err != nil {
		t.Fatal(err)
	}
	for _, length := range []int64{size, -1} {
		req, _ := http.NewRequest(http.MethodPost, base+"/", io.NopCloser(fakes.Pattern(size)))
		req.ContentLength = length
		resp, err := l.client().Do(req)
		if err != nil {
			t.Fatalf("length %d: %v", length, err)
		}
		got, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("length %d: %d of %d bytes came back, %v", length, len(got), size, err)
		}
	}
}

// An origin that doesn't want a body says so, and its answer arrives. The connection
// goes on where the body was small, and ends where it was not.
func TestAnswerInsteadOfTheBody(t *testing.T) {
	web := site(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
		http.Error(w, "no room", http.StatusRequestEntityTooLarge)
	}))
	base := "http://" + service(web.Addr)
	for _, tt := range []struct {
		size, sent int
		more       bool // the next request has an answer, too
		tweak      func(*Gate)
	}{{100, 100, true, unhurried}, {100, 99, false, func(*Gate) {}}, {8 << 20, 10, false, func(*Gate) {}}} {
		c := startTweaked(t, service(web.Addr), nil, nil, tt.tweak).dial()
		c.send(crlf("POST "+base+"/ HTTP/1.1", "Host: x", fmt.Sprintf("Content-Length: %d", tt.size), ""))
		if line := c.head(); !strings.HasPrefix(line, "HTTP/1.1 413 ") {
			t.Errorf("%d bytes: got %q", tt.size, line)
		}
		c.send(strings.Repeat("x", tt.sent))
		if tt.more {
			c.send(crlf("GET "+base+"/ HTTP/1.1", "Host: x", "Connection: close", ""))
		}
		if rest := c.rest(); !strings.Contains(rest, "no room") || strings.Contains(rest, "HTTP/1.1 413 ") != tt.more || strings.Contains(rest, " 400 ") {
			t.Errorf("%d bytes of %d: then %q", tt.sent, tt.size, rest)
		}
	}
}
