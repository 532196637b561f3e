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
// processes, the same number of tunnels in each, all at once in the end.
func (m *meeting) idle() error {
	if err := m.start("idle"); err != nil {
		return err
	}
	held := map[*peer][]int{}
	defer func() {
		for _, fds := range held {
			for _, fd := range fds {
				unix.Close(fd)
			}
		}
	}()
	begin := map[*peer]int64{}
	for _, p := range m.peers {
		warm := m.sizes
		warm.tunnels = 500
		if err := p.tunnels(m.hello, warm, nil); err != nil {
			return err
		}
		mem, err := p.run.Memory()
		if err != nil {
			return err
		}
		begin[p] = mem.PSS
		m.values[p].add(baseMemory, float64(mem.PSS)/1024)
	}
	for i, count := range m.sizes.idle {
		for _, p := range m.peers {
			fds, err := p.keep(m.hello, m.sizes.width, count-len(held[p]))
			held[p] = append(held[p], fds...)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		say("%d idle tunnels each, for %v", count, m.sizes.wait)
		time.Sleep(m.sizes.wait)
		for _, p := range m.peers {
			mem, err := p.run.Memory()
			if err != nil {
				return err
			}
			m.values[p].add([]metric{idleFew, idleMany}[i], float64(mem.PSS-begin[p])/float64(count))
		}
	}
	for _, p := range m.peers {
		m.values[p].add(idleAlive, float64(alive(held[p])))
	}
	return nil
}

func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

func loadavg() string {
	var one string
	text, _ := os.ReadFile("/proc/loadavg")
	fmt.Sscan(string(text), &one)
	return one
}
