package gate

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

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
		{"allowed.test:22", "port-not-listed", "--allow 'allowed.test:22+tcp'", false},
		{"9.9.9.9:443", "ip-literal", "--allow '9.9.9.9'", false},
		{"[2620:fe::fe]:853", "ip-literal", "--allow '[2620:fe::fe]:853'", false},
		{"10.255.254.253:5432", "ip-literal", "--allow '10.255.254.253:5432+private'", false},
		{"127.0.0.1:8080", "ip-literal", "--allow 'host.containers.internal:8080'", false},
		{"[::1]:80", "ip-literal", "--allow 'host.containers.internal:80'", false},
		{"192.0.2.1:443", "ip-literal", "", false},
		{"169.254.169.254:80", "ip-literal", "", false},
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
		if _, _, err := l.gate.dial(t.Context(), d); !errors.Is(err, errUndecided) {
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

// A reload that takes +tcp off a rule ends the tunnels in which nobody looked at what
// is spoken.
func TestReloadOfTCP(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	l := startLab(t, service(o.Addr)+"+tcp", nil, nil)
	c := l.connect(service(o.Addr))
	c.send("x")
	c.r.ReadByte()
	l.gate.SetPolicy(l.policy(service(o.Addr) + "+tcp+upload=1MB"))
	c.send("y")
	if b, err := c.r.ReadByte(); b != 'y' {
		t.Fatalf("after a reload that leaves +tcp: %v", err)
	}
	l.gate.SetPolicy(l.policy(service(o.Addr)))
	if _, err := c.r.ReadByte(); err == nil {
		t.Error("the tunnel goes on")
	}
	if m := l.waitLog(event("close")); m["reason"] != "policy-changed" {
		t.Errorf("close line %v", m)
	}
}

// A reload that comes between a tunnel's decision and its connection ends it too.
func TestReloadWhileDialling(t *testing.T) {
	l, o := tcpLab(t, fakes.Echo, "+tcp")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	served, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	target, err := policy.ParseAuthority(service(o.Addr))
	if err != nil {
		t.Fatal(err)
	}
	x := l.gate.newExchange(&head{method: http.MethodConnect, target: target}, addrOf(served))
	x.client = &clientEnd{stream: served.(stream), done: func() {}}
	x.decision, x.refusal = l.gate.decide(t.Context(), x.method, target)
	if x.refusal != nil {
		t.Fatal(x.refusal.why)
	}
	l.gate.SetPolicy(l.policy("other.test"))
	req := (&http.Request{}).WithContext(l.gate.join(x)) // which the reload hasn't seen
	l.gate.tunnel(req, nil, nil)
	client.SetReadDeadline(time.Now().Add(patience))
	if n, err := io.Copy(io.Discard, client); isTimeout(err) {
		t.Errorf("the tunnel stands: %d bytes, %v", n, err)
	}
	l.waitLog(func(m map[string]any) bool { return m["event"] == "deny" && m["reason"] == "policy-changed" })
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

// When Drain returns, the log has the end of what it cut.
func TestDrainTells(t *testing.T) {
	web := site(t, nil)
	l := startTweaked(t, service(web.Addr), nil, nil, unhurried)
	c := l.dial()
	c.send(crlf("GET http://"+service(web.Addr)+"/hang HTTP/1.1", "Host: x", ""))
	l.waitLog(event("allow"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.gate.Drain(ctx)
	l.gate.log.Write(Record{Event: EventExit, Reason: policy.Shutdown})
	text := l.log.String()
	lines := strings.Split(strings.TrimSpace(text), "\n")
	if before := lines[max(0, len(lines)-2)]; !strings.Contains(before, `"event":"close"`) || !strings.Contains(before, `"reason":"shutdown"`) {
		t.Errorf("before the last line there is no close:\n%s", text)
	}
}
