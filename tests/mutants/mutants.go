// Package mutants makes rulesets that are off by one thing, for tests that each of
// these is seen. They are made of the ruleset itself, so that a new rule or part of
// a rule is among them.
package mutants

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/netpolicy"
)

// Mutant is a ruleset that is off by one thing.
type Mutant struct {
	Kind string // rule, order, verdict, match, name, set, chain, hook, policy, priority, type, flag, foreign
	Name string // what is off

	// Script is for nft -f. It replaces whatever was there.
	Script string
	// Ruleset is the same as data; nil for what Ruleset can't say.
	Ruleset *netpolicy.Ruleset
	Rule    string // name of the rule that is off, "" for what is off beside the rules
}

// All are the mutants of a ruleset, in a fixed order.
func All(rs netpolicy.Ruleset) []Mutant {
	all := ofSets(rs)
	for c, chain := range rs.Chains {
		all = append(all, ofRules(rs, c)...)
		all = append(all, ofChain(rs, chain.Hook)...)
	}
	return append(all, beside(rs)...)
}

// replacing is a script that leaves nothing of what was there.
func replacing(text string) string { return "flush ruleset\n" + text }

// ofSets are mutants in the elements of sets: every one removed, with another
// address or port, and one more.
func ofSets(rs netpolicy.Ruleset) []Mutant {
	var all []Mutant
	for i, set := range rs.Sets {
		add := func(what string, peers []netip.AddrPort) {
			m := netpolicy.Ruleset{Sets: slices.Clone(rs.Sets), Chains: rs.Chains}
			m.Sets[i].Peers = peers
			all = append(all, Mutant{Kind: "set", Name: set.Name + ": " + what, Script: replacing(m.String()), Ruleset: &m})
		}
		more := netip.MustParseAddrPort("198.51.100.7:443")
		if set.V6 {
			more = netip.MustParseAddrPort("[2606:2800::7]:443")
		}
		add("one more", append(slices.Clone(set.Peers), more))
		for p, peer := range set.Peers {
			add(peer.String()+" removed", slices.Delete(slices.Clone(set.Peers), p, p+1))
			add(peer.String()+" elsewhere", append(slices.Delete(slices.Clone(set.Peers), p, p+1), more))
			port := slices.Clone(set.Peers)
			port[p] = netip.AddrPortFrom(peer.Addr(), peer.Port()+1)
			add(peer.String()+" at the next port", port)
		}
	}
	return all
}

// ofRules are mutants in the rules of chain c: every rule removed, doubled,
// moved, with each other verdict, with each part of its match dropped or changed.
func ofRules(rs netpolicy.Ruleset, c int) []Mutant {
	var all []Mutant
	chain := rs.Chains[c]
	add := func(kind, rule, what string, change func(*netpolicy.Chain)) {
		m := netpolicy.Ruleset{Sets: rs.Sets, Chains: slices.Clone(rs.Chains)}
		m.Chains[c].Rules = slices.Clone(chain.Rules)
		change(&m.Chains[c])
		all = append(all, Mutant{
			Kind: kind, Name: strings.TrimSpace(fmt.Sprintf("%s: %s %s", chain.Hook, rule, what)), Rule: rule,
			Script: replacing(m.String()), Ruleset: &m,
		})
	}
	add("chain", "", "emptied", func(c *netpolicy.Chain) { c.Rules = nil })
	add("rule", "", "accept first", func(c *netpolicy.Chain) {
		c.Rules = slices.Insert(c.Rules, 0, netpolicy.Rule{Name: "all", Verdict: netpolicy.Accept})
	})
	for r, rule := range chain.Rules {
		add("rule", rule.Name, "removed", func(c *netpolicy.Chain) { c.Rules = slices.Delete(c.Rules, r, r+1) })
		add("rule", rule.Name, "doubled", func(c *netpolicy.Chain) { c.Rules = slices.Insert(c.Rules, r, rule) })
		add("name", rule.Name, "renamed", func(c *netpolicy.Chain) { c.Rules[r].Name += " 2" })
		if r+1 < len(chain.Rules) {
			add("order", rule.Name, "moved down", func(c *netpolicy.Chain) { c.Rules[r], c.Rules[r+1] = c.Rules[r+1], c.Rules[r] })
		}
		for _, v := range []netpolicy.Verdict{netpolicy.Drop, netpolicy.RejectReset, netpolicy.RejectProhibited, netpolicy.Accept} {
			if v != rule.Verdict && (v != netpolicy.RejectReset || rule.Match.Proto == netpolicy.TCP) {
				add("verdict", rule.Name, "with "+v.String(), func(c *netpolicy.Chain) { c.Rules[r].Verdict = v })
			}
		}
		matches := changed(rule.Match)
		for _, what := range slices.Sorted(maps.Keys(matches)) {
			if m := matches[what]; rule.Verdict != netpolicy.RejectReset || m.Proto == netpolicy.TCP { // nft(8) has no other such rule
				add("match", rule.Name, what, func(c *netpolicy.Chain) { c.Rules[r].Match = m })
			}
		}
	}
	return all
}

// changed is a match with one of its parts dropped or changed.
func changed(m netpolicy.Match) map[string]netpolicy.Match {
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

// ofChain are mutants of what a chain is, beside its rules.
func ofChain(rs netpolicy.Ruleset, hook netpolicy.Hook) []Mutant {
	text := rs.String()
	head := func(kind, hook, priority, policy string) string {
		return fmt.Sprintf("type %s hook %s priority %s; policy %s;", kind, hook, priority, policy)
	}
	was := head("filter", string(hook), "0", "drop")
	other := map[netpolicy.Hook]string{netpolicy.Output: "forward", netpolicy.Input: "prerouting", netpolicy.Forward: "prerouting"}[hook]
	var all []Mutant
	add := func(kind, what, becomes string) {
		all = append(all, Mutant{Kind: kind, Name: fmt.Sprintf("%s: %s", hook, what), Script: replacing(strings.Replace(text, was, becomes, 1))})
	}
	add("policy", "policy accept", head("filter", string(hook), "0", "accept"))
	add("priority", "priority -1", head("filter", string(hook), "-1", "drop"))
	add("priority", "priority 1", head("filter", string(hook), "1", "drop"))
	add("hook", "another hook", head("filter", other, "0", "drop"))
	add("chain", "no base chain", "")
	if hook == netpolicy.Output {
		add("type", "type route", head("route", string(hook), "0", "drop"))
	}
	less := netpolicy.Ruleset{Sets: rs.Sets}
	for _, c := range rs.Chains {
		if c.Hook != hook {
			less.Chains = append(less.Chains, c)
		}
	}
	return append(all, Mutant{Kind: "chain", Name: fmt.Sprintf("%s: removed", hook), Script: replacing(less.String()), Ruleset: &less})
}

// beside are mutants of the table and of what lies beside it.
func beside(rs netpolicy.Ruleset) []Mutant {
	text := rs.String()
	var all []Mutant
	for _, m := range []struct{ kind, name, script string }{
		{"flag", "table dormant", text + "add table inet aisb { flags dormant; }"},
		{"rule", "nothing", ""},
		{"chain", "the table alone", "add table inet aisb"},
		{"chain", "a chain more", text + "add chain inet aisb more"},
		{"chain", "a base chain more", text + "add chain inet aisb early { type filter hook output priority -10; policy accept; }"},
		{"chain", "another table's name", strings.ReplaceAll(text, "inet aisb", "inet aisc")},
		{"chain", "for IPv4 alone", ipOnly(rs)},
		{"foreign", "a table", text + "add table ip foreign"},
		{"foreign", "a table of the same name", text + "add table ip6 aisb"},
		{"foreign", "a table of the bridge", text + "add table bridge foreign"},
		{"foreign", "a table of an interface", text + "add table netdev foreign"},
		{"foreign", "a table that redirects", text + "table ip nat {\nchain out {\ntype nat hook output priority -100\ntcp dport 443 redirect to :3128\n}\n}"},
		{"foreign", "a set", text + "add set inet aisb s { type ipv4_addr; }"},
		{"foreign", "a map", text + "add map inet aisb m { type ipv4_addr : verdict; }"},
		{"foreign", "a named counter", text + "add counter inet aisb c"},
	} {
		all = append(all, Mutant{Kind: m.kind, Name: m.name, Script: replacing(m.script)})
	}
	return all
}

// ipOnly is the ruleset in a table that IPv6 doesn't pass.
func ipOnly(rs netpolicy.Ruleset) string {
	v4 := netpolicy.Ruleset{Sets: slices.DeleteFunc(slices.Clone(rs.Sets), func(s netpolicy.Set) bool { return s.V6 })}
	for _, c := range rs.Chains {
		c.Rules = slices.DeleteFunc(slices.Clone(c.Rules), func(r netpolicy.Rule) bool {
			return r.Match.PeerIn.V6 || r.Match.Peer.Is6() || r.Match.Neighbour != 0
		})
		v4.Chains = append(v4.Chains, c)
	}
	return strings.ReplaceAll(strings.ReplaceAll(v4.String(), "inet aisb", "ip aisb"), "reject with icmpx type admin-prohibited", "reject with icmp type admin-prohibited")
}

// Count says how many there are of each kind.
func Count(kinds map[string]int) string {
	var parts []string
	total := 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, kinds[kind]))
		total += kinds[kind]
	}
	return fmt.Sprintf("%d mutations: %s", total, strings.Join(parts, ", "))
}
