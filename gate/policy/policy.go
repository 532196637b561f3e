// Package policy decides where the gate may connect. It is pure: it reads
// rules and targets, and knows neither files, names' addresses nor the network.
//
// A decision takes two steps. Decide judges a target by the rules alone, before
// any DNS query. CheckAddr judges each address that the target led to, before
// any connection. The zero Policy allows nothing.
package policy

import "net/netip"

// Policy is a set of rules, ready to decide. It is never changed, so it is safe
// for concurrent use.
type Policy struct {
	allowed index
	denied  index
}

// Decision is what the rules say of a target. The zero Decision refuses.
type Decision struct {
	Allow  bool
	Reason Reason
	Rule   *Rule // the most specific rule that decided, nil if none did

	Private bool  // may lead to a private address
	TCP     bool  // the tunnel need not be TLS
	Upload  int64 // bytes that may go up, 0 is no limit
}

// RuleText is the rule that decided, as it was written, or "".
func (d Decision) RuleText() string {
	if d.Rule == nil {
		return ""
	}
	return d.Rule.Text
}

// Len is the number of allow rules.
func (p *Policy) Len() int { return len(p.allowed.rules) }

// Rules returns the rules in the order they were given.
func (p *Policy) Rules() (allow, deny []*Rule) { return p.allowed.rules, p.denied.rules }

// Decide judges a target by the rules. It does not allocate.
func (p *Policy) Decide(t Target) Decision {
	if t.Port == 0 || !t.IsAddr() && t.Host == "" {
		return Decision{Reason: BadRequest}
	}
	if d := p.denied.collect(t); d.Allow {
		return Decision{Reason: DeniedRule, Rule: d.Rule}
	}
	if t.IsAddr() {
		return p.decideAddr(t)
	}
	if isLocalhost(t.Host) {
		return Decision{Reason: ReservedName}
	}
	if t.Host == ServiceHost {
		return p.decideService(t)
	}
	d := p.allowed.collect(t)
	if d.Allow && !d.Private && isLocalName(t.Host, false) {
		return Decision{Reason: ReservedName, Rule: d.Rule}
	}
	if !d.Allow && d.Reason == NotListed && isLocalName(t.Host, false) {
		d.Reason = ReservedName
	}
	return d
}

func (p *Policy) decideAddr(t Target) Decision {
	i := p.allowed.matchAddr(t.Addr, t.Port)
	if i < 0 {
		return Decision{Reason: IPLiteral}
	}
	// The choice of an address is the rule's author's, not the DNS's: what is
	// spoken there need not name the host (an address is no SNI, RFC 6066,
	// section 3).
	var d Decision
	p.allowed.merge(&d, i, t.Port)
	d.TCP = true
	return d
}

// serviceAddr is where the host's own services are.
var serviceAddr = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// decideService looks for a rule that names the reserved host and the port.
// No wildcard reaches it: whoever allows all names doesn't mean the host.
func (p *Policy) decideService(t Target) Decision {
	if i := p.denied.matchAddr(serviceAddr, t.Port); i >= 0 {
		return Decision{Reason: DeniedRule, Rule: p.denied.rules[i]}
	}
	d := Decision{Reason: ReservedName}
	if head, found := p.allowed.exact[t.Host]; found {
		p.allowed.merge(&d, head, t.Port)
	}
	if d.Allow {
		d.Reason, d.Private = HostService, false // it leads to one address only
	}
	return d
}
