package gate

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
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

// A log that can't be written says so to whoever decides next.
func TestLinesError(t *testing.T) {
	l := &lines{w: writer(func([]byte) (int, error) { return 0, io.ErrShortWrite })}
	_, _ = l.later([]byte("end\n"))
	if _, err := l.now([]byte("allow\n")); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
	if _, err := l.later(make([]byte, lateMax)); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("%v", err)
	}
}
