package nft

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/netpolicy"
)

// mutations are rulesets that differ from rs in one thing, by what that is:
// every rule removed, doubled, moved, with each other verdict, with each part of
// its match dropped, and every chain without its rules.
func mutations(rs netpolicy.Ruleset) map[string]netpolicy.Ruleset {
	all := map[string]netpolicy.Ruleset{}
	for i, set := range rs.Sets {
		mutant := func(name string, peers []netip.AddrPort) {
			m := netpolicy.Ruleset{Sets: slices.Clone(rs.Sets), Chains: rs.Chains}
			m.Sets[i].Peers = peers
			all[set.Name+": "+name] = m
		}
		more := netip.MustParseAddrPort("198.51.100.7:443")
		if set.V6 {
			more = netip.MustParseAddrPort("[2606:2800::7]:443")
		}
		mutant("one more", append(slices.Clone(set.Peers), more))
		for p, peer := range set.Peers {
			mutant(peer.String()+" removed", slices.Delete(slices.Clone(set.Peers), p, p+1))
			mutant(peer.String()+" elsewhere", append(slices.Delete(slices.Clone(set.Peers), p, p+1), more))
			port := slices.Clone(set.Peers)
			port[p] = netip.AddrPortFrom(peer.Addr(), peer.Port()+1)
			mutant(peer.String()+" at the next port", port)
		}
	}
	for c, chain := range rs.Chains {
		mutant := func(name string, change func(*netpolicy.Chain)) {
			m := netpolicy.Ruleset{Sets: rs.Sets, Chains: slices.Clone(rs.Chains)}
			m.Chains[c].Rules = slices.Clone(chain.Rules)
			change(&m.Chains[c])
			all[fmt.Sprintf("%s: %s", chain.Hook, name)] = m
		}
		mutant("emptied", func(c *netpolicy.Chain) { c.Rules = nil })
		mutant("accept first", func(c *netpolicy.Chain) {
			c.Rules = slices.Insert(c.Rules, 0, netpolicy.Rule{Name: "all", Verdict: netpolicy.Accept})
		})
		for r, rule := range chain.Rules {
			named := func(what string, change func(*netpolicy.Chain)) { mutant(rule.Name+" "+what, change) }
			named("removed", func(c *netpolicy.Chain) { c.Rules = slices.Delete(c.Rules, r, r+1) })
			named("doubled", func(c *netpolicy.Chain) { c.Rules = slices.Insert(c.Rules, r, rule) })
			named("renamed", func(c *netpolicy.Chain) { c.Rules[r].Name += " 2" })
			if r+1 < len(chain.Rules) {
				named("moved down", func(c *netpolicy.Chain) { c.Rules[r], c.Rules[r+1] = c.Rules[r+1], c.Rules[r] })
			}
			for _, v := range []netpolicy.Verdict{netpolicy.Drop, netpolicy.RejectReset, netpolicy.RejectProhibited, netpolicy.Accept} {
				if v != rule.Verdict && (v != netpolicy.RejectReset || rule.Match.Proto == netpolicy.TCP) {
					named("with "+v.String(), func(c *netpolicy.Chain) { c.Rules[r].Verdict = v })
				}
			}
			for what, m := range narrower(rule.Match) {
				if rule.Verdict == netpolicy.RejectReset && m.Proto != netpolicy.TCP {
					continue // nft(8) has no such rule
				}
				named(what, func(c *netpolicy.Chain) { c.Rules[r].Match = m })
			}
		}
	}
	return all
}

// narrower is a match with one of its parts dropped or changed.
func narrower(m netpolicy.Match) map[string]netpolicy.Match {
	all := map[string]netpolicy.Match{}
	add := func(what string, had bool, change func(*netpolicy.Match)) {
		if had {
			n := m
			change(&n)
			all[what] = n
		}
	}
	add("on any interface", m.Loopback, func(n *netpolicy.Match) { n.Loopback = false })
	other := netpolicy.SetRef{Name: "open6", V6: true}
	if m.PeerIn.V6 {
		other = netpolicy.SetRef{Name: "open4"}
	}
	add("for any peer", m.PeerIn.Name != "", func(n *netpolicy.Match) { n.PeerIn = netpolicy.SetRef{} })
	add("for the other set", m.PeerIn.Name != "", func(n *netpolicy.Match) { n.PeerIn = other })
	add("for any peer", m.Peer.IsValid(), func(n *netpolicy.Match) { n.Peer = netpolicy.Match{}.Peer })
	add("for the next peer", m.Peer.IsValid(), func(n *netpolicy.Match) { n.Peer = n.Peer.Next() })
	add("for any port", m.PeerPort != 0, func(n *netpolicy.Match) { n.PeerPort = 0 })
	add("for the port below", m.PeerPort > 1, func(n *netpolicy.Match) { n.PeerPort-- })
	add("for any own port", m.OwnPort != 0, func(n *netpolicy.Match) { n.OwnPort = 0 })
	add("for any protocol", m.PeerIn.Name == "" && m.Proto != "" && m.PeerPort == 0 && m.OwnPort == 0, func(n *netpolicy.Match) { n.Proto = "" })
	add("for new connections too", m.Established, func(n *netpolicy.Match) { n.Established = false })
	add("for any message", m.Neighbour != 0, func(n *netpolicy.Match) { n.Neighbour = 0 })
	add("for another message", m.Neighbour != 0, func(n *netpolicy.Match) { n.Neighbour++ })
	return all
}

// Whatever single thing is off in what the kernel holds, Verify refuses it. The
// list comes from the ruleset itself, so that a new rule is in it.
func TestEveryMutationIsSeen(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		seen := 0
		for _, name := range slices.Sorted(maps.Keys(specs())) {
			rs := render(t, specs()[name])
			want := rs.String()
			for what, mutant := range mutations(rs) {
				// Apply replaces the table, whatever it held.
				if err := Apply(mutant); err != nil {
					t.Fatalf("%s: %s: %v", name, what, err)
				}
				if err := Verify(rs); !errors.Is(err, ErrMismatch) {
					t.Errorf("%s: %s: got %v, want a mismatch", name, what, err)
				}
				seen++
			}
			for _, c := range rs.Chains {
				head := fmt.Sprintf("type filter hook %s priority 0; policy drop;", c.Hook)
				for what, other := range map[string]string{
					"policy": strings.Replace(head, "drop", "accept", 1), "priority": strings.Replace(head, " 0;", " -1;", 1),
				} {
					nft(t, "flush ruleset\n"+strings.Replace(want, head, other, 1), "-f", "-")
					if err := Verify(rs); !errors.Is(err, ErrMismatch) {
						t.Errorf("%s: %s of chain %s: got %v, want a mismatch", name, what, c.Hook, err)
					}
					seen++
				}
			}
			nft(t, "flush ruleset\n"+want, "-f", "-")
			if err := Verify(rs); err != nil {
				t.Errorf("%s: the ruleset itself: %v", name, err)
			}
		}
		t.Logf("%d mutations", seen)
		if seen < 300 {
			t.Errorf("only %d mutations were tried", seen)
		}
	})
}
