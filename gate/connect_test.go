package gate

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// tcpLab is a gate with one origin that need not be TLS.
func tcpLab(t *testing.T, talk fakes.Talk, options string) (*lab, *fakes.TCP) {
	o := tcpOrigin(t, talk)
	return startLab(t, service(o.Addr)+options, nil, nil), o
}

func TestTunnel(t *testing.T) {
	l, o := tcpLab(t, fakes.Echo, "+tcp")
	c := l.connect(service(o.Addr))
	c.send("to and fro")
	c.CloseWrite()
	if got := c.rest(); got != "to and fro" {
		t.Errorf("got %q", got)
	}
	m := l.waitLog(event("close"))
	if m["up"] != 10.0 || m["down"] != 10.0 || m["host"] != policy.ServiceHost || m["ms"] == nil || m["reason"] != nil {
		t.Errorf("close line %v", m)
	}
	r := l.gate.Report()
	if len(r.Hosts) != 1 || r.Hosts[0].Up != 10 || r.Hosts[0].Down != 10 || r.Hosts[0].Count != 1 {
		t.Errorf("report %+v", r)
	}
}

// Bytes in the segment of the CONNECT are the tunnel's first.
func TestEarlyBytes(t *testing.T) {
	l, o := tcpLab(t, fakes.Echo, "+tcp")
	c := l.dial()
	c.send("CONNECT " + service(o.Addr) + " HTTP/1.1\r\nHost: x\r\n\r\nearly")
	if status := c.head(); !strings.Contains(status, "200") {
		t.Fatal(status)
	}
	c.send(" late")
	c.CloseWrite()
	if got := c.rest(); got != "early late" {
		t.Errorf("got %q", got)
	}
}

// Each direction ends for itself.
func TestHalfClose(t *testing.T) {
	l, o := tcpLab(t, fakes.Count, "+tcp")
	c := l.connect(service(o.Addr))
	c.send("12345")
	c.CloseWrite()
	if got := c.rest(); got != "5 bytes\n" {
		t.Errorf("client first: %q", got)
	}
	l, o = tcpLab(t, fakes.HalfClosed("all\n"), "+tcp")
	c = l.connect(service(o.Addr))
	if got := c.rest(); got != "all\n" {
		t.Errorf("server first: %q", got)
	}
	c.send("still here")
	c.CloseWrite()
	if e, ok := o.Log.Wait(10*time.Second, func(e fakes.Event) bool { return e.Bytes == 10 }); !ok {
		t.Errorf("what came after the server's end was lost: %+v", e)
	}
}

// A server that speaks first is heard with +tcp, and else not before the client
// has shown what it speaks.
func TestServerFirst(t *testing.T) {
	l, o := tcpLab(t, fakes.Banner("220 hello\r\n"), "+tcp")
	c := l.connect(service(o.Addr))
	if line, err := c.r.ReadString('\n'); line != "220 hello\r\n" {
		t.Errorf("got %q, %v", line, err)
	}
	l, o = tcpLab(t, fakes.Banner("220 hello\r\n"), "")
	c = l.connect(service(o.Addr))
	c.send("EHLO me\r\n")
	if got := c.rest(); strings.Contains(got, "220") {
		t.Errorf("the banner came through: %q", got)
	}
	if m := l.waitLog(event("deny")); m["reason"] != "not-tls" {
		t.Errorf("deny line %v", m)
	}
}

func TestTunnelReset(t *testing.T) {
	l, o := tcpLab(t, fakes.Reset, "+tcp")
	c := l.connect(service(o.Addr))
	c.send("x")
	if _, err := io.ReadAll(c.r); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("the client sees %v", err) // a reset or an end, not a hang
	}
	l.waitLog(event("close"))
}

// Neither side takes what the gate has cut for what has ended.
func TestCutIsReset(t *testing.T) {
	ends := make(chan error, 1)
	l, o := tcpLab(t, func(c *net.TCPConn) int64 {
		n, err := io.Copy(io.Discard, c)
		ends <- err
		return n
	}, "+tcp+upload=1000")
	c := l.connect(service(o.Addr))
	c.send(strings.Repeat("x", 600))
	c.send(strings.Repeat("x", 600))
	if _, err := io.ReadAll(c.r); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("beyond the budget the client sees %v", err)
	}
	if err := <-ends; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("beyond the budget the server sees %v", err)
	}

	l.gate.SetPolicy(l.policy(service(o.Addr)))
	c = l.connect(service(o.Addr))
	c.send("SSH-2.0-x\r\n")
	if _, err := io.ReadAll(c.r); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("what isn't TLS: the client sees %v", err)
	}
	if err := <-ends; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("what isn't TLS: the server sees %v", err)
	}
}

// The budget is the rule's: what tunnels and requests send counts together.
func TestUploadBudget(t *testing.T) {
	l, o := tcpLab(t, fakes.Echo, "+tcp+upload=1000")
	send := func(n int) (got int) {
		c := l.connect(service(o.Addr))
		c.send(strings.Repeat("x", n))
		c.CloseWrite()
		return len(c.rest())
	}
	if got := send(600); got != 600 {
		t.Fatalf("600 bytes of 1000: %d came back", got)
	}
	if got := send(400); got != 400 {
		t.Fatalf("exactly the rest: %d came back", got)
	}
	send(1)
	l.waitLog(func(m map[string]any) bool { return m["reason"] == "budget" && m["event"] == "close" && m["up"] == 0.0 })
	l.gate.SetPolicy(l.policy(service(o.Addr) + "+tcp+upload=1000"))
	send(1)
	if e, ok := o.Log.Wait(time.Second, func(e fakes.Event) bool { return e.Bytes == 1 }); ok {
		t.Errorf("after a reload there is more: %+v", e)
	}
}

// A plain request is held to the budget as well, with a length and without.
func TestUploadBudgetOfRequests(t *testing.T) {
	web := site(t, nil)
	l := startLab(t, service(web.Addr)+"+upload=1000", nil, nil)
	for i, want := range []int{200, 403} {
		req, _ := http.NewRequest(http.MethodPost, "http://"+service(web.Addr)+"/upload", io.NopCloser(strings.NewReader(strings.Repeat("x", 800))))
		req.ContentLength = []int64{800, -1}[i]
		resp, err := l.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("upload %d: %s, want %d", i, resp.Status, want)
		}
	}
	l.waitLog(func(m map[string]any) bool { return m["event"] == "deny" && m["reason"] == "budget" })
}

// tlsLab is a gate with a TLS origin, which has a certificate for any name.
func tlsLab(t *testing.T) (*lab, *fakes.Origin, *fakes.CA) {
	t.Helper()
	ca, err := fakes.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	o, err := fakes.StartHTTPS("127.0.0.1:0", ca, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return startLab(t, service(o.Addr), nil, nil), o, ca
}

func TestSNI(t *testing.T) {
	l, o, ca := tlsLab(t)
	tests := []struct {
		sni    string
		reason string
	}{
		{policy.ServiceHost, ""},
		{"Host.Containers.INTERNAL", ""},
		{"other.test", "sni-mismatch"},
		{"x." + policy.ServiceHost, "sni-mismatch"},
		{"", "no-sni"},
	}
	for _, tt := range tests {
		c := l.connect(service(o.Addr))
		conf := &tls.Config{ServerName: tt.sni, RootCAs: ca.Pool(), InsecureSkipVerify: true}
		secure := tls.Client(c, conf)
		err := secure.Handshake()
		if (err == nil) != (tt.reason == "") {
			t.Errorf("SNI %q: handshake: %v", tt.sni, err)
		}
		if tt.reason != "" {
			var alert tls.AlertError
			if !errors.As(err, &alert) && !strings.Contains(fmt.Sprint(err), "unrecognized name") {
				t.Errorf("SNI %q: the client sees %v, want an alert", tt.sni, err)
			}
			l.waitLog(func(m map[string]any) bool { return m["event"] == "deny" && m["reason"] == tt.reason })
		}
		c.Close()
	}
	m := l.waitLog(event("allow"))
	if m["sni"] != policy.ServiceHost {
		t.Errorf("allow line %v", m)
	}
	if n := len(o.Log.Events()); n != 0 {
		t.Errorf("the origin had %d requests", n)
	}
}

// A ClientHello that comes byte by byte is understood as well.
func TestSplitHello(t *testing.T) {
	l, o, ca := tlsLab(t)
	c := l.connect(service(o.Addr))
	secure := tls.Client(&slowConn{c}, &tls.Config{ServerName: policy.ServiceHost, RootCAs: ca.Pool()})
	if err := secure.Handshake(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(secure, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
	if b, _ := io.ReadAll(secure); !strings.Contains(string(b), "origin GET x /") {
		t.Errorf("got %q", b)
	}
}

// slowConn writes byte by byte.
type slowConn struct{ net.Conn }

func (c *slowConn) Write(p []byte) (int, error) {
	for i := range p {
		if _, err := c.Conn.Write(p[i : i+1]); err != nil {
			return i, err
		}
	}
	return len(p), nil
}
