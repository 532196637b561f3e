package gate

import (
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

func TestReservedNames(t *testing.T) {
	key := []byte("a key of thirty-two bytes or more")
	l := startLab(t, "a.test:8443", nil, func(c *Config) { c.Key = key })
	ask := func(target string, header ...string) (*http.Response, string) {
		t.Helper()
		req, _ := http.NewRequest(http.MethodGet, target, nil)
		for _, h := range header {
			name, value, _ := strings.Cut(h, ": ")
			req.Header.Set(name, value)
		}
		resp, err := l.client().Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return resp, string(body)
	}
	resp, _ := ask("http://r4nd0m.proof.aisb.invalid/")
	if resp.StatusCode != 403 || resp.Header.Get("X-Aisb-Proof") != Proof(key, "r4nd0m") {
		t.Errorf("proof: %s %v", resp.Status, resp.Header)
	}
	resp, _ = ask("http://control.aisb.invalid/healthz", "X-Aisb-Nonce: N")
	if resp.StatusCode != 204 || resp.Header.Get("X-Aisb-Proof") != Proof(key, "N") {
		t.Errorf("healthz: %s %v", resp.Status, resp.Header)
	}
	for target, want := range map[string]string{
		"a.test:8443": `{"allow":true,"rule":"a.test:8443","reason":"listed"}`,
		"a.test":      `{"allow":false,"reason":"port-not-listed"}`,
		"b.test":      `{"allow":false,"reason":"not-listed"}`,
	} {
		if _, body := ask("http://control.aisb.invalid/check?target=" + target); strings.TrimSpace(body) != want {
			t.Errorf("check %s: %s, want %s", target, body, want)
		}
	}
	for target, want := range map[string]int{
		"http://control.aisb.invalid/check?target=a:b:c": 400,
		"http://control.aisb.invalid/other":              404,
		"http://other.aisb.invalid/":                     404,
		"http://control.aisb.invalid:81/healthz":         404,
	} {
		if resp, _ := ask(target); resp.StatusCode != want {
			t.Errorf("%s: %s, want %d", target, resp.Status, want)
		}
	}
	if l.log.String() != "" || len(l.dns.Log.Names()) > 0 || len(l.gate.Report().Refusals) > 0 {
		t.Errorf("reserved names left traces: %s %q %+v", l.log.String(), l.dns.Log.Names(), l.gate.Report())
	}
}

// A name below a wildcard can't be used to tell the DNS anything at length.
func TestNameCap(t *testing.T) {
	l := startLab(t, "*.wild.test listed.test", fakes.Zone{"*.wild.test": {Addrs: []netip.Addr{netip.MustParseAddr("192.0.2.1")}}},
		func(*Config) {})
	l.gate.names.limit = 3
	reasons := map[policy.Reason]int{}
	for i := range 6 {
		_, r := l.gate.decide(t.Context(), "CONNECT", policy.Target{Host: fmt.Sprintf("n%d.wild.test", i), Port: 443})
		reasons[r.reason]++
	}
	if reasons[policy.SpecialAddress] != 3 || reasons[policy.Limit] != 3 {
		t.Errorf("got %v", reasons)
	}
	// Names that are known cost nothing.
	if _, r := l.gate.decide(t.Context(), "CONNECT", policy.Target{Host: "n0.wild.test", Port: 443}); r.reason != policy.SpecialAddress {
		t.Errorf("a known name: %s", r.reason)
	}
}

// The host's own addresses are refused, however public they look.
func TestOwnAddress(t *testing.T) {
	l := startLab(t, "", nil, nil)
	mine := netip.MustParseAddr("8.8.8.8")
	l.gate.own.set, l.gate.own.read = map[netip.Addr]bool{mine: true}, time.Now().Add(time.Hour)
	p := l.policy("a.test b.test+private")
	d := p.Decide(policy.Target{Host: "a.test", Port: 443})
	other := netip.MustParseAddr("9.9.9.9")
	private := netip.MustParseAddr("10.0.0.1")
	tests := []struct {
		addrs []netip.Addr
		want  policy.Reason
		hint  bool
	}{
		{[]netip.Addr{other}, policy.Listed, true},
		{[]netip.Addr{mine}, policy.OwnAddress, false},
		{[]netip.Addr{netip.MustParseAddr("::ffff:8.8.8.8")}, policy.OwnAddress, false},
		{[]netip.Addr{other, mine}, policy.MixedAnswer, false},
		{[]netip.Addr{mine, other}, policy.MixedAnswer, false},
		{[]netip.Addr{private}, policy.SpecialAddress, true},
		{[]netip.Addr{private, other}, policy.MixedAnswer, true},
		{[]netip.Addr{private, netip.MustParseAddr("127.0.0.1")}, policy.SpecialAddress, false},
	}
	for _, tt := range tests {
		got, hint := l.gate.judge(p, d, tt.addrs, 443)
		if got != tt.want || hint != tt.hint {
			t.Errorf("%v: %s, +private %v; want %s, %v", tt.addrs, got, hint, tt.want, tt.hint)
		}
	}
	if _, r := l.gate.decide(t.Context(), "CONNECT", policy.Target{Addr: mine, Port: 8080}); r == nil || r.allow != "host.containers.internal:8080" {
		t.Errorf("the host's own address: %+v", r)
	}
	if set, err := readOwn(); err != nil || !set[netip.MustParseAddr("127.0.0.1")] {
		t.Errorf("own addresses: %v, %v", set, err)
	}
}

// The first address that answers is used, and one that swallows packets costs a
// quarter of a second.
func TestHappyEyeballs(t *testing.T) {
	order4 := order([]netip.AddrPort{ap("192.0.2.1:1"), ap("192.0.2.2:1"), ap("[2001:db8::1]:1")})
	if fmt.Sprint(order4) != "[[2001:db8::1]:1 192.0.2.1:1 192.0.2.2:1]" {
		t.Errorf("order %v", order4)
	}
	o := tcpOrigin(t, fakes.Echo)
	dead := deadPort(t)
	l := startLab(t, "", nil, nil)
	d := &decision{Decision: policy.Decision{Allow: true}, addrs: []netip.AddrPort{dead, dead, o.Addr}}
	c, to, err := l.gate.dial(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if to != o.Addr {
		t.Errorf("connected to %s", to)
	}
	d.addrs = []netip.AddrPort{dead, dead}
	if _, _, err := l.gate.dial(t.Context(), d); err == nil {
		t.Error("connected to nothing")
	}
}

func ap(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestConnectionLimit(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	l := startLab(t, service(o.Addr)+"+tcp", nil, func(c *Config) { c.MaxConns = 2 })
	for range 3 { // slots come back
		a, b := l.connect(service(o.Addr)), l.connect(service(o.Addr))
		over := l.dial()
		if status := over.head(); !strings.Contains(status, "503") {
			t.Errorf("the third: %s", status)
		}
		for _, c := range []*raw{a, b} {
			c.CloseWrite()
			c.rest()
			c.Close()
		}
		l.noneLeft()
	}
	// Also those of plain HTTP, of refusals and of rubbish.
	for _, request := range []string{
		"rubbish\r\n\r\n", "CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://control.aisb.invalid/healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "",
	} {
		for range 3 {
			c := l.dial()
			c.send(request)
			if request == "" {
				c.CloseWrite()
			}
			c.rest()
			c.Close()
			l.noneLeft()
		}
	}
}

// Many clients at once, of all kinds, leave nothing behind.
func TestManyClients(t *testing.T) {
	echo := tcpOrigin(t, fakes.Echo)
	web := site(t, nil)
	l := startLab(t, service(echo.Addr)+"+tcp "+service(web.Addr), nil, nil)
	client := l.client()
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			switch i % 3 {
			case 0:
				c := l.connect(service(echo.Addr))
				c.send("hello")
				c.CloseWrite()
				if got := c.rest(); got != "hello" {
					t.Errorf("tunnel: %q", got)
				}
				c.Close()
			case 1:
				resp, err := client.Get("http://" + service(web.Addr) + "/bytes/100000")
				if err != nil {
					t.Error(err)
					return
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			case 2:
				c := l.dial()
				c.send("CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
				if got := c.rest(); !strings.Contains(got, "403") {
					t.Errorf("refusal: %q", got)
				}
				c.Close()
			}
		})
	}
	all.Wait()
	client.CloseIdleConnections()
	l.noneLeft()
}
