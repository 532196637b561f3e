package direct

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
	"github.com/aisb-dev/aisb/tests/fakes"
)

func parse(t *testing.T, allow string, deny ...string) *policy.Policy {
	t.Helper()
	lines := func(texts []string) (list []policy.Line) {
		for _, text := range texts {
			list = append(list, policy.Line{Text: text, Origin: "--allow"})
		}
		return list
	}
	p, _, err := policy.Parse(lines(strings.Fields(allow)), lines(deny), policy.Options{AllowAllNames: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestTargets(t *testing.T) {
	for rules, want := range map[string]string{
		"a.test":                               "a.test:80 a.test:443",
		"a.test a.test:443 a.test:8443+tcp":    "a.test:80 a.test:443 a.test:8443",
		"A.Test.:443":                          "a.test:443",
		"93.184.215.14 [2606:2800::1]:443":     "93.184.215.14:80 93.184.215.14:443 [2606:2800::1]:443",
		"93.184.215.14/32:443":                 "93.184.215.14:443",
		"host.containers.internal:8080":        "host.containers.internal:8080",
		"db.corp.test:5432+private+tcp a.test": "db.corp.test:5432 a.test:80 a.test:443",
	} {
		targets, err := Targets(parse(t, rules))
		var got []string
		for _, target := range targets {
			got = append(got, target.String())
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, %v; want %s", rules, got, err, want)
		}
	}
	for rules, want := range map[string][]string{
		"*.a.test":                 {`rule "*.a.test" is a wildcard`},
		"*":                        {`rule "*" is a wildcard`},
		"*:443":                    {`rule "*:443" is a wildcard`},
		"93.184.215.0/24:443":      {"is a range"},
		"a.test:*":                 {"opens every port"},
		"a.test+upload=1MB":        {"has a budget"},
		"*.a.test b.test c.test:*": {"*.a.test", "c.test:*"},
	} {
		_, err := Targets(parse(t, rules))
		if err == nil {
			t.Errorf("%s: taken", rules)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: got %v, want %q", rules, err, part)
			}
		}
		for _, one := range err.(interface{ Unwrap() []error }).Unwrap() {
			if e, ok := one.(*policy.RuleError); !ok || e.Suggestion == "" {
				t.Errorf("%s: %#v has no suggestion", rules, one)
			}
		}
	}
}

// finder asks a name server of the test's own, with patience.
func finder(t *testing.T, zone fakes.Zone, p *policy.Policy) (*Finder, *fakes.DNS) {
	t.Helper()
	return finderFor(t, zone, p, 5*time.Second)
}

func finderFor(t *testing.T, zone fakes.Zone, p *policy.Policy, patience time.Duration) (*Finder, *fakes.DNS) {
	t.Helper()
	server, err := fakes.StartDNS("127.0.0.1:0", zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	f, err := NewFinder(Config{
		Policy:   p,
		Resolver: resolve.New(resolve.Config{Servers: []resolve.Server{{Transport: resolve.UDP, Addr: server.Addr}}, Timeout: patience}),
		Service:  netip.MustParseAddr("169.254.1.3"),
	})
	if err != nil {
		t.Fatal(err)
	}
	return f, server
}

// What is found is judged as a gate judges it.
func TestFind(t *testing.T) {
	zone := fakes.Hosts(map[string][]string{
		"good.test": {"93.184.215.14", "2606:2800::1"}, "private.test": {"10.1.2.3"}, "loop.test": {"127.0.0.1"},
		"meta.test": {"169.254.169.254"}, "mixed.test": {"93.184.215.14", "10.1.2.3"}, "denied.test": {"93.184.215.66"},
		"azure.test": {"168.63.129.16"},
	})
	f, server := finder(t, zone, parse(t, "good.test:443 private.test:1 private.test:2+private loop.test:80+private meta.test:80+private "+
		"mixed.test:443 denied.test:443 azure.test:80+private gone.test:443 "+
		"93.184.215.20:443 10.9.9.9:443+private host.containers.internal:8080", "93.184.215.66"))
	got := map[string]string{}
	for _, a := range f.Find(t.Context()) {
		slices.SortFunc(a.Addrs, netip.Addr.Compare)
		got[a.Target.String()] = fmt.Sprint(a.Reason, a.Addrs)
		if a.Allowed() == (a.Why != "") || a.Rule == "" {
			t.Errorf("%+v", a)
		}
	}
	for target, want := range map[string]string{
		"good.test:443":                 "listed[93.184.215.14 2606:2800::1]",
		"private.test:1":                "listed[10.1.2.3]", // the rules of a name add up
		"private.test:2":                "listed[10.1.2.3]",
		"loop.test:80":                  "special-address[]",
		"meta.test:80":                  "special-address[]",
		"azure.test:80":                 "special-address[]",
		"mixed.test:443":                "mixed-answer[]",
		"denied.test:443":               "denied-rule[]",
		"gone.test:443":                 "nxdomain[]",
		"10.9.9.9:443":                  "listed[10.9.9.9]",
		"93.184.215.20:443":             "listed[93.184.215.20]",
		"host.containers.internal:8080": "host-service[169.254.1.3]",
	} {
		if target == "private.test:1" {
			want = "special-address[]" // +private is of the other port
		}
		if got[target] != want {
			t.Errorf("%s: got %s, want %s", target, got[target], want)
		}
	}
	for _, e := range server.Log.Events() {
		if strings.Contains(e.Name, "containers") {
			t.Errorf("a query for %s", e.Name)
		}
	}
	f, _ = finderFor(t, fakes.Zone{"dead.test": {Silent: true}}, parse(t, "dead.test:443"), 100*time.Millisecond)
	if a := f.Find(t.Context())[0]; a.Allowed() || a.Reason != policy.DNSFailure || a.Why == "" {
		t.Errorf("a name server that says nothing: %+v", a)
	}
}

// What means this host in the sandbox is refused, and what comes with it.
func TestFindMapped(t *testing.T) {
	const mapped = "fd3d::3"
	f, _ := finder(t, fakes.Hosts(map[string][]string{"home.test": {mapped}, "both.test": {mapped, "fd3d::4"}, "good.test": {"fd3d::4"}}),
		parse(t, "home.test:1+private both.test:1+private good.test:1+private"))
	f.mapped = []netip.Addr{netip.MustParseAddr(mapped)}
	var got []policy.Reason
	for _, a := range f.Find(t.Context()) {
		if a.Allowed() != (a.Why == "") {
			t.Errorf("%+v", a)
		}
		got = append(got, a.Reason)
	}
	if want := []policy.Reason{policy.OwnAddress, policy.MixedAnswer, policy.Listed}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An address of the host's own is none to open, however public it looks.
func TestFindOwnAddress(t *testing.T) {
	f, _ := finder(t, fakes.Hosts(map[string][]string{"own.test": {"93.184.215.77"}}), parse(t, "own.test:443"))
	a := f.Find(t.Context())[0]
	if !a.Allowed() {
		t.Fatalf("%+v", a) // it is not the host's here; tests/e2e has one that is
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f, _ = finder(t, nil, parse(t, "own.test:443"))
	if a := f.Find(ctx)[0]; a.Allowed() || !a.unknown() {
		t.Errorf("with an end: %+v", a)
	}
}

var when = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

func answer(host string, addrs ...string) Answer {
	a := Answer{Target: policy.Target{Host: host, Port: 443}, Reason: policy.Listed}
	for _, s := range addrs {
		a.Addrs = append(a.Addrs, netip.MustParseAddr(s))
	}
	return a
}

func failed(host string, reason policy.Reason) Answer {
	return Answer{Target: policy.Target{Host: host, Port: 443}, Reason: reason}
}

// state is a book in one line: peers, what the hosts file says, and the changes.
func state(b *Book, changes []Change) string {
	var out []string
	for _, p := range b.Peers() {
		out = append(out, p.String())
	}
	out = append(out, "|")
	for _, l := range b.Lines() {
		out = append(out, l.Name+"="+l.Addr.String())
	}
	out = append(out, "|")
	for _, c := range changes {
		switch {
		case !c.Peer.IsValid():
			out = append(out, "?"+c.Target.Host+":"+string(c.Reason))
		case c.Open:
			out = append(out, "+"+c.Peer.Addr().String())
		default:
			out = append(out, "-"+c.Peer.Addr().String())
		}
	}
	return strings.Join(out, " ")
}

func TestBook(t *testing.T) {
	b := NewBook(10*time.Minute, 3)
	for _, step := range []struct {
		minute  int
		answers []Answer
		want    string
	}{
		{0, []Answer{answer("a.test", "1.0.0.1")}, "1.0.0.1:443 | a.test=1.0.0.1 | +1.0.0.1"},
		{1, []Answer{answer("a.test", "1.0.0.1")}, "1.0.0.1:443 | a.test=1.0.0.1 |"},
		// another address: the first is not named any more, and stays open
		{2, []Answer{answer("a.test", "1.0.0.2")}, "1.0.0.1:443 1.0.0.2:443 | a.test=1.0.0.2 | +1.0.0.2"},
		// the name server is dead: everything stays, told once
		{8, []Answer{failed("a.test", policy.DNSFailure)}, "1.0.0.1:443 1.0.0.2:443 | a.test=1.0.0.2 | ?a.test:dns-failure"},
		{60, []Answer{failed("a.test", policy.DNSFailure)}, "1.0.0.1:443 1.0.0.2:443 | a.test=1.0.0.2 |"},
		// it is back: what was seen long ago goes
		{61, []Answer{answer("a.test", "1.0.0.2")}, "1.0.0.2:443 | a.test=1.0.0.2 | -1.0.0.1"},
		// the name leads where it may not, or nowhere: not named, open for its time
		{62, []Answer{failed("a.test", policy.MixedAnswer)}, "1.0.0.2:443 | | ?a.test:mixed-answer"},
		{63, []Answer{failed("a.test", policy.NXDomain)}, "1.0.0.2:443 | | ?a.test:nxdomain"},
		{70, []Answer{failed("a.test", policy.NXDomain)}, "1.0.0.2:443 | |"},
		{71, []Answer{failed("a.test", policy.NXDomain)}, "| | -1.0.0.2"},
		// two names at one address: it is open as long as one of them has it
		{80, []Answer{answer("a.test", "1.0.0.9"), answer("b.test", "1.0.0.9")}, "1.0.0.9:443 | a.test=1.0.0.9 b.test=1.0.0.9 | +1.0.0.9 +1.0.0.9"},
		{81, []Answer{answer("a.test", "1.0.0.8"), answer("b.test", "1.0.0.9")}, "1.0.0.8:443 1.0.0.9:443 | b.test=1.0.0.9 a.test=1.0.0.8 | +1.0.0.8"},
		// no room: what no name has any more goes before its time
		{82, []Answer{answer("b.test", "1.0.0.7")}, "1.0.0.7:443 1.0.0.8:443 1.0.0.9:443 | a.test=1.0.0.8 b.test=1.0.0.7 | +1.0.0.7"},
		{83, []Answer{answer("a.test", "1.0.0.6")}, "1.0.0.6:443 1.0.0.7:443 1.0.0.8:443 | b.test=1.0.0.7 a.test=1.0.0.6 | -1.0.0.9 -1.0.0.9 +1.0.0.6"},
		// and what they have stays
		{84, []Answer{answer("a.test", "1.0.0.6", "1.0.0.5", "1.0.0.4")}, "1.0.0.5:443 1.0.0.6:443 1.0.0.7:443 | b.test=1.0.0.7 a.test=1.0.0.6 a.test=1.0.0.5 | -1.0.0.8 +1.0.0.5"},
		// who finds no place at all is told of, once, and has one as soon as another goes
		{85, []Answer{answer("c.test", "1.0.0.3")}, "1.0.0.5:443 1.0.0.6:443 1.0.0.7:443 | b.test=1.0.0.7 a.test=1.0.0.6 a.test=1.0.0.5 | ?c.test:limit"},
		{86, []Answer{answer("c.test", "1.0.0.3")}, "1.0.0.5:443 1.0.0.6:443 1.0.0.7:443 | b.test=1.0.0.7 a.test=1.0.0.6 a.test=1.0.0.5 |"},
		{87, []Answer{answer("a.test", "1.0.0.6"), answer("c.test", "1.0.0.3")}, "1.0.0.3:443 1.0.0.6:443 1.0.0.7:443 | b.test=1.0.0.7 a.test=1.0.0.6 c.test=1.0.0.3 | -1.0.0.5 +1.0.0.3"},
	} {
		got := state(b, b.Take(step.answers, when.Add(time.Duration(step.minute)*time.Minute)))
		if strings.Join(strings.Fields(got), " ") != step.want {
			t.Errorf("minute %d: got  %s\nwant %s", step.minute, got, step.want)
		}
	}
	if n := b.Names(); n != 3 {
		t.Errorf("%d names", n)
	}
}

// What may not be reached any more goes at once, whether its name has it or had it.
func TestBookDrops(t *testing.T) {
	b := NewBook(time.Hour, 10)
	b.Take([]Answer{answer("a.test", "1.0.0.1"), answer("b.test", "1.0.0.2")}, when)
	b.Take([]Answer{answer("a.test", "1.0.0.3")}, when)
	got := state(b, b.Drop(func(t policy.Target, addr netip.Addr) (policy.Reason, bool) {
		return policy.OwnAddress, t.Host == "b.test" || addr == netip.MustParseAddr("1.0.0.1")
	}))
	if want := "1.0.0.3:443 | a.test=1.0.0.3 | -1.0.0.1 -1.0.0.2"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An address is judged again without a query.
func TestRefuses(t *testing.T) {
	f, server := finder(t, nil, parse(t, "a.test:443 b.test:443+private host.containers.internal:443"))
	for _, row := range []struct {
		host, addr string
		want       policy.Reason // "" for none
	}{
		{"a.test", "93.184.215.14", ""}, {"a.test", "10.0.0.1", policy.SpecialAddress}, {"a.test", "127.0.0.1", policy.SpecialAddress},
		{"b.test", "10.255.255.1", ""}, {"c.test", "93.184.215.14", policy.NotListed}, {policy.ServiceHost, "169.254.1.3", ""},
	} {
		reason, refused := f.Refuses(policy.Target{Host: row.host, Port: 443}, netip.MustParseAddr(row.addr))
		if refused != (row.want != "") || refused && reason != row.want {
			t.Errorf("%s at %s: %q, %v", row.host, row.addr, reason, refused)
		}
	}
	if events := server.Log.Events(); len(events) > 0 {
		t.Errorf("queries: %v", events)
	}
}

// An address that a rule lists by itself is open, and nothing to name.
func TestBookOfAddresses(t *testing.T) {
	b := NewBook(time.Minute, 10)
	a := netip.MustParseAddr("9.9.9.9")
	b.Take([]Answer{{Target: policy.Target{Addr: a, Port: 853}, Addrs: []netip.Addr{a}, Reason: policy.Listed}}, when)
	if got := b.Peers(); !slices.Equal(got, []netip.AddrPort{netip.AddrPortFrom(a, 853)}) || len(b.Lines()) != 0 || b.Names() != 1 {
		t.Errorf("peers %v, lines %v", got, b.Lines())
	}
}
