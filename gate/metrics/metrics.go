// Package metrics counts what a gate does, for Prometheus.
//
// Labels are closed sets: events, reasons, directions, results. A host name is
// none: a client can make up as many as it likes, and whoever may read how busy
// a gate is need not learn where it leads.
package metrics

import (
	"net/http"
	"sync/atomic"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Metrics are those of one gate, in a page of their own. A nil *Metrics counts
// nothing, so that a gate without them has no second way through.
type Metrics struct {
	page      page
	decisions map[decision]*atomic.Uint64
	dials     map[bool]*histogram
	lookups   map[policy.Reason]*histogram // "" is a name with addresses
	hits      *atomic.Uint64
	reloads   map[bool]*atomic.Uint64
}

type decision struct {
	event  string
	reason policy.Reason
}

// events are those of the log that decide on a request, a tunnel or a client.
var events = []string{"allow", "deny", "error", "close", "foreign-client"}

// New makes metrics for a gate of this version of aisb.
func New(version string) *Metrics {
	m := &Metrics{}
	m.page.add("aisb_build_info", "gauge", "The version that runs; the value is always 1.").
		value(func() float64 { return 1 }, "version", version)
	m.addDecisions()
	m.addTimes()
	m.hits = m.page.add("aisb_gate_dns_cache_hits_total", "counter", "Names that were known without a query.").counter()
	reloads := m.page.add("aisb_gate_reloads_total", "counter", "Reloads of the rules; with result failure the old ones stayed.")
	m.reloads = map[bool]*atomic.Uint64{true: reloads.counter("result", "ok"), false: reloads.counter("result", "failure")}
	m.addProcess()
	return m
}

// addDecisions makes one counter a pair of event and reason. All are there from
// the start: a rate of what has not happened yet is 0 and not unknown, and
// counting is one look-up.
func (m *Metrics) addDecisions() {
	decisions := m.page.add("aisb_gate_decisions_total", "counter",
		"Lines of the log by event and reason: requests, tunnels and clients that were allowed, refused, failed or ended.")
	m.decisions = make(map[decision]*atomic.Uint64)
	for _, event := range events {
		for _, reason := range append(policy.Reasons(), "") {
			if possible(event, reason) {
				m.decisions[decision{event, reason}] = decisions.counter("event", event, "reason", string(reason))
			}
		}
	}
}

// possible leaves out pairs that no line of the log can have.
func possible(event string, reason policy.Reason) bool {
	allowed := reason == policy.Listed || reason == policy.HostService
	foreign := reason == policy.ForeignClient || reason == policy.ClientNotAllowed
	switch event {
	case "allow":
		return allowed
	case "foreign-client":
		return foreign
	case "close":
		return !allowed && !foreign
	}
	return !allowed && reason != "" && reason != policy.ForeignClient
}

func (m *Metrics) addTimes() {
	dial := m.page.add("aisb_gate_dial_seconds", "histogram", "How long it took to connect to a host, or to fail.")
	m.dials = map[bool]*histogram{true: dial.histogram("result", "ok"), false: dial.histogram("result", "failure")}
	dns := m.page.add("aisb_gate_dns_seconds", "histogram", "How long it took to look a name up that was not known.")
	m.lookups = map[policy.Reason]*histogram{
		"":                dns.histogram("result", "ok"),
		policy.NXDomain:   dns.histogram("result", "nxdomain"),
		policy.DNSFailure: dns.histogram("result", "failure"),
	}
}

// Gauge adds a value that is asked for at each scrape. The name is the part
// after "aisb_gate_".
func (m *Metrics) Gauge(name, help string, value func() float64) {
	if m != nil {
		m.page.add("aisb_gate_"+name, "gauge", help).value(value)
	}
}

// Bytes adds the counters of what went through.
func (m *Metrics) Bytes(up, down func() float64) {
	if m == nil {
		return
	}
	bytes := m.page.add("aisb_gate_bytes_total", "counter",
		"Bytes from the clients (up) and to them (down), in tunnels and in bodies.")
	bytes.value(up, "direction", "up")
	bytes.value(down, "direction", "down")
}

// Decision counts a line of the log. Lines that decide nothing are no part.
func (m *Metrics) Decision(event string, reason policy.Reason) {
	if m == nil {
		return
	}
	if c, found := m.decisions[decision{event, reason}]; found {
		c.Add(1)
	}
}

// Dialled counts an attempt to connect to a host.
func (m *Metrics) Dialled(took time.Duration, ok bool) {
	if m != nil {
		m.dials[ok].observe(took)
	}
}

// Known counts a name that was in the cache.
func (m *Metrics) Known() {
	if m != nil {
		m.hits.Add(1)
	}
}

// LookedUp counts a look-up: "" went well, nxdomain and dns-failure did not.
func (m *Metrics) LookedUp(took time.Duration, failure policy.Reason) {
	if m == nil {
		return
	}
	if h, found := m.lookups[failure]; found {
		h.observe(took)
	}
}

// Reloaded counts a reload of the rules.
func (m *Metrics) Reloaded(ok bool) {
	if m != nil {
		m.reloads[ok].Add(1)
	}
}

// Handler serves the metrics at /metrics, and nothing else.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_, _ = w.Write(m.page.render()) // a scraper that left is its own affair
	})
	return mux
}
