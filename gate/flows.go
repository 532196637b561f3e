package gate

import (
	"context"
	"net/netip"
	"sync"

	"github.com/aisb-dev/aisb/gate/policy"
)

// flow is something allowed that is under way: a tunnel or a plain request.
type flow interface {
	// goes says what was asked for and what it is connected to; no address
	// while it is connected to nothing.
	goes() (policy.Target, netip.Addr)
	// cut ends it for a reason of the gate's own.
	cut(reason policy.Reason)
}

// flows are those under way. The zero value is ready.
type flows struct {
	mu    sync.Mutex
	set   map[flow]struct{}
	empty chan struct{} // closed when the last one goes; nil when nobody waits
}

func (s *flows) add(f flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.set == nil {
		s.set = make(map[flow]struct{})
	}
	s.set[f] = struct{}{}
}

func (s *flows) remove(f flow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.set, f)
	if len(s.set) == 0 && s.empty != nil {
		close(s.empty)
		s.empty = nil
	}
}

// wait returns when nothing is under way or ctx is done.
func (s *flows) wait(ctx context.Context) {
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

// cutWhere cuts those that match and returns how many they were.
func (s *flows) cutWhere(reason policy.Reason, match func(flow) bool) int {
	s.mu.Lock()
	var cut []flow
	for f := range s.set {
		if match(f) {
			cut = append(cut, f)
		}
	}
	s.mu.Unlock()
	for _, f := range cut {
		f.cut(reason)
	}
	return len(cut)
}

func (s *flows) cutAll(reason policy.Reason) {
	s.cutWhere(reason, func(flow) bool { return true })
}

// tire asks the tunnels that are silent to let their goroutines go.
func (s *flows) tire() {
	s.mu.Lock()
	var all []*tunnel
	for f := range s.set {
		if t, ok := f.(*tunnel); ok {
			all = append(all, t)
		}
	}
	s.mu.Unlock()
	for _, t := range all {
		t.ways[0].tire()
		t.ways[1].tire()
	}
}

// tunnels is the number of those that are tunnels.
func (s *flows) tunnels() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for f := range s.set {
		if _, ok := f.(*tunnel); ok {
			n++
		}
	}
	return n
}
