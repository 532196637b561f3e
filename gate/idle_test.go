package gate

import (
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// quickLab parks what is silent soon.
func quickLab(t *testing.T, talk fakes.Talk) (*lab, *fakes.TCP) {
	l, o := tcpLab(t, talk, "+tcp")
	l.gate.idle.rest = 5 * time.Millisecond
	return l, o
}

// waitParked waits until n ways are parked.
func (l *lab) waitParked(n int) {
	l.t.Helper()
	l.counted("ways parked", func() int {
		l.gate.idle.mu.Lock()
		defer l.gate.idle.mu.Unlock()
		return len(l.gate.idle.at)
	}, n, n)
}

func (c *raw) echo(text string) {
	c.t.Helper()
	c.send(text)
	got := make([]byte, len(text))
	if _, err := io.ReadFull(c.r, got); err != nil || string(got) != text {
		c.t.Fatalf("got %q, %v; want %q", got, err, text)
	}
}

// A silent tunnel is parked in both directions, goes on when something comes,
// and is parked again.
func TestParked(t *testing.T) {
	l, o := quickLab(t, fakes.Echo)
	c := l.connect(service(o.Addr))
	for _, text := range []string{"one", "two", strings.Repeat("three", 100_000)} {
		c.echo(text)
		l.waitLog(event("allow"))
		l.waitParked(2)
	}
	c.CloseWrite()
	if got := c.rest(); got != "" {
		t.Errorf("got %q after the end", got)
	}
	if m := l.waitLog(event("close")); m["up"] != 500_006.0 || m["down"] != 500_006.0 {
		t.Errorf("close line %v", m)
	}
	l.waitParked(0)
	l.noneLeft()
}

// An end of either side, a reset and a cut find a parked tunnel too.
func TestParkedEnds(t *testing.T) {
	l, o := quickLab(t, fakes.Echo)
	open := func() *raw {
		c := l.connect(service(o.Addr))
		c.echo("hello")
		l.waitParked(2)
		return c
	}
	ended := func(how string, c *raw) {
		t.Helper()
		if _, err := io.ReadAll(c); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v", how, err)
		}
		l.waitParked(0)
		l.noneLeft()
	}
	c := open()
	c.SetLinger(0)
	c.Close()
	ended("reset by the client", c)

	c = open()
	l.gate.SetPolicy(l.policy("other.test"))
	ended("cut", c)
	l.gate.SetPolicy(l.policy(service(o.Addr) + "+tcp"))

	c = open()
	o.Close()
	c.rest()
	c.Close()
	ended("end of the server", c)
}

// With one direction over, the other has its time limit, parked or not.
func TestParkedHalf(t *testing.T) {
	l, o := quickLab(t, fakes.HalfClosed("all\n"))
	l.gate.times.halfOpen = 100 * time.Millisecond
	c := l.connect(service(o.Addr))
	if got := c.rest(); got != "all\n" {
		t.Errorf("got %q", got)
	}
	l.noneLeft() // though the client never ends

	l, _ = quickLab(t, fakes.Echo)
	silent := tcpOrigin(t, func(c *net.TCPConn) int64 { n, _ := io.Copy(io.Discard, c); l.noneLeft(); return n })
	l.gate.SetPolicy(l.policy(service(silent.Addr) + "+tcp"))
	l.gate.times.halfOpen = 100 * time.Millisecond
	c = l.connect(service(silent.Addr))
	c.send("x")
	l.waitParked(2)
	c.CloseWrite() // wakes up, and sets the limit of the parked other direction
	l.noneLeft()
}

// Bytes that come while a way is being parked are not lost, whoever is first.
func TestParkedRace(t *testing.T) {
	l, o := quickLab(t, fakes.Echo)
	l.gate.idle.rest = time.Millisecond / 4
	var all sync.WaitGroup
	for n := range 8 {
		c := l.connect(service(o.Addr))
		all.Go(func() {
			for i := range 300 {
				c.SetDeadline(time.Now().Add(patience)) // of one round: a busy machine takes long for all
				text := strings.Repeat("x", 1+i*n)
				if _, err := io.WriteString(c, text); err != nil {
					t.Errorf("round %d: %v", i, err)
					return
				}
				if _, err := io.ReadFull(c.r, make([]byte, len(text))); err != nil {
					t.Errorf("round %d: %v", i, err)
					return
				}
				time.Sleep(time.Duration(i%5) * time.Millisecond / 8)
			}
			c.Close()
		})
	}
	all.Wait()
	l.noneLeft()
	l.waitParked(0)
}
