package sandbox

import "golang.org/x/sys/unix"

// pastaEnd notices that a run's pasta has ended before its sandbox. nil stands for a
// run that has none.
type pastaEnd struct {
	pasta handle
	seen  bool // by the look before this one
	told  bool
	ended chan struct{} // closed when told
}

func newPastaEnd(pid int) *pastaEnd {
	return &pastaEnd{pasta: openHandle(pid), ended: make(chan struct{})}
}

// look looks once. The end of a sandbox is that of its pasta, too, and may be seen here
// first: only a pasta that was gone a look ago already has ended by itself.
func (p *pastaEnd) look() {
	if p == nil || p.told || !p.pasta.ended() {
		return
	}
	if p.told = p.seen; p.told {
		close(p.ended)
	}
	p.seen = true
}

func (p *pastaEnd) close() {
	if p != nil {
		p.pasta.close()
	}
}

// died reports whether pasta had ended before its sandbox did.
func (p *pastaEnd) died() bool { return p != nil && p.told }

// PastaDied is closed when the run's pasta has ended although its sandbox goes on. It is
// nil, and so never closed, without one.
func (s *Session) PastaDied() <-chan struct{} {
	if s.dog.pasta == nil {
		return nil
	}
	return s.dog.pasta.ended
}

// ended reports whether the process has ended: its pidfd can be read then, also while
// nobody has waited for it (pidfd_open(2)).
func (h handle) ended() bool {
	if h == noHandle {
		return true
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(h), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}
