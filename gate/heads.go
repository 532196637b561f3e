package gate

import (
	"net/http"
	"sync"
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

// errCrowd refuses a large head for which there is no place. It is no fault of
// the request's.
var errCrowd = &badRequest{http.StatusServiceUnavailable, "too many large heads at once"}
