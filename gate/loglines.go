package gate

import (
	"io"
	"sync"
	"time"
)

const (
	lateBy  = 10 * time.Millisecond // how long a close line may wait
	lateMax = 32 << 10              // bytes that wait at most
)

// lines writes whole lines to w, in the order in which they came. Those that
// decide are written before the call returns, so that no byte flows that the log
// doesn't tell of. Those that come after the fact can wait a moment: under load
// they go along with the next, which halves the writes.
type lines struct {
	mu    sync.Mutex
	w     io.Writer
	late  []byte
	timer *time.Timer // runs while something waits; nil before the first
}

// now writes what waits and then p.
func (l *lines) now(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.late) == 0 {
		return l.w.Write(p)
	}
	l.late = append(l.late, p...)
	return len(p), l.flush()
}

// later has p written soon.
func (l *lines) later(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := len(l.late) == 0
	l.late = append(l.late, p...)
	switch {
	case len(l.late) >= lateMax:
		return len(p), l.flush()
	case !first:
	case l.timer == nil:
		l.timer = time.AfterFunc(lateBy, l.overdue)
	default:
		l.timer.Reset(lateBy)
	}
	return len(p), nil
}

// overdue may come after a flush and find nothing, or a line younger than
// lateBy, which it then writes early.
func (l *lines) overdue() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_ = l.flush() // a log that can't be written shows at the next line that decides
}

func (l *lines) flush() error {
	if len(l.late) == 0 {
		return nil
	}
	_, err := l.w.Write(l.late)
	l.late = l.late[:0]
	return err
}

// writer makes a function a writer.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
