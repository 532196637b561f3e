package gate

import "sync/atomic"

// meter counts the bytes of one direction of one flow, and with each of them
// those of all flows: what is under way for hours is to be seen before it ends.
type meter struct {
	n   atomic.Int64
	all *atomic.Int64
}

// Add counts n bytes.
func (m *meter) Add(n int64) {
	m.n.Add(n)
	m.all.Add(n)
}

// Load returns the bytes of this flow.
func (m *meter) Load() int64 { return m.n.Load() }

// watch adds to the metrics what is asked for at each scrape.
func (g *Gate) watch() {
	m := g.metrics
	m.Gauge("connections", "Connections of clients that are open.", func() float64 { return float64(len(g.slots)) })
	m.Gauge("connections_limit", "Connections that can be open at once.", func() float64 { return float64(cap(g.slots)) })
	m.Gauge("tunnels", "Tunnels that are open.", func() float64 { return float64(g.flows.tunnels()) })
	m.Gauge("rules", "Allow rules in force.", func() float64 { return float64(g.policy.Load().Len()) })
	m.Gauge("dns_cache_entries", "Names that are known.", func() float64 { return float64(g.resolver.Len()) })
	m.Bytes(func() float64 { return float64(g.moved.up.Load()) }, func() float64 { return float64(g.moved.down.Load()) })
}

// write counts a line of the log and writes it. In this order, as whatever else counts
// what a line tells of: who has read the line may ask for the numbers at once.
func (g *Gate) write(r Record) bool {
	g.metrics.Decision(string(r.Event), r.Reason)
	return g.log.Write(r)
}
