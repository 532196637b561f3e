package netpolicy

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// Types of IPv6 neighbour discovery messages (RFC 4861, sections 4.3, 4.4).
const (
	neighbourSolicit   = 135
	neighbourAdvertise = 136
)

// probeName bounds what reaches the kernel as part of a rule's comment, which
// holds 255 bytes at most: a letter or digit, then up to 39 of these and
// hyphens. By hand, as a compiled pattern would cost each start a millisecond.
func probeName(name string) bool {
	if name == "" || len(name) > 40 || name[0] == '-' {
		return false
	}
	for _, c := range []byte(name) {
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return false
		}
	}
	return true
}

// Render makes the ruleset of a spec. It returns an error when the spec
// contradicts itself: a probe that would be let through proves nothing.
func Render(s Spec) (Ruleset, error) {
	if err := s.check(); err != nil {
		return Ruleset{}, err
	}
	return Ruleset{Sets: s.Direct.sets(), Chains: []Chain{
		{Hook: Output, Rules: s.output()},
		{Hook: Input, Rules: s.input()},
		{Hook: Forward, Rules: []Rule{{Name: "forward", Verdict: RejectProhibited}}},
	}}, nil
}

func (s Spec) output() []Rule {
	// Loopback must pass, or servers that the harness starts hang, and so do
	// the kernel's own answers to what is rejected below.
	rules := []Rule{{Name: "loopback out", Match: Match{Loopback: true}, Verdict: Accept}}
	for i, g := range s.Gates {
		rules = append(rules, Rule{
			Name:    fmt.Sprintf("gate %d out", i+1),
			Match:   Match{Peer: g.Addr(), Proto: TCP, PeerPort: g.Port()},
			Verdict: Accept,
		})
	}
	for _, p := range s.Probes {
		rules = append(rules, Rule{
			Name:    p.Rule(),
			Match:   Match{Peer: p.To.Addr(), Proto: p.Proto, PeerPort: p.To.Port()},
			Verdict: refusal(p.Proto),
		})
	}
	rules = append(rules, s.Direct.output()...) // after the probes: none is let through
	for _, port := range s.Publish {
		rules = append(rules, Rule{
			Name:    fmt.Sprintf("publish %d out", port),
			Match:   Match{Proto: TCP, OwnPort: port, Established: true},
			Verdict: Accept,
		})
	}
	return append(append(rules, s.neighbour("out")...), rest("out")...)
}

func (s Spec) input() []Rule {
	rules := []Rule{{Name: "loopback in", Match: Match{Loopback: true}, Verdict: Accept}}
	for i, g := range s.Gates {
		rules = append(rules, Rule{
			Name:    fmt.Sprintf("gate %d in", i+1),
			Match:   Match{Peer: g.Addr(), Proto: TCP, PeerPort: g.Port(), Established: true},
			Verdict: Accept,
		})
	}
	rules = append(rules, s.Direct.input()...)
	for _, port := range s.Publish {
		rules = append(rules, Rule{
			Name:    fmt.Sprintf("publish %d in", port),
			Match:   Match{Proto: TCP, OwnPort: port},
			Verdict: Accept,
		})
	}
	return append(append(rules, s.neighbour("in")...), rest("in")...)
}

// neighbour lets neighbour discovery pass where a gate is reached over IPv6, or
// a peer may come to be: without it its link address, or the router's, is never found.
func (s Spec) neighbour(way string) []Rule {
	if s.Direct == nil && !slices.ContainsFunc(s.Gates, func(g netip.AddrPort) bool { return g.Addr().Is6() }) {
		return nil
	}
	return []Rule{
		{Name: "neighbour solicit " + way, Match: Match{Neighbour: neighbourSolicit}, Verdict: Accept},
		{Name: "neighbour advertise " + way, Match: Match{Neighbour: neighbourAdvertise}, Verdict: Accept},
	}
}

// rest refuses everything else at once, so that clients fail in milliseconds
// instead of waiting for a time-out. The chain's policy stays drop behind it. What
// programs send is counted apart from what the kernel says by itself, as it looks
// for routers and tells of multicast groups.
func rest(way string) []Rule {
	return []Rule{
		{Name: "other tcp " + way, Match: Match{Proto: TCP}, Verdict: RejectReset},
		{Name: "other udp " + way, Match: Match{Proto: UDP}, Verdict: RejectProhibited},
		{Name: "other " + way, Verdict: RejectProhibited},
	}
}

func refusal(p Proto) Verdict {
	if p == TCP {
		return RejectReset
	}
	return RejectProhibited
}

// target is what a packet may be sent to.
type target struct {
	proto Proto
	to    netip.AddrPort
}

func (s Spec) check() error {
	gates := map[netip.AddrPort]bool{}
	for _, g := range s.Gates {
		if err := checkPeer(g); err != nil {
			return fmt.Errorf("gate %q: %w", g, err)
		}
		if gates[g] {
			return fmt.Errorf("gate %q is listed twice", g)
		}
		gates[g] = true
	}
	published := map[uint16]bool{}
	for _, port := range s.Publish {
		if port == 0 || published[port] {
			return fmt.Errorf("published port %d is zero or listed twice", port)
		}
		published[port] = true
	}
	open, err := s.Direct.check()
	if err != nil {
		return err
	}
	names, targets := map[string]bool{}, map[target]bool{}
	for _, p := range s.Probes {
		t := target{p.Proto, p.To}
		switch err := checkPeer(p.To); {
		case err != nil:
			return fmt.Errorf("probe %q: %w", p.Name, err)
		case !probeName(p.Name) || names[p.Name]:
			return fmt.Errorf("probe name %q is malformed or used twice", p.Name)
		case p.Proto != TCP && p.Proto != UDP:
			return fmt.Errorf("probe %q: unknown protocol %q", p.Name, p.Proto)
		case p.Proto == TCP && gates[p.To]:
			return fmt.Errorf("probe %q goes to a gate, which is open", p.Name)
		case open[t]:
			return fmt.Errorf("probe %q goes to %s, which is open", p.Name, p.To)
		case targets[t]:
			// The later rule would never count.
			return fmt.Errorf("probe %q has the target of another", p.Name)
		}
		names[p.Name], targets[t] = true, true
	}
	return nil
}

// checkPeer refuses addresses that no rule could match in the way meant.
func checkPeer(a netip.AddrPort) error {
	switch ip := a.Addr(); {
	case !a.IsValid() || a.Port() == 0:
		return errors.New("address or port is missing")
	case ip.Zone() != "" || ip.Is4In6():
		return errors.New("address has a zone or an IPv4-mapped form")
	case ip.IsUnspecified() || ip.IsLoopback() || ip.IsMulticast():
		return errors.New("address is unspecified, loopback or multicast, which no packet to a peer carries")
	}
	return nil
}
