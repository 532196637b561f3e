package gate

import (
	"sync"
	"time"
)

// nameCap bounds how many new names a wildcard rule lets resolve in a minute.
// Whoever owns a name server below a listed domain could otherwise be told
// anything, a label at a time, by queries alone.
type nameCap struct {
	limit int

	mu    sync.Mutex
	begin time.Time
	used  map[string]map[string]bool // names by rule
}

// newNames is the limit. A page with many shards needs some dozens.
const newNames = 120

// take counts a name and reports whether its rule has room for it.
func (n *nameCap) take(rule, name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if now := time.Now(); now.Sub(n.begin) >= time.Minute {
		n.begin, n.used = now, make(map[string]map[string]bool)
	}
	names := n.used[rule]
	if names == nil {
		names = make(map[string]bool)
		n.used[rule] = names
	}
	if names[name] {
		return true
	}
	if len(names) >= n.limit {
		return false
	}
	names[name] = true
	return true
}
