package netpolicy

import (
	"fmt"
	"strings"
)

// String is the ruleset as nft(8) text. nft -f accepts it, and it replaces the
// table if there is one.
func (rs Ruleset) String() string {
	var b strings.Builder
	// Adding before deleting makes the deletion succeed in any case.
	fmt.Fprintf(&b, "add table inet %s\ndelete table inet %s\ntable inet %s {\n", Table, Table, Table)
	for _, s := range rs.Sets {
		fmt.Fprintf(&b, "\tset %s {\n\t\t%s\n\t}\n\n", s.Name, strings.Join(s.lines(), "\n\t\t"))
	}
	for i, c := range rs.Chains {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "\tchain %s {\n\t\ttype filter hook %s priority 0; policy drop;\n", c.Hook, c.Hook)
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", r.text(c.Hook))
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// lines are what stands in the set's braces. An empty list of elements would be a
// syntax error.
func (s Set) lines() []string {
	kind := "ipv4_addr"
	if s.V6 {
		kind = "ipv6_addr"
	}
	lines := []string{"type " + kind + " . inet_service"}
	if len(s.Peers) == 0 {
		return lines
	}
	elements := make([]string, len(s.Peers))
	for i, p := range s.Peers {
		elements[i] = fmt.Sprintf("%s . %d", p.Addr(), p.Port())
	}
	return append(lines, "elements = { "+strings.Join(elements, ", ")+" }")
}

func (r Rule) text(h Hook) string {
	words := append(r.Match.words(h), "counter", r.Verdict.String(), fmt.Sprintf("comment \"%s\"", r.Name))
	return strings.Join(words, " ")
}

func (m Match) words(h Hook) []string {
	iface, peer, peerPort, ownPort := "oif", "daddr", "dport", "sport"
	if h == Input {
		iface, peer, peerPort, ownPort = "iif", "saddr", "sport", "dport"
	}
	var w []string
	if m.Loopback {
		w = append(w, iface, `"lo"`)
	}
	if m.Peer.IsValid() {
		w = append(w, family(m.Peer.Is6()), peer, m.Peer.String())
	}
	if m.Neighbour != 0 {
		w = append(w, "ip6 hoplimit 255 icmpv6 type", fmt.Sprint(m.Neighbour))
	}
	switch {
	case m.PeerIn.Name != "":
		w = append(w, family(m.PeerIn.V6), peer, ".", string(m.Proto), peerPort, "@"+m.PeerIn.Name)
	case m.PeerPort != 0:
		w = append(w, string(m.Proto), peerPort, fmt.Sprint(m.PeerPort))
	case m.OwnPort != 0:
		w = append(w, string(m.Proto), ownPort, fmt.Sprint(m.OwnPort))
	case m.Proto != "":
		w = append(w, "meta l4proto", string(m.Proto))
	}
	if m.Established {
		w = append(w, "ct state established")
	}
	return w
}

func family(v6 bool) string {
	if v6 {
		return "ip6"
	}
	return "ip"
}

// String is the verdict in nft(8)'s words.
func (v Verdict) String() string {
	switch v {
	case Accept:
		return "accept"
	case RejectReset:
		return "reject with tcp reset"
	case RejectProhibited:
		return "reject with icmpx type admin-prohibited"
	default:
		return "drop"
	}
}
