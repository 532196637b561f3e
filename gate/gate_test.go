package gate

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// Over loopback only the named process may connect, and before it is named
// nobody.
func TestForeignClient(t *testing.T) {
	var pasta atomic.Int64
	l := startLab(t, "", nil, func(c *Config) { c.Clients.Pasta = &pasta })
	ask := func() string {
		c := l.dial()
		c.send(crlf("GET http://control.aisb.invalid/healthz HTTP/1.1", "Host: x", "Connection: close", ""))
		return c.head()
	}
	for pid, want := range map[int]string{0: "403", os.Getppid(): "403", os.Getpid(): "204"} {
		pasta.Store(int64(pid))
		if got := ask(); !strings.Contains(got, want) {
			t.Errorf("pid %d: %s, want %s", pid, got, want)
		}
	}
	m := l.waitLog(event("foreign-client"))
	if m["reason"] != "foreign-client" || m["client"] == "" || l.gate.Report().Foreign != 2 {
		t.Errorf("line %v, report %+v", m, l.gate.Report())
	}
	l = startLab(t, "", nil, func(c *Config) { c.Clients.UID++ })
	if got := ask(); !strings.Contains(got, "403 Blocked by aisb: foreign-client") {
		t.Errorf("another user: %s", got)
	}
}

func TestClientNetworks(t *testing.T) {
	c := Clients{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	for from, want := range map[string]policy.Reason{"192.0.2.9:1": "", "198.51.100.1:1": policy.ClientNotAllowed} {
		conn := fakeConn{local: "203.0.113.1:3128", remote: from}
		if got := c.Check(conn); got != want {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
}

// fakeConn has addresses that need no network.
type fakeConn struct {
	net.Conn
	local, remote string
}

func (c fakeConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local))
}
func (c fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.remote))
}

func TestOwner(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("%s: %v", addr, err)
			continue
		}
		defer ln.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		from, to := c.LocalAddr().(*net.TCPAddr).AddrPort(), ln.Addr().(*net.TCPAddr).AddrPort()
		o, err := ownerOf(from, to)
		if err != nil || o.uid != os.Getuid() || !holdsSocket(os.Getpid(), o.inode) || holdsSocket(os.Getpid(), o.inode+1_000_000) {
			t.Errorf("%s: %+v, %v", addr, o, err)
		}
		if _, err := ownerOf(netip.AddrPortFrom(from.Addr(), 1), to); err == nil {
			t.Errorf("%s: a socket that does not exist has an owner", addr)
		}
	}
}

func BenchmarkOwner(b *testing.B) {
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	from, to := c.LocalAddr().(*net.TCPAddr).AddrPort(), ln.Addr().(*net.TCPAddr).AddrPort()
	for b.Loop() {
		if _, err := ownerOf(from, to); err != nil {
			b.Fatal(err)
		}
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
	dead := tcpOrigin(t, fakes.Echo)
	dead.Close()
	l := startLab(t, "", nil, nil)
	d := &decision{Decision: policy.Decision{Allow: true}, addrs: []netip.AddrPort{dead.Addr, dead.Addr, o.Addr}}
	c, err := l.gate.dial(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	d.addrs = []netip.AddrPort{dead.Addr, dead.Addr}
	if _, err := l.gate.dial(t.Context(), d); err == nil {
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
		deadline := time.Now().Add(5 * time.Second)
		for len(l.gate.slots) > 0 && time.Now().Before(deadline) {
			time.Sleep(time.Millisecond)
		}
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
			deadline := time.Now().Add(5 * time.Second)
			for len(l.gate.slots) > 0 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if n := len(l.gate.slots); n != 0 {
				t.Fatalf("%q keeps %d slots", request, n)
			}
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
	deadline := time.Now().Add(10 * time.Second)
	for len(l.gate.slots) > 0 && time.Now().Before(deadline) {
		time.Sleep(5 * time.Millisecond)
	}
	if n := len(l.gate.slots); n != 0 {
		t.Errorf("%d connections are left", n)
	}
}

// The log has the keys, events and reasons of its documentation and no others,
// each of its type, and nothing of paths or header fields.
func TestLogSchema(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	web := site(t, nil)
	l := startLab(t, service(o.Addr)+"+tcp "+service(web.Addr), nil, nil)
	c := l.connect(service(o.Addr))
	c.CloseWrite()
	c.rest()
	req, _ := http.NewRequest(http.MethodGet, "http://"+service(web.Addr)+"/SECRETPATH?q=SECRETQUERY", nil)
	req.Header.Set("X-Secret", "SECRETFIELD")
	resp, err := l.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for _, bad := range []string{"CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n\r\n", "GET http://\x1b[31m/ HTTP/1.1\r\nHost: x\r\n\r\n"} {
		c := l.dial()
		c.send(bad)
		c.rest()
	}
	l.waitLog(func(m map[string]any) bool { return m["event"] == "close" && m["method"] == "GET" })
	l.gate.log.Write(Record{Event: EventListening, Addr: ap("127.0.0.1:3128")})
	if s := l.log.String(); strings.Contains(s, "SECRET") || strings.Contains(s, "\x1b") {
		t.Errorf("the log says too much: %s", s)
	}
	types := map[string]string{
		"ts": "string", "event": "string", "id": "number", "run": "string", "method": "string", "host": "string",
		"port": "number", "reason": "string", "rule": "string", "addr": "string", "sni": "string", "alpn": "string",
		"up": "number", "down": "number", "ms": "number", "client": "string",
	}
	for line := range strings.Lines(l.log.String()) {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		for key, value := range m {
			kind := "string"
			if _, ok := value.(float64); ok {
				kind = "number"
			}
			if types[key] != kind || value == "" {
				t.Errorf("%s: key %s is a %s: %v", line, key, kind, value)
			}
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", m["ts"].(string)); err != nil {
			t.Errorf("ts: %v", err)
		}
		if r, found := m["reason"]; found && !slices.Contains(policy.Reasons(), policy.Reason(r.(string))) {
			t.Errorf("reason %v is not in the closed set", r)
		}
		if !slices.Contains(Events(), Event(m["event"].(string))) {
			t.Errorf("event %v is not in the closed set", m["event"])
		}
	}
}

// docs/gate-log.md names each event, key and reason.
func TestLogIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/gate-log.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range policy.Reasons() {
		if !strings.Contains(string(text), "| `"+string(r)+"` |") {
			t.Errorf("reason %s is not documented", r)
		}
	}
	for _, e := range Events() {
		if !strings.Contains(string(text), "| `"+string(e)+"` |") {
			t.Errorf("event %s is not documented", e)
		}
	}
	for _, key := range strings.Fields("ts event id run method host port reason rule addr sni alpn up down ms client") {
		if !strings.Contains(string(text), "| `"+key+"` |") {
			t.Errorf("key %s is not documented", key)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain":                  "plain",
		"\x1b]0;x\x07":           `\x1b]0;x\x07`,
		"a\u202eb":               `a\xe2\x80\xaeb`,
		"\x7f":                   `\x7f`,
		strings.Repeat("x", 300): strings.Repeat("x", 255),
	} {
		if got := printable(in); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
}
