package gate

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// fullLab is a gate whose only place is taken. Clients may take a minute over an answer.
func fullLab(t *testing.T, lingering int) *lab {
	o := tcpOrigin(t, fakes.Echo)
	l := startTweaked(t, service(o.Addr)+"+tcp", nil, func(c *Config) { c.MaxConns = 1 }, func(g *Gate) {
		unhurried(g)
		g.lingering = make(chan struct{}, lingering)
	})
	l.connect(service(o.Addr))
	return l
}

// turnedAway waits until so many connections have been refused.
func (l *lab) turnedAway(n int) {
	l.t.Helper()
	l.counted("refused", func() int { return int(l.gate.counts.limited.Load()) }, n, n)
}

// A client that is still sending when there is no room for it has the answer, and no reset.
func TestCrowdHearsWhy(t *testing.T) {
	l := fullLab(t, maxLingering)
	c := l.dial()
	l.turnedAway(1)
	c.send(crlf("POST http://allowed.test/ HTTP/1.1", "Host: x", "Content-Length: 524288", ""))
	for range 128 {
		c.send(strings.Repeat("x", 4096))
	}
	if text := c.rest(); !strings.HasPrefix(text, "HTTP/1.1 503 ") || !strings.HasSuffix(text, "too many connections.\n") {
		t.Errorf("it got %q", text)
	}
	c.Close()
	l.counted("lingering", func() int { return len(l.gate.lingering) }, 0, 0)
}

// Of many that are silent few have that time, the others are closed at once, and nobody
// takes a place.
func TestCrowdCostsLittle(t *testing.T) {
	const few = 2
	l := fullLab(t, few)
	for n := range few {
		c := l.dial()
		l.turnedAway(n + 1)
		l.counted("lingering", func() int { return len(l.gate.lingering) }, n+1, n+1)
		c.send("x")
	}
	c := l.dial()
	l.turnedAway(few + 1)
	l.until(func() bool { // what is closed resets who still sends
		_, err := c.Write([]byte("x"))
		return errors.Is(err, unix.ECONNRESET) || errors.Is(err, unix.EPIPE)
	}, "the connection is not closed")
	if got := len(l.gate.lingering); got != few {
		t.Errorf("%d have places, want %d", got, few)
	}
	// The end waits for none of them.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l.gate.Drain(ctx)
	l.counted("lingering", func() int { return len(l.gate.lingering) }, 0, 0)
}
