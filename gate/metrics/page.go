package metrics

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// page is a list of families, written in the text format of Prometheus, version
// 0.0.4. It is ours because the client library costs each start of aisb more
// than the gate's own set-up (docs/adr/0073); a test has it read by that library.
type page struct {
	mu       sync.Mutex
	families []*family
}

// family is one metric with all its labels.
type family struct {
	name, kind, help string

	mu     sync.Mutex
	series []func(*bytes.Buffer)
}

// add makes a family. The kind is counter, gauge or histogram; names are ours,
// each once.
func (p *page) add(name, kind, help string) *family {
	f := &family{name: name, kind: kind, help: help}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.families = append(p.families, f)
	return f
}

// value adds a series that is asked for at each scrape. Labels are names and
// values in turn.
func (f *family) value(value func() float64, labels ...string) {
	head := f.name + braces(labels)
	f.addSeries(func(b *bytes.Buffer) { line(b, head, value()) })
}

// counter adds a series that only grows.
func (f *family) counter(labels ...string) *atomic.Uint64 {
	c := new(atomic.Uint64)
	f.value(func() float64 { return float64(c.Load()) }, labels...)
	return c
}

// histogram adds a series of times.
func (f *family) histogram(labels ...string) *histogram {
	h := &histogram{counts: make([]uint64, len(bounds)+1)}
	f.addSeries(func(b *bytes.Buffer) { h.write(b, f.name, labels) })
	return h
}

func (f *family) addSeries(write func(*bytes.Buffer)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.series = append(f.series, write)
}

// bounds are the buckets in seconds, from a kept connection on the same network
// to a time-out.
var bounds = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10}

type histogram struct {
	mu     sync.Mutex
	counts []uint64 // of each bucket alone; the last is beyond all bounds
	sum    float64
}

func (h *histogram) observe(took time.Duration) {
	seconds := took.Seconds()
	bucket, _ := slices.BinarySearch(bounds, seconds) // a bound is part of its bucket
	h.mu.Lock()
	defer h.mu.Unlock()
	h.counts[bucket]++
	h.sum += seconds
}

func (h *histogram) write(b *bytes.Buffer, name string, labels []string) {
	h.mu.Lock()
	counts, sum := slices.Clone(h.counts), h.sum
	h.mu.Unlock()
	var total uint64
	for i, n := range counts {
		total += n
		bound := math.Inf(1)
		if i < len(bounds) {
			bound = bounds[i]
		}
		line(b, name+"_bucket"+braces(append(slices.Clip(labels), "le", number(bound))), float64(total))
	}
	line(b, name+"_sum"+braces(labels), sum)
	line(b, name+"_count"+braces(labels), float64(total))
}

// render writes the page, families by name.
func (p *page) render() []byte {
	p.mu.Lock()
	families := slices.Clone(p.families)
	p.mu.Unlock()
	slices.SortFunc(families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	var b bytes.Buffer
	for _, f := range families {
		f.mu.Lock()
		series := slices.Clone(f.series)
		f.mu.Unlock()
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
		for _, write := range series {
			write(&b)
		}
	}
	return b.Bytes()
}

func line(b *bytes.Buffer, head string, value float64) {
	b.WriteString(head)
	b.WriteByte(' ')
	b.WriteString(number(value))
	b.WriteByte('\n')
}

func number(value float64) string {
	if math.IsInf(value, 1) {
		return "+Inf"
	}
	if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
		return strconv.FormatInt(int64(value), 10) // whole numbers as people read them
	}
	return strconv.FormatFloat(value, 'g', -1, 64)
}

// escape is of label values: backslash, quote and newline.
var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func braces(labels []string) string {
	if len(labels) == 0 {
		return ""
	}
	pairs := make([]string, 0, len(labels)/2)
	for i := 0; i+1 < len(labels); i += 2 {
		pairs = append(pairs, labels[i]+`="`+escape.Replace(labels[i+1])+`"`)
	}
	return "{" + strings.Join(pairs, ",") + "}"
}
