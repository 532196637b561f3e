package resolve

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// hurried is the time of an attempt where no answer is to come that counts.
const hurried = 300 * time.Millisecond

// startDNS starts a name server and a resolver that asks it, and waits for its answers
// for as long as a busy machine may take.
func startDNS(t *testing.T, zone fakes.Zone) (*fakes.DNS, *Resolver) {
	t.Helper()
	d, err := fakes.StartDNS("127.0.0.1:0", zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, patient(d, lookupTimeout)
}

// patient makes a resolver that asks a name server, with a time for each attempt.
func patient(d *fakes.DNS, attempt time.Duration) *Resolver {
	r := New(Config{Servers: []Server{{Transport: UDP, Addr: d.Addr}}, Timeout: attempt})
	r.other = lookupTimeout
	return r
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
	d, r := startDNS(t, zone)
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
			r := r
			if zone[tt.name].Mangle != nil && errors.Is(tt.err, ErrFailed) { // an answer is waited for in vain
				r = patient(d, hurried)
			}
			got, err := r.Lookup(t.Context(), tt.name)
			slices.SortFunc(got, netip.Addr.Compare)
			if fmt.Sprint(got) != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("Lookup(%q) = %v, %v, want %s, %v", tt.name, got, err, tt.want, tt.err)
			}
		})
	}
}

// An alias makes nobody ask for a name that a client could not ask for itself.
func TestAliasOfLocalName(t *testing.T) {
	zone := fakes.Zone{}
	for i, target := range []string{"localhost", "x.localhost", "db.corp.internal", "printer.local", "intranet", "A.LOCAL."} {
		zone[fmt.Sprintf("a%d.test", i)] = fakes.Answer{CNAME: target}
	}
	d, r := startDNS(t, zone)
	for name := range zone {
		if got, err := r.Lookup(t.Context(), name); !errors.Is(err, ErrFailed) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for _, name := range d.Log.Names() {
		if _, found := zone[name]; !found {
			t.Errorf("a query for %q", name)
		}
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
		r.keep(fmt.Sprintf("h%d.test", i), r.conf(), entry{}, time.Minute)
	}
	if len(r.cache) != maxEntries {
		t.Errorf("%d entries, want %d", len(r.cache), maxEntries)
	}
	r.keep("zero.test", r.conf(), entry{}, 0)
	if r.Cached("zero.test") {
		t.Error("a TTL of 0 is kept")
	}
}

// A name server that is gone, or silent, costs one time-out at most: the next
// look-up begins with the one that answered.
func TestDeadServer(t *testing.T) {
	d, _ := startDNS(t, fakes.Hosts(map[string][]string{"a.test": {"192.0.2.1"}, "b.test": {"192.0.2.1"}}))
	dead, _ := startDNS(t, fakes.Zone{"a.test": {Silent: true}, "b.test": {Silent: true}})
	r := patient(d, hurried)
	r.servers = []Server{{Transport: UDP, Addr: dead.Addr}, {Transport: UDP, Addr: d.Addr}}
	if _, err := r.Lookup(t.Context(), "a.test"); err != nil {
		t.Fatal(err)
	}
	r.timeout = lookupTimeout
	if _, err := r.Lookup(t.Context(), "b.test"); err != nil {
		t.Fatal(err)
	}
	if asked := dead.Log.Names(); !slices.Contains(asked, "a.test") || slices.Contains(asked, "b.test") {
		t.Errorf("the silent one was asked for %q", asked)
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

// A fault in taking an answer apart ends that look-up, not the process.
func TestPanicIsContained(t *testing.T) {
	r := New(Config{})
	r.file.path = ""
	r.cache = nil // keep and the clients' map are not made for that
	r.clients = nil
	r.servers = []Server{{Transport: DoH, Name: "x", Path: "/", Addr: netip.MustParseAddrPort("127.0.0.1:1")}}
	if _, err := r.Lookup(t.Context(), "a.test"); !errors.Is(err, ErrFailed) {
		t.Errorf("got %v", err)
	}
}

// What one network's servers said is forgotten when another's are asked, also
// when it comes late.
func TestOtherServers(t *testing.T) {
	_, r := startDNS(t, fakes.Zone{"a.test": {Addrs: addrs("192.0.2.1")}})
	look := func() string {
		t.Helper()
		got, err := r.Lookup(t.Context(), "a.test")
		return fmt.Sprint(got, err)
	}
	if got := look(); got != "[192.0.2.1] <nil>" {
		t.Errorf("before: %s", got)
	}
	old := r.conf()
	other, _ := startDNS(t, fakes.Zone{"a.test": {Addrs: addrs("192.0.2.2")}})
	r.servers = []Server{{Transport: UDP, Addr: other.Addr}}
	if r.Cached("a.test") {
		t.Error("what the old servers said is known")
	}
	if got := look(); got != "[192.0.2.2] <nil>" {
		t.Errorf("after: %s", got)
	}
	r.keep("b.test", old, entry{addrs: addrs("192.0.2.1")}, time.Minute)
	if r.Cached("b.test") {
		t.Error("what the old servers said late is kept")
	}
}
