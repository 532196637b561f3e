package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/bench/ground"
)

// values are what one peer was measured at, a value a round.
type values map[metric][]float64

func (v values) add(m metric, x float64) { v[m] = append(v[m], x) }

// sizes are how much is done in a round.
type sizes struct {
	tunnels, requests, width int
	gib                      int // each way
	idle                     []int
	wait                     time.Duration
}

// cost is the proxy's processor time for what do does, the end of its
// connections included.
func (p *peer) cost(do func() error) (time.Duration, error) {
	p.run.Settle(3 * time.Second)
	before, err := p.run.CPU()
	if err != nil {
		return 0, err
	}
	if err := do(); err != nil {
		return 0, fmt.Errorf("%s: %w", p.name, err)
	}
	p.run.Settle(3 * time.Second)
	after, err := p.run.CPU()
	return after - before, err
}

// tunnels sets up tunnels, each to the first answer of its origin.
func (p *peer) tunnels(hello []byte, s sizes, v values) error {
	var d ground.Done
	cpu, err := p.cost(func() (err error) {
		d, err = ground.Load{Port: p.port, Steps: tunnelSteps(hello, ground.TalkPort), Width: s.width,
			Count: s.tunnels, Limit: 2 * time.Minute}.Run()
		return err
	})
	if err != nil || v == nil {
		return err
	}
	v.add(tunnelRate, float64(s.tunnels)/d.Wall.Seconds())
	v.add(tunnelCPU, float64(cpu.Microseconds())/float64(s.tunnels))
	v.add(tunnelP50, quantile(d.Times, 0.50))
	v.add(tunnelP99, quantile(d.Times, 0.99))
	return nil
}

// requests are plain HTTP on connections that are kept.
func (p *peer) requests(s sizes, v values) error {
	if !p.plain {
		return nil
	}
	var d ground.Done
	cpu, err := p.cost(func() (err error) {
		d, err = ground.Load{Port: p.port, Steps: webSteps(), Again: s.requests/s.width - 1, Width: s.width,
			Count: s.width, Limit: 2 * time.Minute}.Run()
		return err
	})
	if err != nil || v == nil {
		return err
	}
	v.add(webRate, float64(len(d.Times))/d.Wall.Seconds())
	v.add(webCPU, float64(cpu.Microseconds())/float64(len(d.Times)))
	return nil
}

// quantile is in milliseconds.
func quantile(times []time.Duration, q float64) float64 {
	slices.Sort(times)
	return float64(times[int(q*float64(len(times)-1))].Microseconds()) / 1000
}

// bulk moves bytes through one tunnel in each direction.
func (p *peer) bulk(hello []byte, s sizes, v values) error {
	amount := int64(s.gib) << 30
	for _, way := range []struct {
		port int
		m    metric
		move func(*net.TCPConn, int64) error
	}{{ground.DownPort, downCPU, pull}, {ground.UpPort, upCPU, push}} {
		cpu, err := p.cost(func() error {
			c, err := p.open(hello, way.port)
			if err != nil {
				return err
			}
			defer c.Close()
			return way.move(c, amount)
		})
		if err != nil {
			return err
		}
		if v != nil {
			v.add(way.m, cpu.Seconds()/float64(s.gib))
		}
	}
	return nil
}

// open makes one tunnel with its ClientHello sent.
func (p *peer) open(hello []byte, port int) (*net.TCPConn, error) {
	conn, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", p.port))
	if err != nil {
		return nil, err
	}
	c := conn.(*net.TCPConn)
	steps := tunnelSteps(hello, port)
	c.Write(steps[0].Send)
	var head []byte
	for b := make([]byte, 1); !wholeHead(head); head = append(head, b[0]) {
		if _, err := c.Read(b); err != nil {
			c.Close()
			return nil, err
		}
	}
	_, err = c.Write(hello)
	return c, err
}

func pull(c *net.TCPConn, amount int64) error {
	buf := make([]byte, 256<<10)
	for amount > 0 {
		n, err := c.Read(buf)
		if err != nil {
			return err
		}
		amount -= int64(n)
	}
	return nil
}

func push(c *net.TCPConn, amount int64) error {
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(amount))); err != nil {
		return err
	}
	for buf := make([]byte, 256<<10); amount > 0; amount -= int64(len(buf)) {
		if _, err := c.Write(buf); err != nil {
			return err
		}
	}
	_, err := io.ReadFull(c, make([]byte, len("done")))
	return err
}

// keep opens idle tunnels on top of those there are.
func (p *peer) keep(hello []byte, width, count int) ([]int, error) {
	d, err := ground.Load{Port: p.port, Steps: tunnelSteps(hello, ground.TalkPort), Width: width, Count: count,
		Keep: true, Limit: 2 * time.Minute}.Run()
	return d.Kept, err
}

// alive says something in each tunnel and returns how many answer.
func alive(fds []int) int {
	var wg sync.WaitGroup
	var mu sync.Mutex
	n := 0
	for part := range slices.Chunk(fds, max(1, len(fds)/16+1)) {
		wg.Go(func() {
			good := 0
			for _, fd := range part {
				if ping(fd) == nil {
					good++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			n += good
		})
	}
	wg.Wait()
	return n
}

func ping(fd int) error {
	if _, err := unix.Write(fd, []byte("x")); err != nil {
		return err
	}
	ready := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(ready, 10_000)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n == 0 {
			return fmt.Errorf("no answer: %w", err)
		}
		b := make([]byte, 16)
		if n, err := unix.Read(fd, b); err != nil || n == 0 {
			return fmt.Errorf("closed: %w", err)
		}
		return nil
	}
}
