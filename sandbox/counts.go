package sandbox

import (
	"fmt"

	"github.com/aisb-dev/aisb/netpolicy"
)

// direct is how many packets of TCP and UDP tried to get past the gate and were
// refused, since the command began. It reads the counters after the end, for as long as the
// socket is open the kernel keeps the namespace.
func (w *watchdog) direct() (uint64, error) {
	if w.filter == nil || w.counted == nil {
		return 0, nil
	}
	now, err := w.filter.Counters(w.rules)
	if err != nil {
		return 0, fmt.Errorf("read the fence's counters: %w", err)
	}
	var packets uint64
	for _, r := range attempts(w.rules) {
		packets += now[r.Name].Packets - w.counted[r.Name].Packets
	}
	return packets, nil
}

// moved is how many bytes of packets went to and came from peers without a gate.
func (w *watchdog) moved() (up, down uint64) {
	if w.filter == nil || w.counted == nil {
		return 0, 0
	}
	now, err := w.filter.Counters(w.rules)
	if err != nil {
		return 0, 0 // direct has said so
	}
	for _, chain := range w.rules.Chains {
		for _, r := range chain.Rules {
			if r.Match.PeerIn.Name == "" {
				continue
			}
			n := now[r.Name].Bytes - w.counted[r.Name].Bytes
			if chain.Hook == netpolicy.Output {
				up += n
			} else {
				down += n
			}
		}
	}
	return up, down
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
