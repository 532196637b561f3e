// Package direct finds the addresses that a sandbox without a gate may reach: those
// that its allowlist's names have at the moment, judged as the gate would judge them.
//
// Targets makes a list of what to look up out of the rules, a Finder looks it up and
// judges, a Book remembers what was found and for how long it counts, and a HostsFile
// tells the names to the sandbox.
package direct

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Targets are the hosts and ports that the rules name one by one. The error joins one
// *policy.RuleError for each rule that only a gate can keep.
func Targets(p *policy.Policy) ([]policy.Target, error) {
	allow, _ := p.Rules()
	var targets []policy.Target
	var errs []error
	seen := map[policy.Target]bool{}
	for _, r := range allow {
		if e := unfit(r); e != nil {
			errs = append(errs, e)
			continue
		}
		ports := []uint16{r.Port}
		if r.Port == 0 {
			ports = []uint16{80, 443} // as a rule without a port means
		}
		for _, port := range ports {
			t := policy.Target{Host: r.Name, Port: port}
			if r.Name == "" {
				t.Addr = r.Prefix.Addr()
			}
			if !seen[t] {
				seen[t] = true
				targets = append(targets, t)
			}
		}
	}
	return targets, errors.Join(errs...)
}

// unfit is why a rule can't be kept by addresses and ports alone, or nil.
func unfit(r *policy.Rule) error {
	e := &policy.RuleError{Rule: r.Text, Origin: r.Origin}
	switch {
	case r.All || r.Wildcard:
		e.Problem = "is a wildcard, which has no addresses to open without a gate"
		e.Suggestion = "name each host, or leave --no-gate out"
	case r.Name == "" && !r.Prefix.IsSingleIP():
		e.Problem = "is a range: without a gate each address is judged and opened by itself"
		e.Suggestion = "name each address, or leave --no-gate out"
	case r.AnyPort:
		e.Problem = "opens every port, which --no-gate doesn't"
		e.Suggestion = "name each port, as in HOST:443, or leave --no-gate out"
	case r.Upload > 0:
		e.Problem = "has a budget, which only a gate can count"
		e.Suggestion = "leave out +upload, or --no-gate"
	default:
		return nil
	}
	return e
}

// Answer is what one target has led to.
type Answer struct {
	Target policy.Target
	Rule   string
	Addrs  []netip.Addr  // each judged; empty unless Allowed
	Reason policy.Reason // why they are open, or why there are none
	Why    string        // the latter in words
}

// Allowed reports whether the addresses may be reached.
func (a Answer) Allowed() bool { return len(a.Addrs) > 0 }

// unknown reports that nothing was learned: what was known before still counts.
func (a Answer) unknown() bool {
	return !a.Allowed() && (a.Reason == policy.DNSFailure || a.Reason == policy.Limit)
}

// Problem says why a target has no address that may be reached.
func (a Answer) Problem() string {
	if a.Why == "" {
		return fmt.Sprintf("%s is not open: %s", a.Target, a.Reason)
	}
	return fmt.Sprintf("%s is not open: %s (%s)", a.Target, a.Why, a.Reason)
}
