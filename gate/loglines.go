package gate

import (
	"bytes"
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
//
// What can't be written waits too, as far as there is room, from the very byte at
// which a full disk has cut it off: once it can, the lines are whole again.
type lines struct {
	mu    sync.Mutex
	w     io.Writer
	late  []byte
	timer *time.Timer // runs while something waits; nil before the first

	failed bool        // the last write has
	lost   int         // lines that found no place
	tell   func(error) // called when it begins to fail, once in tellEvery at most; may be nil
	told   time.Time   // when tell was called last
}

// tellEvery is how often a log is said to fail that does so time and again.
const tellEvery = time.Minute

// ready reports whether lines can be written, as far as that is known: it tries those that
// couldn't be.
func (l *lines) ready() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.failed || l.flush() == nil
}

// now writes what waits and then p. An error means that not all of that could be written.
func (l *lines) now(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.take(p); err != nil {
		return 0, err
	}
	return len(p), l.flush()
}

// later has p written soon.
func (l *lines) later(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := len(l.late) == 0
	if err := l.take(p); err != nil {
		return 0, err
	}
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

// take puts a line behind those that wait, if it has a place there.
func (l *lines) take(p []byte) error {
	full := func() bool { return len(l.late)+len(p) > lateMax }
	if l.failed && full() {
		// A disk that takes a part makes room as well.
		if err := l.flush(); err != nil && full() {
			l.lost++
			return err
		}
	}
	l.late = append(l.late, p...)
	return nil
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
	n, err := l.w.Write(l.late)
	l.late = l.late[:copy(l.late, l.late[min(n, len(l.late)):])]
	began := err != nil && !l.failed
	l.failed = err != nil
	if began && l.tell != nil && (l.told.IsZero() || time.Since(l.told) >= tellEvery) {
		l.told = time.Now()
		l.tell(err)
	}
	return err
}

// unwritten is how many lines have been lost, or would be now.
func (l *lines) unwritten() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.failed {
		return l.lost
	}
	return l.lost + bytes.Count(l.late, []byte("\n"))
}

// writer makes a function a writer.
type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }
