package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// meeting is one run with all peers.
type meeting struct {
	peers  []*peer
	work   string
	hello  []byte
	sizes  sizes
	only   string
	values map[*peer]values
}

// hold measures everything and returns the result.
func (m *meeting) hold(rounds int) (*result, error) {
	defer m.stop()
	r := &result{began: time.Now(), rounds: rounds, sizes: m.sizes, values: map[string]values{}}
	if m.only != "idle" {
		if err := m.start("busy"); err != nil {
			return nil, err
		}
		for round := range rounds + 1 {
			if err := m.round(round); err != nil {
				return nil, err
			}
			say("round %d of %d, load %s", round, rounds, loadavg())
		}
		m.stop()
	}
	if m.only == "idle" || m.only == "" {
		if err := m.idle(); err != nil {
			return nil, err
		}
	}
	for _, p := range m.peers {
		r.values[p.name] = m.values[p]
		r.order = append(r.order, p.name)
	}
	r.load = loadavg()
	return r, nil
}

func (m *meeting) start(kind string) error {
	for i, p := range m.peers {
		dir := filepath.Join(m.work, fmt.Sprint(kind, i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if err := p.start(dir); err != nil {
			return err
		}
		if m.values[p] == nil {
			m.values[p] = values{}
		}
	}
	return nil
}

func (m *meeting) stop() {
	for _, p := range m.peers {
		if p.run != nil {
			p.run.Stop()
			p.run = nil
		}
	}
}

// round measures each peer once. The first round warms them up and is not
// counted; another one begins each time.
func (m *meeting) round(n int) error {
	s := m.sizes
	if n == 0 {
		s.tunnels, s.requests, s.gib = s.tunnels/5, s.requests/5, 1
	}
	for _, part := range []struct {
		name string
		do   func(*peer, values) error
	}{
		{"tunnels", func(p *peer, v values) error { return p.tunnels(m.hello, s, v) }},
		{"bulk", func(p *peer, v values) error { return p.bulk(m.hello, s, v) }},
		{"web", func(p *peer, v values) error { return p.requests(s, v) }},
	} {
		if m.only != "" && m.only != part.name {
			continue
		}
		for i := range m.peers {
			p := m.peers[(i+n)%len(m.peers)]
			v := m.values[p]
			if n == 0 {
				v = nil
			}
			if err := part.do(p, v); err != nil {
				return err
			}
		}
	}
	return nil
}

// idle measures what a tunnel holds while nothing goes through it: fresh
// processes one after the other, since clients and origin need descriptors too.
func (m *meeting) idle() error {
	for i, p := range m.peers {
		dir := filepath.Join(m.work, fmt.Sprint("idle", i))
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
		if m.values[p] == nil {
			m.values[p] = values{}
		}
		if err := p.start(dir); err != nil {
			return err
		}
		err := m.silence(p)
		p.run.Stop()
		p.run = nil
		if err != nil && p.name != gateName {
			// The bare relay needs six descriptors a tunnel: io.Copy holds a pipe for
			// each direction while it waits.
			say("%s can't hold them: %v", p.name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// silence opens idle tunnels to one peer, some and then all.
func (m *meeting) silence(p *peer) error {
	warm := m.sizes
	warm.tunnels = 500
	if err := p.tunnels(m.hello, warm, nil); err != nil {
		return err
	}
	before, err := p.run.Memory()
	if err != nil {
		return err
	}
	m.values[p].add(baseMemory, float64(before.PSS)/1024)
	var held []int
	defer func() {
		for _, fd := range held {
			unix.Close(fd)
		}
	}()
	for i, count := range m.sizes.idle {
		fds, err := p.keep(m.hello, m.sizes.width, count-len(held))
		held = append(held, fds...)
		if err != nil {
			return err
		}
		say("%s: %d idle tunnels for %v", p.name, count, m.sizes.wait)
		time.Sleep(m.sizes.wait)
		mem, err := p.run.Memory()
		if err != nil {
			return err
		}
		m.values[p].add([]metric{idleFew, idleMany}[i], float64(mem.PSS-before.PSS)/float64(count))
	}
	m.values[p].add(idleAlive, float64(alive(held)))
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

func loadavg() string {
	var one string
	text, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(text), &one)
	return one
}
