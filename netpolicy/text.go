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
		family := "ip"
		if m.Peer.Is6() {
			family = "ip6"
		}
		w = append(w, family, peer, m.Peer.String())
	}
	if m.Neighbour != 0 {
		w = append(w, "ip6 hoplimit 255 icmpv6 type", fmt.Sprint(m.Neighbour))
	}
	switch {
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
