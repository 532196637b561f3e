package netpolicy

import (
	"flag"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func at(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// full has a rule of every form.
func full() Spec {
	return Spec{
		Gates:   []netip.AddrPort{at("169.254.1.3:3128"), at("[fd77::1]:3128")},
		Publish: []uint16{8080},
		Probes: []Probe{
			{Name: "tcp-public", Proto: TCP, To: at("203.0.113.1:443")},
			{Name: "tcp-public-ipv6", Proto: TCP, To: at("[2001:db8::1]:443")},
			{Name: "udp-dns", Proto: UDP, To: at("203.0.113.1:53")},
			{Name: "host-loopback", Proto: TCP, To: at("169.254.1.3:3129")},
		},
	}
}

// direct opens peers in both sets, and the resolver.
func direct() Spec {
	return Spec{
		Direct: &Direct{
			Peers:    []netip.AddrPort{at("93.184.215.14:443"), at("[2606:2800::1]:443"), at("93.184.215.14:80"), at("9.9.9.9:443")},
			Resolver: at("169.254.1.1:53"),
		},
		Probes: []Probe{{Name: "tcp-public", Proto: TCP, To: at("203.0.113.1:443")}},
	}
}

func TestTextIsGolden(t *testing.T) {
	for file, spec := range map[string]Spec{
		"full.nft": full(), "nothing.nft": {}, "direct.nft": direct(), "direct-empty.nft": {Direct: &Direct{}},
	} {
		rs, err := Render(spec)
		if err != nil {
			t.Fatal(err)
		}
		path := "testdata/" + file
		if *update {
			t.Logf("rewriting %s", path)
			if err := os.WriteFile(path, []byte(rs.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := rs.String(); got != string(want) {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, want)
		}
	}
}

func TestRulesetOfAnySpec(t *testing.T) {
	rs, err := Render(full())
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, c := range rs.Chains {
		for _, r := range c.Rules {
			if names[r.Name] {
				t.Errorf("two rules are named %q: counters would mix", r.Name)
			}
			names[r.Name] = true
			if r.Verdict == Accept && r.Match == (Match{}) {
				t.Errorf("rule %q accepts everything", r.Name)
			}
		}
		if last := c.Rules[len(c.Rules)-1]; last.Match != (Match{}) || last.Verdict == Accept {
			t.Errorf("chain %q ends in %+v, which does not refuse the rest", c.Hook, last)
		}
	}
	for _, p := range full().Probes {
		if !names[p.Rule()] {
			t.Errorf("probe %q has no rule", p.Name)
		}
	}
}

func TestSpecsThatContradictThemselves(t *testing.T) {
	for want, change := range map[string]func(*Spec){
		"address or port is missing":  func(s *Spec) { s.Gates = append(s.Gates, netip.AddrPort{}) },
		"port is missing":             func(s *Spec) { s.Gates[0] = at("192.0.2.1:0") },
		"listed twice":                func(s *Spec) { s.Gates[1] = s.Gates[0] },
		"mapped form":                 func(s *Spec) { s.Gates[0] = at("[::ffff:192.0.2.1]:80") },
		"has a zone":                  func(s *Spec) { s.Gates[0] = at("[fe80::1%eth0]:80") },
		"unspecified, loopback":       func(s *Spec) { s.Gates[0] = at("127.0.0.1:80") },
		"is unspecified":              func(s *Spec) { s.Probes[0].To = at("0.0.0.0:80") },
		"loopback or multicast":       func(s *Spec) { s.Probes[0].To = at("224.0.0.1:80") },
		"published port 0":            func(s *Spec) { s.Publish = []uint16{0} },
		"published port 8080":         func(s *Spec) { s.Publish = []uint16{8080, 8080} },
		"goes to a gate":              func(s *Spec) { s.Probes[0].To = s.Gates[1] },
		"target of another":           func(s *Spec) { s.Probes[1].To = s.Probes[0].To },
		`probe name "tcp-public" is`:  func(s *Spec) { s.Probes[1].Name = "tcp-public" },
		`probe name "a\"; accept" is`: func(s *Spec) { s.Probes[1].Name = `a"; accept` },
		`probe name "" is malformed`:  func(s *Spec) { s.Probes[1].Name = "" },
		`unknown protocol "sctp"`:     func(s *Spec) { s.Probes[1].Proto = "sctp" },
	} {
		s := full()
		change(&s)
		rs, err := Render(s)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if len(rs.Chains) > 0 {
			t.Errorf("%s: a ruleset comes with the error", want)
		}
	}
	many := &Direct{}
	for port := range MaxPeers + 1 {
		many.Peers = append(many.Peers, netip.AddrPortFrom(at("9.9.9.9:1").Addr(), uint16(port+1)))
	}
	for want, change := range map[string]func(*Spec){
		`peer "127.0.0.1:80"`:           func(s *Spec) { s.Direct.Peers[0] = at("127.0.0.1:80") },
		"has a zone":                    func(s *Spec) { s.Direct.Peers[0] = at("[fe80::1%eth0]:80") },
		"it is listed twice":            func(s *Spec) { s.Direct.Peers[0] = s.Direct.Peers[1] },
		"1025 peers, at most 1024":      func(s *Spec) { s.Direct = many },
		`resolver "0.0.0.0:53"`:         func(s *Spec) { s.Direct.Resolver = at("0.0.0.0:53") },
		"goes to 9.9.9.9:443, which":    func(s *Spec) { s.Probes[0].To = at("9.9.9.9:443") },
		"goes to 169.254.1.1:53, which": func(s *Spec) { s.Probes[0] = Probe{"podman-dns", UDP, at("169.254.1.1:53")} },
	} {
		s := direct()
		change(&s)
		if _, err := Render(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	// A UDP probe to a gate's port is refused by its own rule.
	s := full()
	s.Probes[2].To = s.Gates[0]
	if _, err := Render(s); err != nil {
		t.Errorf("udp to the gate's port: %v", err)
	}
}

// Other peers change the sets and no rule, whatever their order; the spec that
// they came from stays as it was.
func TestWithPeers(t *testing.T) {
	spec := direct()
	before, err := Render(spec)
	if err != nil {
		t.Fatal(err)
	}
	turned := slices.Clone(spec.Direct.Peers)
	slices.Reverse(turned)
	same, err := Render(spec.WithPeers(turned))
	if err != nil || same.String() != before.String() {
		t.Errorf("the order of peers changes the ruleset to (%v)\n%s", err, same)
	}
	other, err := Render(spec.WithPeers([]netip.AddrPort{at("[2606:2800::1]:443")}))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(other.Chains, before.Chains) || len(other.Sets[0].Peers) != 0 || len(other.Sets[1].Peers) != 1 {
		t.Errorf("got\n%s", other)
	}
	if len(spec.Direct.Peers) != 4 {
		t.Errorf("the spec has %v now", spec.Direct.Peers)
	}
	if with := full().WithPeers(turned); with.Direct != nil {
		t.Error("peers have opened a spec that has no sets")
	}
}

// FuzzRender holds what the renderer promises of any spec: it is refused, or
// each chain ends in a refusal, no rule lets all pass, and the text has one
// line a rule whatever the names are.
func FuzzRender(f *testing.F) {
	f.Add("tcp-public", "tcp", []byte{203, 0, 113, 1}, uint16(443), []byte{169, 254, 1, 3}, uint16(3128), uint16(8080))
	f.Add("x\"; accept", "udp", make([]byte, 16), uint16(0), []byte{127, 0, 0, 1}, uint16(1), uint16(0))
	f.Fuzz(func(t *testing.T, name, proto string, probe []byte, probePort uint16, gate []byte, gatePort, publish uint16) {
		to, _ := netip.AddrFromSlice(probe)
		via, _ := netip.AddrFromSlice(gate)
		rs, err := Render(Spec{
			Gates:   []netip.AddrPort{netip.AddrPortFrom(via, gatePort)},
			Publish: []uint16{publish},
			Probes:  []Probe{{Name: name, Proto: Proto(proto), To: netip.AddrPortFrom(to, probePort)}},
		})
		if err != nil {
			return
		}
		rules := 0
		for _, c := range rs.Chains {
			rules += len(c.Rules)
			if last := c.Rules[len(c.Rules)-1]; last.Match != (Match{}) || last.Verdict == Accept {
				t.Errorf("chain %q ends in %+v", c.Hook, last)
			}
			for _, r := range c.Rules {
				if r.Verdict == Accept && r.Match == (Match{}) {
					t.Errorf("rule %q lets all pass", r.Name)
				}
			}
		}
		if got := strings.Count(rs.String(), " comment \""); got != rules {
			t.Errorf("%d rules, %d comments in\n%s", rules, got, rs)
		}
		want := 6 // loopback, the gate and the published port, each way
		if via.Is6() {
			want += 4 // two messages of neighbour discovery, each way
		}
		if got := strings.Count(rs.String(), " accept comment "); got != want {
			t.Errorf("%d times accept, want %d, in\n%s", got, want, rs)
		}
	})
}
