package gate

import (
	"bytes"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// Lines keep their order, those that decide are out when the call returns, and
// what waits goes with them.
func TestLinesOrder(t *testing.T) {
	var out bytes.Buffer
	writes := 0
	l := &lines{w: writer(func(p []byte) (int, error) { writes++; return out.Write(p) })}
	for _, step := range []struct {
		write func([]byte) (int, error)
		text  string
		want  string
	}{
		{l.now, "1\n", "1\n"},
		{l.later, "2\n", "1\n"},
		{l.later, "3\n", "1\n"},
		{l.now, "4\n", "1\n2\n3\n4\n"},
		{l.now, "5\n", "1\n2\n3\n4\n5\n"},
	} {
		if n, err := step.write([]byte(step.text)); n != len(step.text) || err != nil {
			t.Errorf("%q: %d, %v", step.text, n, err)
		}
		if out.String() != step.want {
			t.Errorf("after %q: %q, want %q", step.text, out.String(), step.want)
		}
	}
	if writes != 3 {
		t.Errorf("%d writes, want 3", writes)
	}
}

// A line that waits is written in time, again and again, and at once when many wait.
func TestLinesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var out bytes.Buffer
		l := &lines{w: writer(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return out.Write(p) })}
		length := func() int { mu.Lock(); defer mu.Unlock(); return out.Len() }
		for range 3 {
			before := length()
			_, _ = l.later([]byte("end\n"))
			time.Sleep(lateBy - 1)
			if length() != before {
				t.Error("written early")
			}
			time.Sleep(2 * time.Nanosecond)
			if length() != before+4 {
				t.Error("not written in time")
			}
		}
		before := length()
		_, _ = l.later([]byte(strings.Repeat("x", lateMax)))
		if length() != before+lateMax {
			t.Error("too much waits")
		}
	})
}

// disk takes so many bytes and no more.
type disk struct {
	room int
	text bytes.Buffer
}

func (d *disk) Write(p []byte) (int, error) {
	n := min(len(p), d.room)
	d.room -= n
	d.text.Write(p[:n])
	if n < len(p) {
		return n, unix.ENOSPC
	}
	return n, nil
}

// A log that can't be written says so to whoever decides, and once to whoever listens. With
// room its lines are whole and in order, what has been cut off among them.
func TestLinesError(t *testing.T) {
	told := 0
	d := &disk{room: 5}
	l := &lines{w: d, tell: func(err error) {
		if told++; !errors.Is(err, unix.ENOSPC) {
			t.Error(err)
		}
	}}
	_, _ = l.later([]byte("end\n"))
	for range 2 {
		if _, err := l.now([]byte("allow\n")); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%v", err)
		}
	}
	_, _ = l.later([]byte("end 2\n"))
	if n := l.unwritten(); n != 3 || told != 1 {
		t.Errorf("%d are unwritten, told %d times", n, told)
	}
	d.room = 1 << 20
	if _, err := l.now([]byte("deny\n")); err != nil {
		t.Error(err)
	}
	if got, want := d.text.String(), "end\nallow\nallow\nend 2\ndeny\n"; got != want || l.unwritten() != 0 {
		t.Errorf("got %q, want %q; %d are unwritten", got, want, l.unwritten())
	}
}

// What waits for room has a bound, and what is beyond it is counted.
func TestLinesLost(t *testing.T) {
	line := []byte(strings.Repeat("x", 1023) + "\n")
	const fit = lateMax / 1024
	d := &disk{room: 100}
	l := &lines{w: d}
	for i := range 2 * fit {
		if i%2 == 0 {
			_, _ = l.later(line)
		} else {
			_, _ = l.now(line)
		}
	}
	if len(l.late) > lateMax || l.unwritten() != 2*fit {
		t.Errorf("%d bytes wait, %d lines are unwritten", len(l.late), l.unwritten())
	}
	d.room = 1 << 20
	_, _ = l.now(line)
	if d.text.Len()%len(line) != 0 || strings.Count(d.text.String(), string(line)) != 2*fit+1-l.unwritten() || l.unwritten() < fit {
		t.Errorf("%d bytes are written, %d lines are not", d.text.Len(), l.unwritten())
	}
}

// A disk that takes a part of what waits makes room for a line.
func TestLinesPartly(t *testing.T) {
	line := []byte(strings.Repeat("x", 1023) + "\n")
	d := &disk{}
	l := &lines{w: d}
	for range lateMax / len(line) {
		_, _ = l.now(line)
	}
	d.room = len(line) + 1
	if _, err := l.now(line); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("%v", err)
	}
	d.room = 1 << 20
	if err := l.flush(); err != nil || l.lost != 0 || d.text.Len() != lateMax+len(line) {
		t.Errorf("%v, %d lines are lost, %d bytes are written", err, l.lost, d.text.Len())
	}
}
