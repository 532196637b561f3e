package gate

import (
	"sync"
	"sync/atomic"

	"github.com/aisb-dev/aisb/gate/policy"
)

// budget is what one rule still lets go up, in all its tunnels and requests
// together: one that counted each for itself would be no limit. A nil budget
// has no end.
type budget struct{ left atomic.Int64 }

// spend takes n bytes off and reports whether they were there. A piece that is
// too large ends the budget: what comes after it would be an upload with a hole.
func (b *budget) spend(n int64) bool {
	return b == nil || b.left.Add(-n) >= 0
}

// budgets are those of all rules that have one. The zero value is ready.
type budgets struct {
	mu sync.Mutex
	by map[string]*budget
}

// of returns the budget of a decision's rule. It is found by the rule's text, so
// a reload doesn't fill it again.
func (s *budgets) of(d policy.Decision) *budget {
	if d.Upload <= 0 || d.Rule == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.by[d.Rule.Text]
	if b == nil {
		b = &budget{}
		b.left.Store(d.Upload)
		if s.by == nil {
			s.by = make(map[string]*budget)
		}
		s.by[d.Rule.Text] = b
	}
	return b
}
