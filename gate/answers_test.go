package gate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// answering is an origin that reads one head, says this, and ends.
func answering(said string) func(*net.TCPConn) int64 {
	return func(c *net.TCPConn) int64 {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err != nil {
			return 0
		}
		n, _ := io.WriteString(c, said)
		c.CloseWrite()
		_, _ = io.Copy(io.Discard, c)
		return int64(n)
	}
}

// Answers of an origin that mean harm, or are cut short. want is in what the
// client gets, absent is not, and cause is the reason in the close line.
func TestOddAnswers(t *testing.T) {
	const get10, get11 = "GET http://HOST/ HTTP/1.0\r\n\r\n", "GET http://HOST/ HTTP/1.1\r\nHost: x\r\n\r\n"
	tests := []struct{ name, get, said, want, absent, cause string }{
		{"whole", get11, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "2\r\nok\r\n0\r\n\r\n", "", ""},
		{"chunks that break off", get11, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "2\r\nok\r\n", "0\r\n\r\n", "upstream-failure"},
		{"a bad chunk", get11, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\nzz\r\n", "200", "0\r\n\r\n", "upstream-failure"},
		{"chunks that break off, to HTTP/1.0", get10, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n", "reset", "", "upstream-failure"},
		{"a length that is not reached", get11, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok", "Content-Length: 9", "", "upstream-failure"},
		{"early hints", get11, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "103 Early Hints", "", ""},
		{"early hints to HTTP/1.0", get10, "HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "200 OK", "HTTP/1.1 103", ""},
		{"no status", get11, "HTTP/1.1 099 OK\r\nContent-Length: 2\r\n\r\nok", "502", "HTTP/1.1 099", ""}, // a port may have it
		{"a header of the gate's own", get11, "HTTP/1.1 200 OK\r\nX-Aisb-Reason: not-listed\r\nX-Aisb-Proof: 00\r\nContent-Length: 2\r\n\r\nok", "200 OK", "X-Aisb", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l, o := tcpLab(t, answering(tt.said), "")
			c := l.dial()
			c.send(strings.ReplaceAll(tt.get, "HOST", service(o.Addr)))
			m := l.waitLog(event("close"))
			c.CloseWrite()
			got := c.rest()
			if !strings.Contains(got, tt.want) || tt.absent != "" && strings.Contains(got, tt.absent) {
				t.Errorf("got %q, want %q in it and %q not", got, tt.want, tt.absent)
			}
			if cause, _ := m["reason"].(string); cause != tt.cause {
				t.Errorf("close line %v, want the reason %q", m, tt.cause)
			}
		})
	}
}

// What goes up in a head counts: a path can carry out as much as a body.
func TestUploadBudgetOfHeads(t *testing.T) {
	web := site(t, nil)
	l := startLab(t, service(web.Addr)+"+upload=1000", nil, nil)
	for i, want := range []string{"200", "403", "403"} {
		c := l.dial()
		c.send("GET http://" + service(web.Addr) + "/" + strings.Repeat("x", 600) + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if status := c.head(); !strings.Contains(status, want) {
			t.Errorf("request %d: %s, want %s", i, status, want)
		}
	}
	l.waitLog(func(m map[string]any) bool { return m["event"] == "deny" && m["reason"] == "budget" })
}
