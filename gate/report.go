package gate

import (
	"cmp"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Report is what a gate has seen, for the receipt of a run.
type Report struct {
	Hosts    []HostReport    `json:"hosts,omitempty"`    // most bytes first
	Refusals []RefusalReport `json:"refusals,omitempty"` // most often first
	More     int             `json:"more,omitempty"`     // hosts and refusals that found no place
	Foreign  int             `json:"foreign,omitempty"`  // connections of others
	Limited  int             `json:"limited,omitempty"`  // connections over the limit
	Canary   int             `json:"canary,omitempty"`   // connections past the fence, see gate/proc
	Unlogged int             `json:"unlogged,omitempty"` // lines that the log lacks
}

// HostReport is a host that was reached.
type HostReport struct {
	Host  string `json:"host"`
	Port  uint16 `json:"port"`
	Count int    `json:"count"` // requests and tunnels
	Up    int64  `json:"up"`
	Down  int64  `json:"down"`
}

// RefusalReport is something that was refused or failed.
type RefusalReport struct {
	Host   string        `json:"host,omitempty"` // "" of malformed requests
	Port   uint16        `json:"port,omitempty"`
	Reason policy.Reason `json:"reason"`
	Allow  string        `json:"allow,omitempty"` // the rule that would allow it
	Count  int           `json:"count"`
}

// maxReport bounds the distinct entries: a client can make up names.
const maxReport = 1000

// counts gathers the report. The zero value is ready.
type counts struct {
	foreign atomic.Int64
	limited atomic.Int64

	mu       sync.Mutex
	hosts    map[hostKey]*HostReport
	refusals map[refusalKey]*RefusalReport
	more     int
}

type hostKey struct {
	host string
	port uint16
}

type refusalKey struct {
	hostKey
	reason policy.Reason
}

func keyOf(t policy.Target) hostKey {
	if t.Port == 0 {
		return hostKey{}
	}
	return hostKey{t.Name(), t.Port}
}

func (c *counts) reached(t policy.Target, _ policy.Reason) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.host(t); h != nil {
		h.Count++
	}
}

func (c *counts) moved(t policy.Target, up, down int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.host(t); h != nil {
		h.Up += up
		h.Down += down
	}
}

// host needs the lock. It returns nil when there is no place.
func (c *counts) host(t policy.Target) *HostReport {
	key := keyOf(t)
	if h := c.hosts[key]; h != nil {
		return h
	}
	if len(c.hosts) >= maxReport {
		c.more++
		return nil
	}
	if c.hosts == nil {
		c.hosts = make(map[hostKey]*HostReport)
	}
	h := &HostReport{Host: key.host, Port: key.port}
	c.hosts[key] = h
	return h
}

func (c *counts) refused(t policy.Target, reason policy.Reason, allow string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := refusalKey{keyOf(t), reason}
	if r := c.refusals[key]; r != nil {
		r.Count++
		return
	}
	if len(c.refusals) >= maxReport {
		c.more++
		return
	}
	if c.refusals == nil {
		c.refusals = make(map[refusalKey]*RefusalReport)
	}
	c.refusals[key] = &RefusalReport{Host: key.host, Port: key.port, Reason: reason, Allow: allow, Count: 1}
}

// Report returns what the gate has seen so far. Tunnels count when they end.
func (g *Gate) Report() Report {
	c := &g.counts
	c.mu.Lock()
	defer c.mu.Unlock()
	r := Report{More: c.more, Foreign: int(c.foreign.Load()), Limited: int(c.limited.Load()), Unlogged: g.log.Unwritten()}
	for _, h := range c.hosts {
		r.Hosts = append(r.Hosts, *h)
	}
	for _, f := range c.refusals {
		r.Refusals = append(r.Refusals, *f)
	}
	slices.SortFunc(r.Hosts, func(a, b HostReport) int {
		return cmp.Or(cmp.Compare(b.Up+b.Down, a.Up+a.Down), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port))
	})
	slices.SortFunc(r.Refusals, func(a, b RefusalReport) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Host, b.Host), cmp.Compare(a.Port, b.Port), cmp.Compare(a.Reason, b.Reason))
	})
	return r
}
