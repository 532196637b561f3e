package direct

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"sync"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// Config is what a Finder is made of.
type Config struct {
	Policy   *policy.Policy
	Resolver *resolve.Resolver
	// Service is where the sandbox reaches the services of the host's loopback that a
	// rule names by policy.ServiceHost.
	Service netip.Addr
	// Mapped lead from the sandbox to this host, and from here to nobody: the gate's
	// own judgement can't know them.
	Mapped []netip.Addr
}

// Finder looks targets up and judges their addresses.
type Finder struct {
	gate    *gate.Gate
	targets []policy.Target
	service netip.Addr
	mapped  []netip.Addr
}

// atOnce bounds the look-ups under way, for a name server's sake.
const atOnce = 16

// NewFinder makes a Finder of rules that Targets takes.
func NewFinder(c Config) (*Finder, error) {
	targets, err := Targets(c.Policy)
	if err != nil {
		return nil, err
	}
	// A gate that serves nobody: so what is decided here is what a gate decides.
	g, err := gate.New(gate.Config{Policy: c.Policy, Resolver: c.Resolver, Log: gate.NewLog(io.Discard, "")})
	if err != nil {
		return nil, fmt.Errorf("judge addresses: %w", err)
	}
	return &Finder{gate: g, targets: targets, service: c.Service, mapped: c.Mapped}, nil
}

// Find looks all targets up, in their order. What the resolver has in its cache sends
// nothing, so it may be called as often as one likes.
func (f *Finder) Find(ctx context.Context) []Answer {
	answers := make([]Answer, len(f.targets))
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, t := range f.targets {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			answers[i] = f.find(ctx, t)
		})
	}
	all.Wait()
	return answers
}

func (f *Finder) find(ctx context.Context, t policy.Target) Answer {
	e := f.gate.Explain(ctx, t)
	a := Answer{Target: t, Rule: e.Rule, Reason: e.Reason, Why: e.Why}
	switch {
	case !e.Allow:
	case e.Reason == policy.HostService:
		a.Addrs = []netip.Addr{f.service}
	case slices.ContainsFunc(e.Addrs, f.isMapped):
		a.Reason, a.Why = policy.OwnAddress, "it leads to this machine by an address that means it in the sandbox"
		if !slices.ContainsFunc(e.Addrs, func(addr netip.Addr) bool { return !f.isMapped(addr) }) {
			break
		}
		a.Reason = policy.MixedAnswer
	default:
		a.Addrs = e.Addrs
	}
	return a
}

// Refuses says why an address that a target had led to may not be reached any more: the
// host may have got it since.
func (f *Finder) Refuses(t policy.Target, addr netip.Addr) (reason policy.Reason, refused bool) {
	if addr == f.service {
		return "", false // of no other target: find refuses it
	}
	return f.gate.Refuses(t, addr)
}

func (f *Finder) isMapped(a netip.Addr) bool { return slices.Contains(f.mapped, a) }
