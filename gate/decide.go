package gate

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// decision is a target that was allowed, with the addresses that were judged.
// Nothing is ever dialled but these.
type decision struct {
	policy.Decision
	under  *policy.Policy // that decided
	target policy.Target
	addrs  []netip.AddrPort
	byName bool    // the upstream proxy resolves, so there are no addresses
	budget *budget // of the rule, nil is none
}

// key names what was decided. Two decisions with one key lead to the same
// addresses, so a kept connection of one may serve the other.
func (d *decision) key() string {
	h := sha256.New()
	fmt.Fprint(h, d.target, d.Private, d.Reason, d.addrs, d.byName)
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// errUndecided is what the dialler says to a call without a decision.
var errUndecided = errors.New("dial without a decision")

// decide judges a target: by the rules, then by the addresses that it leads to.
// Either the decision or the refusal is nil.
func (g *Gate) decide(ctx context.Context, method string, t policy.Target) (*decision, *refusal) {
	p := g.policy.Load()
	d := p.Decide(t)
	if !d.Allow {
		r := refuse(method, t, d)
		if t.IsAddr() && r.allow != "" {
			g.redirectOwn(r, t)
		}
		return nil, r
	}
	if !g.log.Ready() { // or a name is looked up that no line tells of
		r := exhausted(method, t, d)
		r.why = "the gate's log can't be written"
		return nil, r
	}
	dec := &decision{Decision: d, under: p, target: t, budget: g.budgets.of(d)}
	if g.upstream.resolves(t, d) {
		dec.byName = true
		if r := g.capNames(method, t, d, false); r != nil {
			return nil, r
		}
		return dec, nil
	}
	addrs, ref := g.addresses(ctx, method, t, d)
	if ref != nil {
		return nil, ref
	}
	if d.Reason == policy.HostService {
		dec.addrs = []netip.AddrPort{netip.AddrPortFrom(addrs[0], t.Port)}
		return dec, nil
	}
	reason, private := g.judge(p, d, addrs, t.Port)
	if reason == policy.Limit {
		return nil, exhausted(method, t, d)
	}
	if reason != d.Reason {
		return nil, refuseAddrs(method, t, d, reason, private)
	}
	for _, a := range addrs {
		dec.addrs = append(dec.addrs, netip.AddrPortFrom(a.Unmap(), t.Port))
	}
	return dec, nil
}

// redirectOwn changes the hint for an address of the host's own: a rule for it
// would be refused in its turn.
func (g *Gate) redirectOwn(r *refusal, t policy.Target) {
	if own, err := g.own.has(t.Addr); own && err == nil {
		r.why, r.allow = meansHost, policy.Suggest(policy.Target{Host: policy.ServiceHost, Port: t.Port}, false, false)
	}
}

// addresses returns where an allowed target leads.
func (g *Gate) addresses(ctx context.Context, method string, t policy.Target, d policy.Decision) ([]netip.Addr, *refusal) {
	switch {
	case d.Reason == policy.HostService:
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}, nil
	case t.IsAddr():
		return []netip.Addr{t.Addr}, nil
	}
	known := g.resolver.Cached(t.Host)
	if r := g.capNames(method, t, d, known); r != nil {
		return nil, r
	}
	addrs, reason := g.lookup(ctx, t.Host, known)
	if reason != "" {
		return nil, failure(method, t, d, reason, http.StatusBadGateway)
	}
	return addrs, nil
}

// capNames refuses a name below a wildcard when there have been too many that
// were new. known ones tell nobody anything.
func (g *Gate) capNames(method string, t policy.Target, d policy.Decision, known bool) *refusal {
	if !d.Rule.Wildcard && !d.Rule.All || known || g.names.take(d.Rule.Text, t.Host) {
		return nil
	}
	r := refuse(method, t, d)
	r.reason, r.status = policy.Limit, http.StatusForbidden
	r.why = "too many new names below one wildcard in a minute"
	return r
}

// lookup returns a name's addresses, or why there are none. known says that it
// was in the cache, for the metrics.
func (g *Gate) lookup(ctx context.Context, name string, known bool) ([]netip.Addr, policy.Reason) {
	begin := time.Now()
	addrs, err := g.resolver.Lookup(ctx, name)
	var reason policy.Reason
	switch {
	case errors.Is(err, resolve.ErrNoName):
		reason = policy.NXDomain
	case err != nil:
		reason = policy.DNSFailure
	}
	if known {
		g.metrics.Known()
	} else {
		g.metrics.LookedUp(time.Since(begin), reason)
	}
	return addrs, reason
}

// judge returns the decision's own reason if each address may be dialled, and
// otherwise why not. private says that +private would have opened them all.
func (g *Gate) judge(p *policy.Policy, d policy.Decision, addrs []netip.Addr, port uint16) (reason policy.Reason, private bool) {
	worst := d.Reason
	good := 0
	private = true
	for _, a := range addrs {
		reason := p.CheckAddr(d, a, port)
		own, err := g.own.has(policy.Inner(a))
		if err != nil {
			return policy.Limit, false
		}
		if reason == d.Reason && own {
			reason = policy.OwnAddress
		}
		if reason == d.Reason {
			good++
			continue
		}
		if policy.Classify(a) != policy.Private || own {
			private = false
		}
		if worst != policy.OwnAddress {
			worst = reason
		}
	}
	if worst != d.Reason && good > 0 {
		worst = policy.MixedAnswer
	}
	return worst, private
}
