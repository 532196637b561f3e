package resolve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// startDNS starts a name server and a resolver that asks it.
func startDNS(t *testing.T, zone fakes.Zone) (*fakes.DNS, *Resolver) {
	t.Helper()
	d, err := fakes.StartDNS("127.0.0.1:0", zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, New(Config{Servers: []Server{{Transport: UDP, Addr: d.Addr}}})
}

func addrs(texts ...string) []netip.Addr {
	var out []netip.Addr
	for _, s := range texts {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func TestLookup(t *testing.T) {
	otherName := func(m *dns.Msg) { m.Question[0].Name = "other.test." }
	zone := fakes.Zone{
		"a.test":     {Addrs: addrs("192.0.2.1", "2001:db8::1")},
		"four.test":  {Addrs: addrs("192.0.2.1", "192.0.2.2")},
		"six.test":   {Addrs: addrs("2001:db8::1")},
		"alias.test": {CNAME: "a.test"},
		"far.test":   {CNAME: "alias.test"},
		"loop1.test": {CNAME: "loop2.test"},
		"loop2.test": {CNAME: "loop1.test"},
		"empty.test": {},
		"fail.test":  {Rcode: dns.RcodeServerFailure},
		"big.test":   {Addrs: addrs("192.0.2.7"), Truncate: true},
		"id.test":    {Addrs: addrs("192.0.2.66"), Mangle: func(m *dns.Msg) { m.Id++ }},
		"name.test":  {Addrs: addrs("192.0.2.66"), Mangle: otherName},
		"class.test": {Addrs: addrs("192.0.2.66"), Mangle: func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }},
		"owner.test": {Addrs: addrs("192.0.2.66"), Mangle: func(m *dns.Msg) {
			for _, rr := range m.Answer {
				rr.Header().Name = "other.test."
			}
		}},
	}
	_, r := startDNS(t, zone)
	tests := []struct {
		name, want string
		err        error
	}{
		{"a.test", "[192.0.2.1 2001:db8::1]", nil},
		{"A.tEST", "[192.0.2.1 2001:db8::1]", nil},
		{"four.test", "[192.0.2.1 192.0.2.2]", nil},
		{"six.test", "[2001:db8::1]", nil},
		{"alias.test", "[192.0.2.1 2001:db8::1]", nil},
		{"far.test", "[192.0.2.1 2001:db8::1]", nil},
		{"loop1.test", "[]", ErrFailed},
		{"empty.test", "[]", ErrNoName},
		{"none.test", "[]", ErrNoName},
		{"fail.test", "[]", ErrFailed},
		{"big.test", "[192.0.2.7]", nil},
		{"id.test", "[]", ErrFailed},
		{"name.test", "[]", ErrFailed},
		{"class.test", "[]", ErrFailed},
		{"owner.test", "[]", ErrNoName},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := r.Lookup(t.Context(), tt.name)
			slices.SortFunc(got, netip.Addr.Compare)
			if fmt.Sprint(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("Lookup(%q) = %v, %v, want %s, %v", tt.name, got, err, tt.want, tt.err)
			}
		})
	}
}

// A guessed answer that comes first is passed over, not believed and not taken
// for a failure.
func TestForgedAnswer(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			for _, a := range []struct {
				id   uint16
				addr string
			}{{q.Id + 1, "192.0.2.66"}, {q.Id, "192.0.2.1"}} {
				m := new(dns.Msg).SetReply(q)
				m.Id = a.id
				if q.Question[0].Qtype == dns.TypeA {
					m.Answer = []dns.RR{&dns.A{
						Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
						A:   net.ParseIP(a.addr),
					}}
				}
				wire, _ := m.Pack()
				pc.WriteTo([]byte("garbage"), from)
				pc.WriteTo(wire, from)
			}
		}
	}()
	r := New(Config{Servers: []Server{{Transport: UDP, Addr: pc.LocalAddr().(*net.UDPAddr).AddrPort()}}})
	got, err := r.Lookup(t.Context(), "a.test")
	if fmt.Sprint(got) != "[192.0.2.1]" || err != nil {
		t.Errorf("got %v, %v, want the true answer", got, err)
	}
}

func TestCacheAndFlight(t *testing.T) {
	d, r := startDNS(t, fakes.Hosts(map[string][]string{"a.test": {"192.0.2.1"}, "b.test": {"192.0.2.2"}}))
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			if _, err := r.Lookup(t.Context(), "a.test"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(d.Log.Names()); n != 2 { // A and AAAA
		t.Errorf("50 look-ups sent %d queries, want 2", n)
	}
	if !r.Cached("a.test") || r.Cached("b.test") {
		t.Error("Cached is wrong")
	}
	r.Lookup(t.Context(), "none.test")
	before := len(d.Log.Names())
	if _, err := r.Lookup(t.Context(), "none.test"); !errors.Is(err, ErrNoName) {
		t.Errorf("got %v, want ErrNoName", err)
	}
	if n := len(d.Log.Names()) - before; n > 2 {
		t.Errorf("a known absence sent %d queries", n)
	}
}

func TestCacheBounds(t *testing.T) {
	r := New(Config{})
	for i := range maxEntries + 100 {
		r.keep(fmt.Sprintf("h%d.test", i), entry{}, time.Minute)
	}
	if len(r.cache) != maxEntries {
		t.Errorf("%d entries, want %d", len(r.cache), maxEntries)
	}
	r.keep("zero.test", entry{}, 0)
	if r.Cached("zero.test") {
		t.Error("a TTL of 0 is kept")
	}
}

// A name server that is gone, or silent, costs one time-out at most: the next
// look-up begins with the one that answered.
func TestDeadServer(t *testing.T) {
	d, _ := startDNS(t, fakes.Hosts(map[string][]string{"a.test": {"192.0.2.1"}, "b.test": {"192.0.2.1"}}))
	dead, err := net.ListenPacket("udp", "127.0.0.1:0") // silent
	if err != nil {
		t.Fatal(err)
	}
	defer dead.Close()
	r := New(Config{Servers: []Server{
		{Transport: UDP, Addr: dead.LocalAddr().(*net.UDPAddr).AddrPort()},
		{Transport: UDP, Addr: d.Addr},
	}})
	if _, err := r.Lookup(t.Context(), "a.test"); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if _, err := r.Lookup(t.Context(), "b.test"); err != nil || time.Since(begin) > defaultConf().Timeout {
		t.Errorf("the second look-up took %v, %v", time.Since(begin), err)
	}
}

func TestLookupContext(t *testing.T) {
	_, r := startDNS(t, fakes.Zone{"a.test": {Silent: true}})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := r.Lookup(ctx, "a.test"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want the context's error", err)
	}
}

func TestParseServer(t *testing.T) {
	good := map[string]string{
		"9.9.9.9":                            "9.9.9.9:53",
		"127.0.0.1:5353":                     "127.0.0.1:5353",
		"2620:fe::fe":                        "[2620:fe::fe]:53",
		"[2620:fe::fe]:54":                   "[2620:fe::fe]:54",
		"udp://9.9.9.9":                      "9.9.9.9:53",
		"tcp://9.9.9.9":                      "tcp://9.9.9.9:53",
		"tls://9.9.9.9":                      "tls://9.9.9.9:853",
		"tls://9.9.9.9#dns.example":          "tls://9.9.9.9:853#dns.example",
		"https://9.9.9.9":                    "https://9.9.9.9:443/dns-query",
		"https://[2620:fe::fe]:8443/q#a.exa": "https://[2620:fe::fe]:8443/q#a.exa",
		"fe80::1%eth0":                       "[fe80::1%eth0]:53",
	}
	for in, want := range good {
		s, err := ParseServer(in)
		if err != nil || s.String() != want {
			t.Errorf("ParseServer(%q) = %q, %v, want %q", in, s, err, want)
		}
		if again, err := ParseServer(s.String()); err != nil || again != s {
			t.Errorf("ParseServer(%q) = %v, %v, want %v", s, again, err, s)
		}
	}
	for _, in := range []string{"", "dns.example", "tls://dns.example", "9.9.9.9:0", "ftp://9.9.9.9", "https://u@9.9.9.9", "tcp://9.9.9.9#x", "tls://9.9.9.9/x", "9.9.9"} {
		if s, err := ParseServer(in); err == nil {
			t.Errorf("ParseServer(%q) = %v, want an error", in, s)
		}
	}
}

func TestParseConf(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "[127.0.0.1:53 [::1]:53] 2s 2"},
		{"nameserver 192.0.2.1\n", "[192.0.2.1:53] 2s 2"},
		{"# c\n; c\nsearch corp.test\nnameserver\t192.0.2.1 # x\nnameserver fe80::1%eth0\nnameserver nonsense\r\n", "[192.0.2.1:53 [fe80::1%eth0]:53] 2s 2"},
		{"nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n", "[192.0.2.1:53 192.0.2.2:53 192.0.2.3:53] 2s 2"},
		{"options timeout:1 attempts:3 rotate edns0\nnameserver 192.0.2.1", "[192.0.2.1:53] 1s 3"},
		{"options timeout:90 attempts:99 use-vc\nnameserver 192.0.2.1", "[tcp://192.0.2.1:53] 5s 4"},
		{"options timeout:0 attempts:-1\nnameserver 192.0.2.1", "[192.0.2.1:53] 2s 2"},
	}
	for _, tt := range tests {
		c := ParseConf([]byte(tt.text))
		if got := fmt.Sprintf("%v %v %d", c.Servers, c.Timeout, c.Attempts); got != tt.want {
			t.Errorf("ParseConf(%q) = %s, want %s", tt.text, got, tt.want)
		}
	}
}

// An edited, replaced or vanished resolv.conf is noticed, the last by keeping
// what was known.
func TestConfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	f := confFile{path: path}
	now := time.Now()
	read := func() string {
		now = now.Add(2 * checkEvery)
		return fmt.Sprint(f.get(now).Servers)
	}
	if got := read(); !strings.Contains(got, "127.0.0.1") {
		t.Errorf("without a file: %s", got)
	}
	os.WriteFile(path, []byte("nameserver 192.0.2.1"), 0o600)
	if got := read(); got != "[192.0.2.1:53]" {
		t.Errorf("a new file: %s", got)
	}
	os.WriteFile(path+".new", []byte("nameserver 192.0.2.2"), 0o600)
	os.Rename(path+".new", path)
	if got := read(); got != "[192.0.2.2:53]" {
		t.Errorf("a replaced file: %s", got)
	}
	os.Remove(path)
	if got := read(); got != "[192.0.2.2:53]" {
		t.Errorf("a vanished file: %s", got)
	}
}

// Whatever bytes come back, an address is taken only from an answer to the
// question, from a record of the asked type and class.
func FuzzReadAnswer(f *testing.F) {
	q := newQuery("a.test", dns.TypeA, true)
	m := new(dns.Msg).SetReply(q)
	m.Answer = []dns.RR{
		&dns.CNAME{Hdr: dns.RR_Header{Name: "a.test.", Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 9}, Target: "b.test."},
		&dns.A{Hdr: dns.RR_Header{Name: "b.test.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 9}, A: net.IPv4(192, 0, 2, 1)},
	}
	wire, _ := m.Pack()
	f.Add(wire[2:]) // without the ID
	f.Fuzz(func(t *testing.T, wire []byte) {
		reply := new(dns.Msg)
		if reply.Unpack(append([]byte{byte(q.Id >> 8), byte(q.Id)}, wire...)) != nil || !answers(q, reply) {
			return
		}
		a := readAnswer(reply, dns.TypeA)
		if len(a.addrs) > 0 && a.kind != found || a.ttl > maxTTL || a.links > maxChain+1 {
			t.Fatalf("answer %+v of %s", a, reply)
		}
		for _, addr := range a.addrs {
			if !addr.Is4() {
				t.Fatalf("address %s of a question for A", addr)
			}
		}
	})
}

// Over TLS and HTTPS the certificate must be for the server's name or address;
// an answer by anyone else is none.
func TestEncrypted(t *testing.T) {
	ca, err := fakes.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	zone := fakes.Hosts(map[string][]string{"a.test": {"192.0.2.1"}})
	plain, err := fakes.StartDNS("127.0.0.1:0", zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	dot := overTLS(t, ca, plain.Addr)
	doh, err := fakes.StartHTTPS("127.0.0.1:0", ca, postDNS(plain.Addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer doh.Close()
	other, err := fakes.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []Server{
		{Transport: TLS, Addr: dot}, {Transport: TLS, Addr: dot, Name: "dns.test"},
		{Transport: DoH, Addr: doh.Addr, Path: "/dns-query"}, {Transport: DoH, Addr: doh.Addr, Path: "/dns-query", Name: "dns.test"},
		{Transport: TCP, Addr: plain.Addr},
	} {
		r := New(Config{Servers: []Server{server}, Roots: ca.Pool()})
		got, err := r.Lookup(t.Context(), "a.test")
		if fmt.Sprint(got) != "[192.0.2.1]" || err != nil {
			t.Errorf("%s: %v, %v", server, got, err)
		}
		if _, err := r.Lookup(t.Context(), "none.test"); !errors.Is(err, ErrNoName) {
			t.Errorf("%s: %v, want ErrNoName", server, err)
		}
		if server.Transport == TCP {
			continue
		}
		stranger := New(Config{Servers: []Server{server}, Roots: other.Pool()})
		if got, err := stranger.Lookup(t.Context(), "a.test"); !errors.Is(err, ErrFailed) {
			t.Errorf("%s: an unknown authority gives %v, %v", server, got, err)
		}
	}
}

// overTLS puts TLS in front of a name server's TCP side.
func overTLS(t *testing.T, ca *fakes.CA, plain netip.AddrPort) netip.AddrPort {
	t.Helper()
	conf := ca.Config()
	conf.NextProtos = nil
	ln, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", plain.String())
			if err != nil {
				c.Close()
				continue
			}
			go func() { io.Copy(up, c); up.Close() }()
			go func() { io.Copy(c, up); c.Close() }()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// postDNS answers DNS over HTTPS from a name server.
func postDNS(plain netip.AddrPort) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire, err := io.ReadAll(r.Body)
		q := new(dns.Msg)
		if err != nil || q.Unpack(wire) != nil || r.Header.Get("Content-Type") != "application/dns-message" || r.URL.Path != "/dns-query" {
			http.Error(w, "no query", http.StatusBadRequest)
			return
		}
		reply, _, err := new(dns.Client).Exchange(q, plain.String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		wire, _ = reply.Pack()
		w.Header().Set("Content-Type", "application/dns-message")
		w.Write(wire)
	})
}
