package gate

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// record begins a line about an exchange.
func (x *exchange) record(e Event, reason policy.Reason) Record {
	h := x.greeting()
	r := Record{
		Event: e, ID: x.id, Method: x.method, Reason: reason, Client: x.from, SNI: h.sni, ALPN: h.alpn,
	}
	if x.target.Port != 0 {
		r.Host, r.Port = x.target.Name(), x.target.Port
	}
	if x.decision != nil {
		r.Rule = x.decision.RuleText()
	}
	return r
}

// greeting is the ClientHello as far as it was read.
func (x *exchange) greeting() hello {
	if h := x.hello.Load(); h != nil {
		return *h
	}
	return hello{}
}

// logAllow writes that an exchange may go on, and where it is connected to. It reports
// whether that is written: what can't be written down is not to happen.
func (g *Gate) logAllow(x *exchange, to netip.AddrPort) bool {
	r := x.record(EventAllow, x.decision.Reason)
	r.Addr = to
	g.counts.reached(x.target, x.decision.Reason)
	return g.write(r)
}

// logRefusal writes that an exchange got an answer of the gate's own.
func (g *Gate) logRefusal(x *exchange, r *refusal) {
	event := EventDeny
	switch r.reason {
	case policy.NXDomain, policy.DNSFailure, policy.DialFailure, policy.UpstreamFailure:
		event = EventError
	case policy.ClientNotAllowed:
		event = EventForeign
		g.counts.foreign.Add(1)
	}
	if r.reason == policy.Limit && r.status == http.StatusServiceUnavailable {
		event = EventError // no rule's doing
	}
	rec := x.record(event, r.reason)
	rec.Rule = r.rule
	if event != EventForeign {
		g.counts.refused(x.target, r.reason, r.allow)
	}
	g.write(rec)
}

// logClose writes the end of a tunnel. One that the gate cut before a byte
// passed is a denial.
func (g *Gate) logClose(t *tunnel) {
	var cause policy.Reason
	if c := t.cause.Load(); c != nil {
		cause = *c
	}
	if !t.passed.Load() {
		if cause == "" {
			cause = policy.NotTLS
		}
		g.logCut(t.x, cause)
		return
	}
	g.logDone(t.x, t.up.Load(), t.down.Load(), cause)
}

// logCut writes that an exchange was ended before a byte passed.
func (g *Gate) logCut(x *exchange, cause policy.Reason) {
	g.counts.refused(x.target, cause, allowAfter(x, cause))
	g.write(x.record(EventDeny, cause))
}

// allowAfter is the rule that would have let a cut tunnel be.
func allowAfter(x *exchange, cause policy.Reason) string {
	switch cause {
	case policy.NoSNI, policy.NotTLS:
		return policy.Suggest(x.target, x.decision.Private, true)
	}
	return ""
}

// logDone writes what went through. cause is why the gate ended it, if it did.
func (g *Gate) logDone(x *exchange, up, down int64, cause policy.Reason) {
	r := x.record(EventClose, cause)
	r.Traffic = &Traffic{Up: up, Down: down, Duration: time.Since(x.begin)}
	g.counts.moved(x.target, up, down)
	g.write(r)
}

// logPanic writes that a fault of the gate's own ended a connection.
func (g *Gate) logPanic(client netip.AddrPort) {
	g.write(Record{Event: EventError, Reason: policy.UpstreamFailure, Client: client})
}

// Listening writes the ready line. confined is what the process is locked up by.
func (l *Log) Listening(addr netip.AddrPort, confined string) {
	l.Write(Record{Event: EventListening, Addr: addr, Confined: confined})
}
