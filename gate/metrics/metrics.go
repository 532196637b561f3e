// Package metrics counts what a gate does, for Prometheus.
//
// Labels are closed sets: events, reasons, directions, results. A host name is
// none: a client can make up as many as it likes, and whoever may read how busy
// a gate is need not learn where it leads.
package metrics

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/aisb-dev/aisb/gate/policy"
)

const namespace = "aisb_gate"

// Metrics are those of one gate, in a registry of their own. A nil *Metrics
// counts nothing, so that a gate without them has no second way through.
type Metrics struct {
	registry  *prometheus.Registry
	decisions map[decision]prometheus.Counter
	dials     map[bool]prometheus.Observer
	lookups   map[policy.Reason]prometheus.Observer // "" is a name with addresses
	hits      prometheus.Counter
	reloads   map[bool]prometheus.Counter
}

type decision struct {
	event  string
	reason policy.Reason
}

// events are those of the log that decide on a request, a tunnel or a client.
var events = []string{"allow", "deny", "error", "close", "foreign-client"}

// New makes metrics for a gate of this version of aisb.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "aisb", Name: "build_info", Help: "The version that runs; the value is always 1.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 }))
	m.addDecisions()
	m.addTimes()
	m.hits = m.register(prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: namespace, Name: "dns_cache_hits_total", Help: "Names that were known without a query.",
	})).(prometheus.Counter)
	reloads := m.register(prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "reloads_total", Help: "Reloads of the rules; with result failure the old ones stayed.",
	}, []string{"result"})).(*prometheus.CounterVec)
	m.reloads = map[bool]prometheus.Counter{true: reloads.WithLabelValues("ok"), false: reloads.WithLabelValues("failure")}
	return m
}

// register adds a collector to the registry and returns it.
func (m *Metrics) register(c prometheus.Collector) prometheus.Collector {
	m.registry.MustRegister(c)
	return c
}

// addDecisions makes one counter a pair of event and reason. All are there from
// the start: a rate of what has not happened yet is 0 and not unknown, and
// counting is one look-up.
func (m *Metrics) addDecisions() {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: namespace, Name: "decisions_total",
		Help: "Lines of the log by event and reason: requests, tunnels and clients that were allowed, refused, failed or ended.",
	}, []string{"event", "reason"})
	m.register(vec)
	m.decisions = make(map[decision]prometheus.Counter)
	for _, event := range events {
		for _, reason := range append(policy.Reasons(), "") {
			if possible(event, reason) {
				m.decisions[decision{event, reason}] = vec.WithLabelValues(event, string(reason))
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

// times are buckets from a kept connection on the same network to a time-out.
var times = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

func (m *Metrics) addTimes() {
	dial := m.register(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "dial_seconds", Help: "How long it took to connect to a host, or to fail.", Buckets: times,
	}, []string{"result"})).(*prometheus.HistogramVec)
	m.dials = map[bool]prometheus.Observer{true: dial.WithLabelValues("ok"), false: dial.WithLabelValues("failure")}
	dns := m.register(prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Namespace: namespace, Name: "dns_seconds", Help: "How long it took to look a name up that was not known.", Buckets: times,
	}, []string{"result"})).(*prometheus.HistogramVec)
	m.lookups = map[policy.Reason]prometheus.Observer{
		"":                dns.WithLabelValues("ok"),
		policy.NXDomain:   dns.WithLabelValues("nxdomain"),
		policy.DNSFailure: dns.WithLabelValues("failure"),
	}
}

// Gauge adds a value that is asked for at each scrape.
func (m *Metrics) Gauge(name, help string, value func() float64) {
	if m != nil {
		m.register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help}, value))
	}
}

// Bytes adds the counters of what went through.
func (m *Metrics) Bytes(up, down func() float64) {
	if m == nil {
		return
	}
	for direction, value := range map[string]func() float64{"up": up, "down": down} {
		m.register(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Namespace: namespace, Name: "bytes_total", Help: "Bytes from the clients (up) and to them (down), in tunnels and in bodies.",
			ConstLabels: prometheus.Labels{"direction": direction},
		}, value))
	}
}

// Decision counts a line of the log. Lines that decide nothing are no part.
func (m *Metrics) Decision(event string, reason policy.Reason) {
	if m == nil {
		return
	}
	if c, found := m.decisions[decision{event, reason}]; found {
		c.Inc()
	}
}

// Dialled counts an attempt to connect to a host.
func (m *Metrics) Dialled(took time.Duration, ok bool) {
	if m != nil {
		m.dials[ok].Observe(took.Seconds())
	}
}

// Known counts a name that was in the cache.
func (m *Metrics) Known() {
	if m != nil {
		m.hits.Inc()
	}
}

// LookedUp counts a look-up: "" went well, nxdomain and dns-failure did not.
func (m *Metrics) LookedUp(took time.Duration, failure policy.Reason) {
	if m == nil {
		return
	}
	if o, found := m.lookups[failure]; found {
		o.Observe(took.Seconds())
	}
}

// Reloaded counts a reload of the rules.
func (m *Metrics) Reloaded(ok bool) {
	if m != nil {
		m.reloads[ok].Inc()
	}
}

// Handler serves the metrics at /metrics, and nothing else.
func (m *Metrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	return mux
}
