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

// maxUnderWay is how many bytes the large heads of requests under way may have in all.
// Parsed they take two and a half times as much, for as long as the origin likes.
const maxUnderWay = 64 << 20

// weight counts those bytes. The zero value with a limit is ready.
type weight struct {
	limit int64
	bytes atomic.Int64
}

// take reports whether there is room for a head of n bytes.
func (w *weight) take(n int) bool {
	if n <= smallHead || w.bytes.Add(int64(n)) <= w.limit {
		return true
	}
	w.bytes.Add(-int64(n))
	return false
}

// leave gives the room of a head back.
func (w *weight) leave(n int) {
	if n > smallHead {
		w.bytes.Add(-int64(n))
	}
}

// errCrowd refuses a large head for which there is no place. It is no fault of
// the request's.
var errCrowd = &badRequest{http.StatusServiceUnavailable, "too many large heads at once"}
