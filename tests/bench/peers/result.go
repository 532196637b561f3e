package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// metric is one thing that is measured.
type metric int

const (
	tunnelRate metric = iota
	tunnelP50
	tunnelP99
	tunnelCPU
	downCPU
	upCPU
	webRate
	webCPU
	idleFew
	idleMany
	idleAlive
	baseMemory
)

// row says how a metric is shown.
type row struct {
	metric metric
	name   string
	unit   string
	digits int
	more   bool // is better
	plot   bool
}

var rows = []row{
	{tunnelRate, "tunnels set up", "1/s", 0, true, true},
	{tunnelP50, "time to the first answer, p50", "ms", 2, false, false},
	{tunnelP99, "time to the first answer, p99", "ms", 2, false, true},
	{tunnelCPU, "CPU per tunnel", "µs", 0, false, true},
	{downCPU, "CPU per GiB down", "s", 3, false, true},
	{upCPU, "CPU per GiB up", "s", 3, false, true},
	{webRate, "plain HTTP, kept alive", "1/s", 0, true, false},
	{webCPU, "CPU per request", "µs", 0, false, true},
	{idleFew, "memory per idle tunnel, 2,000", "KiB", 1, false, true},
	{idleMany, "memory per idle tunnel, most", "KiB", 1, false, true},
	{idleAlive, "idle tunnels alive in the end", "", 0, true, false},
	{baseMemory, "memory before", "MiB", 1, false, false},
}

// bar is what is promised of the gate: at most (or, where more is better, at
// least) so many times what a peer has.
type bar struct {
	metric metric
	peer   string
	factor float64
	goal   bool // the bare relay misses it too
}

var bars = []bar{
	{tunnelCPU, "squid", 0.75, false},
	{tunnelCPU, "bare relay", 1.2, false},
	{downCPU, "squid", 0.5, false},
	{upCPU, "squid", 0.5, false},
	{tunnelRate, "squid", 1.5, false},
	{tunnelP99, "squid", 1, false},
	{webCPU, "squid", 1, false},
	{idleFew, "squid", 0.4, true},
	{idleMany, "squid", 0.4, true},
}

// gateName is the peer whose bars these are.
const gateName = "aisb gate"

// result is what a run has shown.
type result struct {
	began   time.Time
	rounds  int
	sizes   sizes
	order   []string
	values  map[string]values
	load    string
	machine []string
}

// stats are the median and the least and greatest value.
type stats struct{ median, least, most float64 }

func statsOf(list []float64) (stats, bool) {
	if len(list) == 0 {
		return stats{}, false
	}
	s := slices.Sorted(slices.Values(list))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (s[len(s)/2-1] + mid) / 2
	}
	return stats{mid, s[0], s[len(s)-1]}, true
}

func (r *result) stats(peer string, m metric) (stats, bool) { return statsOf(r.values[peer][m]) }

// ratio is the gate's median over a peer's.
func (r *result) ratio(m metric, peer string) (float64, bool) {
	ours, ok1 := r.stats(gateName, m)
	theirs, ok2 := r.stats(peer, m)
	return ours.median / theirs.median, ok1 && ok2 && theirs.median != 0
}

// met reports whether a ratio is on the good side of a bar.
func (b bar) met(ratio float64) bool {
	if rowOf(b.metric).more {
		return ratio >= b.factor
	}
	return ratio <= b.factor
}

func rowOf(m metric) row {
	return rows[slices.IndexFunc(rows, func(r row) bool { return r.metric == m })]
}

// table is the medians with their spread, and the bars.
func (r *result) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "| median (least - most) | unit | %s |\n|---|---|%s\n", strings.Join(r.order, " | "), strings.Repeat("---|", len(r.order)))
	for _, row := range rows {
		line, found := fmt.Sprintf("| %s | %s |", row.name, row.unit), false
		for _, name := range r.order {
			s, ok := r.stats(name, row.metric)
			found = found || ok
			switch {
			case !ok:
				line += " - |"
			case len(r.values[name][row.metric]) == 1:
				line += fmt.Sprintf(" %.*f |", row.digits, s.median)
			default:
				line += fmt.Sprintf(" %.*f (%.*f - %.*f) |", row.digits, s.median, row.digits, s.least, row.digits, s.most)
			}
		}
		if found {
			b.WriteString(line + "\n")
		}
	}
	b.WriteString("\n| bar | of | wanted | measured | |\n|---|---|---|---|---|\n")
	for _, bar := range bars {
		ratio, ok := r.ratio(bar.metric, bar.peer)
		if !ok || math.IsNaN(ratio) {
			continue
		}
		sign, verdict := "<=", "met"
		if rowOf(bar.metric).more {
			sign = ">="
		}
		if !bar.met(ratio) {
			verdict = "**missed**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s %.2f | %.2f | %s |\n", rowOf(bar.metric).name, bar.peer, sign, bar.factor, ratio, verdict)
	}
	return b.String()
}
