package sandbox

import (
	"fmt"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
)

// tally reads the counters after the end; for as long as the socket is open the kernel
// keeps the namespace. direct is how many packets of TCP and UDP tried to get past the
// gate and were refused since the command began; up and down are the bytes of packets to
// and from peers without a gate.
func (w *watchdog) tally() (direct, up, down uint64, err error) {
	if w.filter == nil || w.counted == nil {
		return 0, 0, 0, nil
	}
	now, err := w.filter.Counters(w.rules)
	if err != nil {
		return 0, 0, 0, fmt.Errorf("read the fence's counters: %w", err)
	}
	grown := func(r netpolicy.Rule) nft.Count {
		before, after := w.counted[r.Name], now[r.Name]
		return nft.Count{Packets: after.Packets - before.Packets, Bytes: after.Bytes - before.Bytes}
	}
	for _, r := range attempts(w.rules) {
		direct += grown(r).Packets
	}
	for _, chain := range w.rules.Chains {
		for _, r := range chain.Rules {
			switch {
			case r.Match.PeerIn.Name == "":
			case chain.Hook == netpolicy.Output:
				up += grown(r).Bytes
			default:
				down += grown(r).Bytes
			}
		}
	}
	return direct, up, down, nil
}

// attempts are the rules that refuse what programs send. The rule of the rest
// counts what the kernel says by itself too.
func attempts(rs netpolicy.Ruleset) []netpolicy.Rule {
	var rules []netpolicy.Rule
	for _, chain := range rs.Chains {
		for _, r := range chain.Rules {
			if chain.Hook == netpolicy.Output && r.Verdict != netpolicy.Accept && r.Match.Proto != "" {
				rules = append(rules, r)
			}
		}
	}
	return rules
}
