package history

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Replay is a log under other rules. It is made by New, fed by Add, and asked
// by Against or Suggest.
type Replay struct {
	seen map[policy.Target]*seen
	open map[uint64]*seen // tunnels that showed no server name, until they end
}

// seen is what a log says of one target.
type seen struct {
	target   policy.Target
	allowed  int                   // times that it was let through by the rules
	denied   map[policy.Reason]int // times that it was refused
	addrs    map[netip.Addr]bool   // that it led to
	plainTCP int                   // tunnels in which no TLS was spoken
}

// New makes a replay of nothing.
func New() *Replay {
	return &Replay{seen: make(map[policy.Target]*seen), open: make(map[uint64]*seen)}
}

// Add takes a line into account.
func (r *Replay) Add(l Line) {
	t, ok := l.Target()
	if !ok {
		if l.Event == "listening" {
			clear(r.open) // another process, whose numbers begin anew
		}
		return
	}
	s := r.seen[t]
	if s == nil {
		s = &seen{target: t, denied: make(map[policy.Reason]int), addrs: make(map[netip.Addr]bool)}
		r.seen[t] = s
	}
	switch l.Event {
	case "allow":
		s.allowed++
		if a, err := netip.ParseAddrPort(l.Addr); err == nil {
			s.addrs[a.Addr().Unmap()] = true
		}
		// On port 80 plain HTTP passes without +tcp.
		if l.Method == "CONNECT" && l.SNI == "" && !t.IsAddr() && t.Port != 80 {
			s.plainTCP++
			r.open[l.ID] = s
		}
	case "close":
		// A client that said nothing needed no +tcp either.
		if l.Up == 0 && r.open[l.ID] == s {
			s.plainTCP--
		}
		delete(r.open, l.ID)
	case "error":
		// Allowed by the rules and not there at the time. A name that does not
		// exist is nothing that the run was made of.
		if l.Reason == policy.DialFailure || l.Reason == policy.DNSFailure {
			s.allowed++
		}
	case "deny":
		s.denied[l.Reason]++
	}
}

// Change is a target that would fare differently.
type Change struct {
	Host   string        `json:"host"`
	Port   uint16        `json:"port"`
	Is     string        `json:"is"`     // allow or deny
	Reason policy.Reason `json:"reason"` // under the other rules
	Rule   string        `json:"rule,omitempty"`
	Origin string        `json:"origin,omitempty"`
	Count  int           `json:"count"` // times in the log
}

// Rule is an allow rule that let nothing of the log through, or only what a
// more specific one does as well.
type Rule struct {
	Rule   string `json:"rule"`
	Origin string `json:"origin"`
}

// Result is what becomes of a log.
type Result struct {
	Targets int      `json:"targets"`
	Denied  []Change `json:"denied"`  // was allowed, would be refused
	Allowed []Change `json:"allowed"` // was refused, would be allowed
	Unused  []Rule   `json:"unused"`
}

// Against judges the log by a policy. No name is resolved: addresses are those
// of the log.
func (r *Replay) Against(p *policy.Policy) Result {
	out := Result{Targets: len(r.seen), Denied: []Change{}, Allowed: []Change{}, Unused: []Rule{}}
	used := make(map[*policy.Rule]bool)
	for _, s := range r.sorted() {
		d := p.Decide(s.target)
		is := s.judge(p, d)
		if d.Allow {
			used[d.Rule] = true
		}
		change := Change{Host: s.target.Name(), Port: s.target.Port, Reason: is, Rule: d.RuleText()}
		if d.Rule != nil {
			change.Origin = d.Rule.Origin
		}
		if s.allowed > 0 && is != d.Reason || s.allowed > 0 && !d.Allow {
			change.Is, change.Count = "deny", s.allowed
			out.Denied = append(out.Denied, change)
			continue
		}
		if n := s.opened(d); n > 0 {
			change.Is, change.Count = "allow", n
			out.Allowed = append(out.Allowed, change)
		}
	}
	allow, _ := p.Rules()
	for _, rule := range allow {
		if !used[rule] {
			out.Unused = append(out.Unused, Rule{Rule: rule.Text, Origin: rule.Origin})
		}
	}
	return out
}

// judge returns the reason of what was let through: d's own when it would be
// again.
func (s *seen) judge(p *policy.Policy, d policy.Decision) policy.Reason {
	if !d.Allow || d.Reason == policy.HostService {
		if d.Allow && s.plainTCP > 0 && !d.TCP {
			return policy.NotTLS
		}
		return d.Reason
	}
	for a := range s.addrs {
		if reason := p.CheckAddr(d, a, s.target.Port); reason != d.Reason {
			return reason
		}
	}
	if s.plainTCP > 0 && !d.TCP {
		return policy.NotTLS
	}
	return d.Reason
}

// opened counts the refusals that would be none by the rules.
func (s *seen) opened(d policy.Decision) (n int) {
	if !d.Allow {
		return 0
	}
	for reason, count := range s.denied {
		switch reason {
		case policy.NotListed, policy.PortNotListed, policy.IPLiteral, policy.ReservedName, policy.DeniedRule:
			n += count
		case policy.SpecialAddress:
			if d.Private {
				n += count
			}
		case policy.NoSNI, policy.NotTLS, policy.SNIMismatch:
			if d.TCP {
				n += count
			}
		}
	}
	return n
}

// Suggest returns the shortest list of rules that lets through what was let
// through, sorted. It widens nothing: there is no wildcard in it.
func (r *Replay) Suggest() []string {
	type key struct {
		host string
		port uint16 // 0 stands for those of the web, which one rule covers
	}
	need := make(map[key]policy.Target)
	private, tcp := make(map[key]bool), make(map[key]bool)
	for _, s := range r.sorted() {
		if s.allowed == 0 {
			continue
		}
		k := key{s.target.Name(), s.target.Port}
		if (k.port == 80 || k.port == 443) && s.target.Host != policy.ServiceHost {
			k.port = 0
		}
		need[k] = s.target
		tcp[k] = tcp[k] || s.plainTCP > 0
		for a := range s.addrs {
			private[k] = private[k] || policy.Classify(a) == policy.Private
		}
	}
	rules := []string{}
	for k, t := range need {
		if rule := policy.Suggest(t, private[k], tcp[k]); rule != "" {
			rules = append(rules, rule)
		}
	}
	slices.Sort(rules)
	return rules
}

func (r *Replay) sorted() []*seen {
	var list []*seen
	for _, s := range r.seen {
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b *seen) int {
		return cmp.Or(cmp.Compare(a.target.Name(), b.target.Name()), cmp.Compare(a.target.Port, b.target.Port))
	})
	return list
}
