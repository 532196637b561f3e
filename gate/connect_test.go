package gate

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
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

func TestUploadBudget(t *testing.T) {
	l, o := tcpLab(t, fakes.Silent, "+tcp+upload=1000")
	c := l.connect(service(o.Addr))
	c.send(strings.Repeat("x", 5000))
	io.ReadAll(c.r)
	m := l.waitLog(event("close"))
	if m["reason"] != "budget" || m["up"].(float64) > 1000 {
		t.Errorf("close line %v", m)
	}
	if e, ok := o.Log.Wait(10*time.Second, func(fakes.Event) bool { return true }); !ok || e.Bytes > 1000 {
		t.Errorf("the origin got %d bytes", e.Bytes)
	}
	// Exactly the budget is not too much.
	c = l.connect(service(o.Addr))
	c.send(strings.Repeat("x", 1000))
	c.CloseWrite()
	if e, ok := o.Log.Wait(10*time.Second, func(e fakes.Event) bool { return e.Bytes == 1000 && e.Client != "" }); !ok {
		t.Errorf("a full budget: %+v", e)
	}
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

// A denial says in the status line what it is, closes, and dials nothing.
func TestDenial(t *testing.T) {
	l := startLab(t, "allowed.test *.wild.test local.test+private", fakes.Hosts(map[string][]string{
		"allowed.test": {"127.0.0.1"}, "a.wild.test": {"192.0.2.1", "8.8.8.8"}, "local.test": {"127.0.0.53"},
	}), nil)
	tests := []struct {
		target, reason, allow string
		query                 bool
	}{
		{"evil.test:443", "not-listed", "--allow 'evil.test'", false},
		{"evil.test:8443", "not-listed", "--allow 'evil.test:8443'", false},
		{"allowed.test:22", "port-not-listed", "--allow 'allowed.test:22'", false},
		{"192.0.2.1:443", "ip-literal", "--allow '192.0.2.1'", false},
		{"[2001:db8::1]:443", "ip-literal", "--allow '[2001:db8::1]'", false},
		{"localhost:8080", "reserved-name", "--allow 'host.containers.internal:8080'", false},
		{"host.containers.internal:99", "reserved-name", "--allow 'host.containers.internal:99'", false},
		{"printer.local:443", "reserved-name", "--allow 'printer.local+private'", false},
		{"control.aisb.invalid:443", "reserved-name", "", false},
		{"allowed.test:443", "special-address", "", true},
		{"local.test:443", "special-address", "", true},
		{"a.wild.test:443", "mixed-answer", "", true},
	}
	for _, tt := range tests {
		before := len(l.dns.Log.Names())
		c := l.dial()
		c.send(crlf("CONNECT "+tt.target+" HTTP/1.1", "Host: x", "") + "unread bytes")
		answer := c.rest()
		want := "HTTP/1.1 403 Blocked by aisb: " + tt.reason + "\r\n"
		if !strings.HasPrefix(answer, want) || !strings.Contains(answer, "X-Aisb-Reason: "+tt.reason+"\r\n") || !strings.Contains(answer, "Connection: close\r\n") {
			t.Errorf("%s: got %q", tt.target, answer)
		}
		if tt.allow != "" && !strings.Contains(answer, "aisb run "+tt.allow+"\n") || tt.allow == "" && strings.Contains(answer, "--allow") {
			t.Errorf("%s: hint in %q, want %q", tt.target, answer, tt.allow)
		}
		if queries := len(l.dns.Log.Names()) - before; (queries > 0) != tt.query {
			t.Errorf("%s: %d queries", tt.target, queries)
		}
		l.waitLog(func(m map[string]any) bool {
			return m["event"] == "deny" && m["reason"] == tt.reason && m["port"] != nil
		})
	}
	if r := l.gate.Report(); len(r.Refusals) != len(tests) {
		t.Errorf("report has %d refusals, want %d", len(r.Refusals), len(tests))
	}
}

// The dialler refuses whatever carries no decision.
func TestNoDecisionNoDial(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	l := startLab(t, "", nil, nil)
	allowed := policy.Decision{Allow: true, Reason: policy.Listed}
	for name, d := range map[string]*decision{"none": nil, "zero": {}, "no address": {Decision: allowed}} {
		if _, err := l.gate.dial(t.Context(), d); !errors.Is(err, errUndecided) {
			t.Errorf("%s: %v", name, err)
		}
	}
	req, _ := http.NewRequest(http.MethodConnect, "http://"+o.Addr.String(), nil)
	if _, err := l.gate.dialConnect(req, "tcp", o.Addr.String()); !errors.Is(err, errUndecided) {
		t.Errorf("CONNECT: %v", err)
	}
	get, _ := http.NewRequest(http.MethodGet, "http://"+o.Addr.String(), nil)
	if _, err := l.gate.transport.RoundTrip(get); !errors.Is(err, errUndecided) {
		t.Errorf("GET: %v", err)
	}
	// A decision for one target dials for no other.
	x := &exchange{decision: &decision{Decision: allowed, addrs: nil}}
	ctx := context.WithValue(t.Context(), exchangeKey{}, x)
	if _, err := l.gate.dialRequest(ctx, "tcp", o.Addr.String()); !errors.Is(err, errUndecided) {
		t.Errorf("another's key: %v", err)
	}
	if n := o.Open(); n != 0 {
		t.Errorf("%d connections", n)
	}
}

// A reload that removes a host ends its tunnels and leaves the others.
func TestSetPolicy(t *testing.T) {
	a, b := tcpOrigin(t, fakes.Echo), tcpOrigin(t, fakes.Echo)
	l := startLab(t, service(a.Addr)+"+tcp "+service(b.Addr)+"+tcp", nil, nil)
	ca, cb := l.connect(service(a.Addr)), l.connect(service(b.Addr))
	for _, c := range []*raw{ca, cb} {
		c.send("x")
		c.r.ReadByte()
	}
	l.gate.SetPolicy(l.policy(service(b.Addr) + "+tcp"))
	if _, err := ca.r.ReadByte(); err == nil {
		t.Error("the tunnel to a removed host goes on")
	}
	cb.send("y")
	if c, err := cb.r.ReadByte(); c != 'y' {
		t.Errorf("the other tunnel has ended: %v", err)
	}
	if m := l.waitLog(event("close")); m["reason"] != "policy-changed" {
		t.Errorf("close line %v", m)
	}
}

// Drain lets what runs come to its end, and cuts it when the time is over.
func TestDrain(t *testing.T) {
	l, o := tcpLab(t, fakes.Echo, "+tcp")
	c := l.connect(service(o.Addr))
	idle := l.dial() // has asked for nothing
	drained := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { l.gate.Drain(ctx); close(drained) }()
	if _, err := idle.r.ReadByte(); err == nil {
		t.Error("an idle connection goes on")
	}
	c.send("x")
	if b, err := c.r.ReadByte(); b != 'x' {
		t.Fatalf("the tunnel has ended: %v", err)
	}
	if _, err := net.Dial("tcp", l.addr); err == nil {
		t.Error("new clients are accepted")
	}
	cancel()
	<-drained
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the tunnel goes on")
	}
	if m := l.waitLog(event("close")); m["reason"] != "shutdown" {
		t.Errorf("close line %v", m)
	}
}

// Plain requests and websockets are cut by a reload as tunnels are.
func TestSetPolicyCutsRequests(t *testing.T) {
	web := site(t, nil)
	l := startLab(t, service(web.Addr), nil, nil)
	base := "http://" + service(web.Addr)
	hang, ws := l.dial(), l.dial()
	hang.send(crlf("GET "+base+"/hang HTTP/1.1", "Host: x", ""))
	ws.send(crlf("GET "+base+"/switch HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket", ""))
	ws.head()
	deadline := time.Now().Add(5 * time.Second)
	for strings.Count(l.log.String(), `"allow"`) < 2 && time.Now().Before(deadline) {
		time.Sleep(time.Millisecond)
	}
	l.gate.SetPolicy(l.policy("other.test"))
	for name, c := range map[string]*raw{"request": hang, "websocket": ws} {
		if b, err := c.r.ReadByte(); err == nil {
			t.Errorf("the %s goes on: %q", name, b)
		}
	}
	l.waitLog(func(m map[string]any) bool { return m["event"] == "close" && m["reason"] == "policy-changed" })
}
