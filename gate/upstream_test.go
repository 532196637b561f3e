package gate

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// parent is an upstream proxy: it notes what it is asked for, refuses what is in
// refused, and serves all else itself.
type parent struct {
	addr    string
	refused []string
	serve   func(net.Conn, *bufio.Reader)

	mu    sync.Mutex
	asked []string
	auth  string
}

func startParent(t *testing.T, serve func(net.Conn, *bufio.Reader), refused ...string) *parent {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	p := &parent{addr: ln.Addr().String(), refused: refused, serve: serve}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go p.talk(c)
		}
	}()
	return p
}

func (p *parent) talk(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	var target, auth string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		line = strings.TrimSpace(line)
		if rest, ok := strings.CutPrefix(line, "CONNECT "); ok {
			target, _, _ = strings.Cut(rest, " ")
		}
		if rest, ok := strings.CutPrefix(line, "Proxy-Authorization: "); ok {
			auth = rest
		}
		if line == "" {
			break
		}
	}
	p.mu.Lock()
	p.asked, p.auth = append(p.asked, target), auth
	p.mu.Unlock()
	if slices.Contains(p.refused, target) {
		io.WriteString(c, "HTTP/1.1 403 Forbidden by 192.0.2.99\r\nContent-Length: 6\r\n\r\nsecret")
		return
	}
	p.serve(c, r)
}

func (p *parent) got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked)
}

// greet answers, says its first words in the same segment, and echoes.
func greet(c net.Conn, r *bufio.Reader) {
	io.WriteString(c, "HTTP/1.0 200 Connection established\r\nVia: x\r\nContent-Length: 999\r\n\r\n220 hello\r\n")
	io.Copy(c, r)
}

var upstreamZone = fakes.Zone{
	"a.test":       {Addrs: []netip.Addr{netip.MustParseAddr("9.9.9.9")}},
	"two.test":     {Addrs: []netip.Addr{netip.MustParseAddr("9.9.9.1"), netip.MustParseAddr("2620:fe::fe")}},
	"private.test": {Addrs: []netip.Addr{netip.MustParseAddr("10.255.255.1")}},
	"inside.test":  {Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
}

const upstreamRules = "a.test:22+tcp two.test:22+tcp private.test:22+tcp inside.test:22+tcp none.test:22+tcp 9.9.9.8:22 *.wild.test:22+tcp"

// Names are resolved and judged here; the proxy is asked for judged addresses.
func TestUpstream(t *testing.T) {
	p := startParent(t, greet, "[2620:fe::fe]:22", "9.9.9.8:22")
	l := startLab(t, upstreamRules, upstreamZone, func(c *Config) {
		c.Upstream = &Upstream{Addr: p.addr, Authorization: "Basic dTpw"}
	})
	for _, tt := range []struct{ target, status, asked string }{
		{"a.test:22", "200", "9.9.9.9:22"},
		{"two.test:22", "200", "[2620:fe::fe]:22 9.9.9.1:22"},
		{"private.test:22", "403 Blocked by aisb: special-address", ""},
		{"inside.test:22", "403 Blocked by aisb: special-address", ""},
		{"none.test:22", "502", ""},
		{"9.9.9.8:22", "502", "9.9.9.8:22"},
		{"evil.test:22", "403 Blocked by aisb: not-listed", ""},
	} {
		before := len(p.got())
		c := l.dial()
		c.send("CONNECT " + tt.target + " HTTP/1.1\r\nHost: x\r\n\r\necho me")
		if status := c.head(); !strings.HasPrefix(status, "HTTP/1.1 "+tt.status) {
			t.Errorf("%s: %s, want %s", tt.target, status, tt.status)
		}
		c.CloseWrite()
		got := c.rest()
		if tt.status == "200" && got != "220 hello\r\necho me" {
			t.Errorf("%s: got %q", tt.target, got)
		}
		if strings.Contains(got, "secret") || strings.Contains(got, "192.0.2.99") {
			t.Errorf("%s: the client learns what the proxy said: %q", tt.target, got)
		}
		if asked := strings.Join(p.got()[before:], " "); asked != tt.asked {
			t.Errorf("%s: the proxy was asked for %q, want %q", tt.target, asked, tt.asked)
		}
	}
	if p.auth != "Basic dTpw" {
		t.Errorf("the proxy got %q", p.auth)
	}
	if m := l.waitLog(event("allow")); m["addr"] != "9.9.9.9:22" {
		t.Errorf("allow line %v", m)
	}
	l.waitLog(func(m map[string]any) bool { return m["reason"] == "dial-failure" && m["host"] == "9.9.9.8" })
}

// With Resolves names go on as they are, and nothing is asked of the DNS but
// what a +private rule names.
func TestUpstreamResolves(t *testing.T) {
	p := startParent(t, greet)
	l := startTweaked(t, "a.test:22+tcp gone.test:22+tcp mine.test:22+tcp+private 9.9.9.8:22 *.wild.test:22+tcp", fakes.Zone{
		"mine.test": {Addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}},
	}, func(c *Config) { c.Upstream = &Upstream{Addr: p.addr, Resolves: true} }, func(g *Gate) { g.names.limit = 2 })
	for _, target := range []string{"a.test:22", "gone.test:22", "9.9.9.8:22", "x.wild.test:22", "y.wild.test:22", "x.wild.test:22"} {
		c := l.connect(target)
		c.CloseWrite()
		c.rest()
	}
	for target, want := range map[string]string{
		"mine.test:22": "special-address", "z.wild.test:22": "limit", "evil.test:22": "not-listed", "127.0.0.1:22": "ip-literal", "localhost:22": "reserved-name",
	} {
		c := l.dial()
		c.send("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
		if status := c.head(); !strings.HasSuffix(status, ": "+want) {
			t.Errorf("%s: %s, want %s", target, status, want)
		}
	}
	want := []string{"a.test:22", "gone.test:22", "9.9.9.8:22", "x.wild.test:22", "y.wild.test:22", "x.wild.test:22"}
	if got := p.got(); !slices.Equal(got, want) {
		t.Errorf("the proxy was asked for %q, want %q", got, want)
	}
	if names := slices.Compact(slices.Sorted(slices.Values(l.dns.Log.Names()))); !slices.Equal(names, []string{"mine.test"}) {
		t.Errorf("the DNS was asked for %q", names)
	}
	if m := l.waitLog(event("allow")); m["addr"] != nil {
		t.Errorf("allow line %v: nobody knows the address", m)
	}
}

// A reload judges the address that was judged before, not the proxy's; the
// host's services are reached without the proxy; plain HTTP goes through it and
// keeps its connection.
func TestUpstreamReload(t *testing.T) {
	p := startParent(t, func(c net.Conn, r *bufio.Reader) {
		io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			switch {
			case line == "\r\n":
				io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nweb!")
			case !strings.Contains(line, ": ") && !strings.Contains(line, "HTTP/"):
				io.WriteString(c, line) // an echo in a tunnel
			}
		}
	})
	o := tcpOrigin(t, fakes.Echo)
	l := startLab(t, upstreamRules+" a.test "+service(o.Addr)+"+tcp", upstreamZone, func(c *Config) { c.Upstream = &Upstream{Addr: p.addr} })
	for range 2 {
		resp, err := l.client().Get("http://a.test/")
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if string(body) != "web!" {
			t.Errorf("got %q", body)
		}
	}
	direct := l.connect(service(o.Addr))
	if got := p.got(); !slices.Equal(got, []string{"9.9.9.9:80"}) {
		t.Errorf("the proxy was asked for %q", got)
	}
	direct.CloseWrite()
	direct.rest()
	l.waitLog(func(m map[string]any) bool { return m["event"] == "close" && m["method"] == "CONNECT" })
	l.noFlows()
	c := l.connect("a.test:22")
	echo := func() error {
		c.send("x\n")
		line, err := c.r.ReadString('\n')
		if err == nil && line != "x\n" {
			err = fmt.Errorf("got %q", line)
		}
		return err
	}
	if err := echo(); err != nil {
		t.Fatal(err)
	}
	if n := l.gate.SetPolicy(l.policy(upstreamRules)); n != 0 {
		t.Errorf("a reload of the same rules cuts %d", n)
	}
	if err := echo(); err != nil {
		t.Error(err)
	}
	if n := l.gate.SetPolicy(l.policy("other.test")); n != 1 {
		t.Errorf("a reload without the host cuts %d", n)
	}
	c.rest()
	l.waitLog(func(m map[string]any) bool { return m["reason"] == "policy-changed" })
}

// noFlows waits until nothing is under way.
func (l *lab) noFlows() {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), 10*time.Second)
	defer cancel()
	l.gate.flows.wait(ctx)
	if ctx.Err() != nil {
		l.t.Fatal("something is still under way")
	}
}

// A proxy that answers nonsense, nothing or for ever is a failure to connect.
func TestUpstreamFails(t *testing.T) {
	for name, say := range map[string]func(net.Conn, *bufio.Reader){
		"nonsense": func(c net.Conn, _ *bufio.Reader) { io.WriteString(c, "SSH-2.0-x\r\n\r\n") },
		"407":      func(c net.Conn, _ *bufio.Reader) { io.WriteString(c, "HTTP/1.1 407 No\r\n\r\n") },
		"nothing":  func(net.Conn, *bufio.Reader) {},
		"no end": func(c net.Conn, _ *bufio.Reader) {
			io.WriteString(c, "HTTP/1.1 200 OK\r\n")
			for {
				if _, err := io.WriteString(c, "X: "+strings.Repeat("x", 1000)+"\r\n"); err != nil {
					return
				}
			}
		},
	} {
		p := startParent(t, say)
		l := startLab(t, upstreamRules, upstreamZone, func(c *Config) { c.Upstream = &Upstream{Addr: p.addr} })
		c := l.dial()
		c.send("CONNECT a.test:22 HTTP/1.1\r\nHost: x\r\n\r\n")
		if status := c.head(); !strings.HasPrefix(status, "HTTP/1.1 502 ") {
			t.Errorf("%s: %s", name, status)
		}
		if got := c.rest(); strings.Contains(got, p.addr) || strings.Contains(got, "407") {
			t.Errorf("%s: the client learns of the proxy: %q", name, got)
		}
		l.waitLog(func(m map[string]any) bool { return m["event"] == "error" && m["reason"] == "dial-failure" })
	}
}
