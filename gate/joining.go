package gate

import (
	"context"
	"net/http"
	"net/netip"
	"sync/atomic"

	"github.com/aisb-dev/aisb/gate/policy"
)

// joining is a CONNECT that is no tunnel yet: its name is looked up, or it is being
// connected.
type joining struct {
	x      *exchange
	cancel context.CancelFunc
	cause  atomic.Pointer[policy.Reason]
}

// join begins one. What is done for it goes by the context that is returned, which ends
// with it.
func (g *Gate) join(x *exchange) context.Context {
	ctx, cancel := context.WithCancel(context.WithValue(context.Background(), exchangeKey{}, x))
	x.joining = &joining{x: x, cancel: cancel}
	g.flows.add(x.joining)
	return ctx
}

// end is for when what has become of it is logged, or a flow of its own. It may be called
// again.
func (j *joining) end() {
	j.x.gate.flows.remove(j)
	j.cancel()
}

// goes implements flow.
func (j *joining) goes() (policy.Target, netip.Addr) { return j.x.target, netip.Addr{} }

// cut implements flow. What is under way for it fails, and whoever waits for that tells.
func (j *joining) cut(reason policy.Reason) {
	if j.cause.CompareAndSwap(nil, &reason) {
		j.cancel()
	}
}

// why is the refusal of one that came to r. What was cut fails in some way or another,
// which is no news.
func (j *joining) why(r *refusal) *refusal {
	c := j.cause.Load()
	if c == nil {
		return r
	}
	cut := *r
	cut.reason, cut.status, cut.allow = *c, http.StatusServiceUnavailable, ""
	cut.why = "the gate ends"
	if *c == policy.PolicyChanged {
		cut.why = "the rules have changed meanwhile"
	}
	return &cut
}

// become hands its place over to a tunnel, with the cut that came too early for that.
func (j *joining) become(t *tunnel) {
	j.end()
	if c := j.cause.Load(); c != nil {
		t.cut(*c)
	}
}
