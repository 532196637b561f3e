package netpolicy

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Direct lets TCP reach peers without a gate (--no-gate). They are
// elements of two sets, one for each address family, so that they can change while
// a sandbox runs and each rule, with what it has counted, stays in its place.
type Direct struct {
	Peers []netip.AddrPort // in any order

	// Resolver may be asked over UDP and TCP (--no-gate=dns). The zero value opens
	// none.
	Resolver netip.AddrPort
}

// MaxPeers bounds the elements: all of them are read back after each change.
const MaxPeers = 1024

// SetRef names a set of addresses with ports.
type SetRef struct {
	Name string
	V6   bool // of IPv6 addresses
}

// Set is a named set with its elements.
type Set struct {
	SetRef
	Peers []netip.AddrPort // sorted, each once
}

// The sets of a Direct.
var (
	open4 = SetRef{Name: "open4"}
	open6 = SetRef{Name: "open6", V6: true}
)

// WithPeers is the spec with other peers in its sets. It changes no rule. Without
// Direct it is the spec as it is.
func (s Spec) WithPeers(peers []netip.AddrPort) Spec {
	if s.Direct != nil {
		s.Direct = &Direct{Peers: slices.Clone(peers), Resolver: s.Direct.Resolver}
	}
	return s
}

func (d *Direct) sets() []Set {
	if d == nil {
		return nil
	}
	sets := []Set{{SetRef: open4}, {SetRef: open6}}
	for _, p := range d.Peers {
		i := 0
		if p.Addr().Is6() {
			i = 1
		}
		sets[i].Peers = append(sets[i].Peers, p)
	}
	for _, s := range sets {
		slices.SortFunc(s.Peers, netip.AddrPort.Compare)
	}
	return sets
}

func (d *Direct) output() []Rule {
	if d == nil {
		return nil
	}
	return append(d.resolver("out", false),
		Rule{Name: "open out", Match: Match{PeerIn: open4, Proto: TCP}, Verdict: Accept},
		Rule{Name: "open out ipv6", Match: Match{PeerIn: open6, Proto: TCP}, Verdict: Accept})
}

func (d *Direct) input() []Rule {
	if d == nil {
		return nil
	}
	return append(d.resolver("in", true),
		Rule{Name: "open in", Match: Match{PeerIn: open4, Proto: TCP, Established: true}, Verdict: Accept},
		Rule{Name: "open in ipv6", Match: Match{PeerIn: open6, Proto: TCP, Established: true}, Verdict: Accept})
}

func (d *Direct) resolver(way string, answers bool) []Rule {
	if !d.Resolver.IsValid() {
		return nil
	}
	var rules []Rule
	for _, proto := range []Proto{UDP, TCP} {
		rules = append(rules, Rule{
			Name:    fmt.Sprintf("resolver %s %s", proto, way),
			Match:   Match{Peer: d.Resolver.Addr(), Proto: proto, PeerPort: d.Resolver.Port(), Established: answers},
			Verdict: Accept,
		})
	}
	return rules
}

// check returns the targets that are open, so that no probe is sent to one.
func (d *Direct) check() (open map[target]bool, err error) {
	open = map[target]bool{}
	if d == nil {
		return open, nil
	}
	if len(d.Peers) > MaxPeers {
		return nil, fmt.Errorf("%d peers, at most %d", len(d.Peers), MaxPeers)
	}
	for _, p := range d.Peers {
		t := target{TCP, p}
		if err := cmp.Or(checkPeer(p), once(open[t])); err != nil {
			return nil, fmt.Errorf("peer %q: %w", p, err)
		}
		open[t] = true
	}
	if r := d.Resolver; r.IsValid() {
		if err := checkPeer(r); err != nil {
			return nil, fmt.Errorf("resolver %q: %w", r, err)
		}
		open[target{TCP, r}], open[target{UDP, r}] = true, true
	}
	return open, nil
}

func once(seen bool) error {
	if seen {
		return errors.New("it is listed twice")
	}
	return nil
}
