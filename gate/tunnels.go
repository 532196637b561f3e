package gate

import (
	"context"
	"sync"

	"github.com/aisb-dev/aisb/gate/policy"
)

// tunnels are the tunnels that stand. The zero value is ready.
type tunnels struct {
	mu    sync.Mutex
	set   map[*tunnel]struct{}
	empty chan struct{} // closed when the last one goes; nil when nobody waits
}

func (s *tunnels) add(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[*tunnel]struct{})
	}
	s.set[t] = struct{}{}
}

func (s *tunnels) remove(t *tunnel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, t)
	if len(s.set) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// wait returns when no tunnel stands or ctx is done.
func (s *tunnels) wait(ctx context.Context) {
	s.mu.Lock()
	if len(s.set) == 0 {
		s.mu.Unlock()
		return
	}
	if s.empty == nil {
		s.empty = make(chan struct{})
	}
	empty := s.empty
	s.mu.Unlock()
	select {
	case <-empty:
	case <-ctx.Done():
	}
}

// cutWhere cuts the tunnels that match.
func (s *tunnels) cutWhere(reason policy.Reason, match func(*tunnel) bool) {
	s.mu.Lock()
	var cut []*tunnel
	for t := range s.set {
		if match(t) {
			cut = append(cut, t)
		}
	}
	s.mu.Unlock()
	for _, t := range cut {
		t.cut(refusalError{reason})
	}
}

func (s *tunnels) cutAll(reason policy.Reason) {
	s.cutWhere(reason, func(*tunnel) bool { return true })
}
