package gate

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/resolve"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// Name servers that are dead, slow, lying or huge: the client is told soon and by the
// closed set of reasons, nothing is dialled, and the gate goes on.
func TestBadNameServers(t *testing.T) {
	says := func(list ...string) (a fakes.Answer) {
		for _, text := range list {
			a.Addrs = append(a.Addrs, netip.MustParseAddr(text))
		}
		return a
	}
	var many fakes.Answer
	for i := range 100 {
		many.Addrs = append(many.Addrs, netip.AddrFrom4([4]byte{9, 9, 9, byte(i)}))
	}
	slow := says("127.0.0.1")
	slow.Delay = 100 * time.Millisecond
	for _, tt := range []struct {
		name   string
		answer fakes.Answer
		reason string
	}{
		{"dead", fakes.Answer{Silent: true}, "dns-failure"},
		// The codes of RFC 1035, section 4.1.1. Answers to something else are gate/resolve's.
		{"failing", fakes.Answer{Rcode: 2}, "dns-failure"},
		{"refusing", fakes.Answer{Rcode: 5}, "dns-failure"},
		{"slow", slow, "special-address"},
		{"the host's loopback", says("127.0.0.1", "::1"), "special-address"},
		{"a cloud's metadata", says("169.254.169.254"), "special-address"},
		{"an address in another's clothes", says("::ffff:10.0.0.1", "64:ff9b::7f00:1"), "special-address"},
		{"one good, one not", says("9.9.9.9", "10.0.0.1"), "mixed-answer"},
		{"a hundred addresses", many, "dns-failure"},
		{"an alias of itself", fakes.Answer{CNAME: "a.test"}, "dns-failure"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d, err := fakes.StartDNS("127.0.0.1:0", fakes.Zone{"a.test": tt.answer}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			attempt := patience // for those that answer: they may take what a busy machine takes
			if tt.answer.Silent {
				attempt = 300 * time.Millisecond
			}
			l := startLab(t, "a.test", nil, func(c *Config) {
				c.Resolver = resolve.New(resolve.Config{Servers: []resolve.Server{{Transport: resolve.UDP, Addr: d.Addr}}, Timeout: attempt})
			})
			begin := time.Now()
			resp, body := get(t, l.client(), "http://a.test/")
			if took := time.Since(begin); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
			if got := resp.Header.Get("X-Aisb-Reason"); got != tt.reason || resp.StatusCode < 400 {
				t.Errorf("%s, %q, want %s", resp.Status, got, tt.reason)
			}
			for _, a := range tt.answer.Addrs {
				if strings.Contains(body, a.String()) {
					t.Errorf("the answer tells the address: %q", body)
				}
			}
			l.noneLeft()
		})
	}
}

// rst has a connection end by a reset.
func rst(c *net.TCPConn) { c.SetLinger(0) } // close then sends RST (socket(7), SO_LINGER)

// An origin that resets at any stage ends its own request or tunnel and no other: the
// client sees an end, never a whole answer that wasn't one, and nothing is held.
func TestOriginResets(t *testing.T) {
	answers := func(said string, read bool) fakes.Talk {
		return func(c *net.TCPConn) int64 {
			if _, err := http.ReadRequest(bufio.NewReader(c)); read && err != nil {
				return 0
			}
			n, _ := io.WriteString(c, said)
			rst(c)
			return int64(n)
		}
	}
	const request = "GET http://HOST/ HTTP/1.1\r\nHost: x\r\n\r\n"
	post := "POST http://HOST/ HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n" + strings.Repeat("x", 1000000)
	const tunnel = "CONNECT HOST HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, tt := range []struct {
		name string
		talk fakes.Talk
		ask  string
		want string // the beginning of what the client gets
		ends string // the reason in the log, or one of two
	}{
		// The kernel may tell of such a reset when it connects, or later.
		{"at once", func(c *net.TCPConn) int64 { rst(c); return 0 }, request, "HTTP/1.1 502 ", "upstream-failure dial-failure"},
		{"in the request", fakes.Reset, request, "HTTP/1.1 502 ", "upstream-failure"},
		{"in the request's body", answers("", true), post, "HTTP/1.1 502 ", "upstream-failure"},
		{"before the answer", answers("", true), request, "HTTP/1.1 502 ", "upstream-failure"},
		{"in the answer's head", answers("HTTP/1.1 200 OK\r\nContent-Len", true), request, "HTTP/1.1 502 ", "upstream-failure"},
		{"in the answer's body", answers("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", true), request, "HTTP/1.1 ", "upstream-failure"},
		{"in a chunk", answers("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", true), request, "HTTP/1.1 ", "upstream-failure"},
		{"a tunnel, at once", func(c *net.TCPConn) int64 { rst(c); return 0 }, tunnel + "x", "HTTP/1.1 ", ""},
		{"a tunnel, at the first byte", fakes.Reset, tunnel + "x", "HTTP/1.1 200 ", ""},
		{"a tunnel, after some words", func(c *net.TCPConn) int64 { io.WriteString(c, "words"); return fakes.Reset(c) }, tunnel + "x", "HTTP/1.1 200 ", ""},
		{"a tunnel, after its end", func(c *net.TCPConn) int64 { io.WriteString(c, "all"); c.CloseWrite(); return fakes.Reset(c) }, tunnel + "x", "HTTP/1.1 200 ", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := tcpOrigin(t, tt.talk)
			l := startLab(t, service(o.Addr)+"+tcp", nil, nil)
			c := l.dial()
			go io.WriteString(c, strings.ReplaceAll(tt.ask, "HOST", service(o.Addr))) // the rest may not be wanted
			got := c.rest()                                                           // fails by the deadline if no end comes
			if !strings.HasPrefix(got, tt.want) || strings.Contains(got, "i/o timeout") {
				t.Errorf("the client gets %q, want %q", got, tt.want)
			}
			c.Close() // a client that has more to say after the origin's end would find out then
			m := l.waitLog(func(m map[string]any) bool { return m["event"] == "close" || m["event"] == "error" })
			if cause, _ := m["reason"].(string); tt.ends != "" && !slices.Contains(strings.Fields(tt.ends), cause) {
				t.Errorf("logged as %v, want %s", m, tt.ends)
			}
			l.noneLeft()
		})
	}
}
