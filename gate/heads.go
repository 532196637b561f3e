package gate

import (
	"net/http"
	"sync"
	"sync/atomic"
)

// Bounds of heads in flight. Nearly every head has less than a few KiB and costs
// what it has. One that grows beyond smallHead needs a place, of which there are
// few: thousands of clients that each begin a head of 64 KiB would otherwise
// hold a GiB.
const (
	smallHead = 8 << 10
	maxLarge  = 256
)

// place is where a connection's large head is counted. The zero value with a
// channel is ready.
type place struct {
	places chan struct{}
	mu     sync.Mutex
	held   bool
}

// take reports whether a head of n bytes may go on growing.
func (p *place) take(n int) bool {
	if n <= smallHead {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		return true
	}
	select {
	case p.places <- struct{}{}:
		p.held = true
		return true
	default:
		return false
	}
}

// leave gives the place back, if there is one.
func (p *place) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.held {
		<-p.places
		p.held = false
	}
}

// maxUnderWay is how much the large heads of requests under way and of their answers
// may weigh in all. Parsed they take two and a half times as much, for as long as the
// origin likes.
const maxUnderWay = 64 << 20

// fieldCost is what a field weighs beside its bytes: each is in several maps, and four
// bytes make one.
const fieldCost = 128

// headCost is the weight of a head.
func headCost(size, fields int) int { return size + fields*fieldCost }

// weight counts it. The zero value with a limit is ready.
type weight struct {
	limit int64
	bytes atomic.Int64
}

// change reports whether a head that weighs from may weigh to. Small ones count for
// nothing.
func (w *weight) change(from, to int) bool {
	counted := func(n int) int64 {
		if n <= smallHead {
			return 0
		}
		return int64(n)
	}
	more := counted(to) - counted(from)
	if more == 0 || w.bytes.Add(more) <= w.limit || more < 0 {
		return true
	}
	w.bytes.Add(-more)
	return false
}

// errCrowd refuses a large head for which there is no place. It is no fault of
// the request's.
var errCrowd = &badRequest{http.StatusServiceUnavailable, "too many large heads at once"}
