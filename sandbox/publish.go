package sandbox

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate"
)

// Publish is a port of the host's 127.0.0.1 that leads to a server in the sandbox.
type Publish struct {
	Host uint16 // 0 takes a free one
	Port uint16 // of the sandbox's loopback
}

// Bounds of published ports.
const (
	maxPublished = 256                   // connections at once, of all ports
	maxDials     = 64                    // that pid 1 hasn't made yet, as it allows
	acceptPause  = 50 * time.Millisecond // after an error, such as no free descriptor
)

// published are the host's listeners and what has come through them.
type published struct {
	listeners []*net.TCPListener
	ports     []Publish // as they are, in the order of listeners
	uid       int       // whose processes may come in, beside root's

	owners  gate.SocketOwners
	slots   chan struct{} // a slot for each connection
	dials   chan struct{} // and for each that pid 1 hasn't made
	foreign atomic.Int64

	all    sync.WaitGroup
	mu     sync.Mutex
	closed bool
	open   map[closer]bool
}

// closer is what ends with the run.
type closer interface{ Close() error }

// CheckPublish reports what keeps ports from being published, before anything is
// started: a port that another program has, or one that is only root's.
func CheckPublish(list []Publish) error {
	p, err := listen(list, 0)
	if err == nil {
		p.close()
	}
	return err
}

// listen takes the host's ports. The error is a *Failure.
func listen(list []Publish, uid int) (*published, error) {
	p := &published{
		uid: uid, slots: make(chan struct{}, maxPublished), dials: make(chan struct{}, maxDials), open: map[closer]bool{},
	}
	for _, want := range list {
		ln, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: int(want.Host)})
		if err != nil {
			p.close()
			return nil, portFailure(want, err)
		}
		p.listeners = append(p.listeners, ln)
		p.ports = append(p.ports, Publish{Host: ln.Addr().(*net.TCPAddr).AddrPort().Port(), Port: want.Port})
	}
	return p, nil
}

// portFailure says why a port of the host's can't be had.
func portFailure(want Publish, err error) *Failure {
	const statusUsage = 2
	f := &Failure{Status: statusUsage, Err: fmt.Errorf("--publish %d: %w", want.Host, err)}
	switch {
	case errors.Is(err, unix.EADDRINUSE):
		f.Err = fmt.Errorf("--publish %d: another program has 127.0.0.1:%d", want.Host, want.Host)
		f.Hint = fmt.Sprintf("take another port: -p %d:%d, or any that is free: -p 0:%d\nwho has it: ss -ltnp sport = :%d", other(want.Host), want.Port, want.Port, want.Host)
	case errors.Is(err, unix.EACCES):
		f.Err = fmt.Errorf("--publish %d: it is root's", want.Host)
		f.Hint = fmt.Sprintf("take one from 1024 on: -p %d:%d", other(want.Host), want.Port)
	}
	return f
}

// other is a port near the one that can't be had, for a hint.
func other(port uint16) uint16 {
	switch {
	case port < 1024:
		return port + 8000
	case port == 1<<16-1:
		return port - 1
	}
	return port + 1
}

// Published are the ports of the host that lead in, with the number that a port
// of 0 got.
func (s *Session) Published() []Publish {
	if s.ports == nil {
		return nil
	}
	return s.ports.ports
}

// serve lets clients in until close. dial connects to a port in the sandbox.
func (p *published) serve(dial func(*published, uint16) (*net.TCPConn, error)) {
	for i, ln := range p.listeners {
		port := p.ports[i].Port
		p.all.Go(func() {
			for {
				client, err := ln.AcceptTCP()
				if errors.Is(err, net.ErrClosed) {
					return
				}
				if err != nil {
					time.Sleep(acceptPause)
					continue
				}
				select {
				case p.slots <- struct{}{}:
					p.all.Go(func() {
						defer func() { <-p.slots }()
						p.admit(client, func() (*net.TCPConn, error) { return dial(p, port) })
					})
				default:
					reset(client)
				}
			}
		})
	}
}

// admit joins a client with a server in the sandbox. Other users of the machine can
// reach the port too, and are sent away: what an agent serves is its user's alone.
// Root is not kept out, who may enter the sandbox anyway.
func (p *published) admit(client *net.TCPConn, dial func() (*net.TCPConn, error)) {
	if !p.track(client) {
		return
	}
	defer p.drop(client)
	if uid, err := p.owners.UID(client); err != nil || uid != p.uid && uid != 0 {
		if err == nil {
			p.foreign.Add(1)
		}
		reset(client)
		return
	}
	server, err := dial()
	if err != nil {
		reset(client) // as if nobody listened
		return
	}
	if !p.track(server) {
		return
	}
	defer p.drop(server)
	join(client, server)
}

// join passes bytes on, in each direction until its end.
func join(a, b *net.TCPConn) {
	var both sync.WaitGroup
	for _, c := range []struct{ to, from *net.TCPConn }{{a, b}, {b, a}} {
		both.Go(func() {
			if _, err := c.to.ReadFrom(c.from); err != nil { // splices
				reset(a)
				reset(b)
				return
			}
			_ = c.to.CloseWrite() // an error means that it is gone
		})
	}
	both.Wait()
}

// reset closes a connection so that the other end takes it for broken off, and not
// for an answer that ended.
func reset(c *net.TCPConn) {
	_ = c.SetLinger(0) // closed already
	c.Close()
}

// track notes what close has to close; it closes c when that has been.
func (p *published) track(c closer) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		c.Close()
		return false
	}
	p.open[c] = true
	return true
}

func (p *published) drop(c closer) {
	c.Close()
	p.mu.Lock()
	delete(p.open, c)
	p.mu.Unlock()
}

// close lets go of the ports and cuts what goes through them.
func (p *published) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	p.closed = true
	for c := range p.open {
		c.Close()
	}
	p.mu.Unlock()
	for _, ln := range p.listeners {
		ln.Close()
	}
	p.all.Wait()
}

// String is how a port is shown: 8080->3000.
func (p Publish) String() string {
	return strconv.Itoa(int(p.Host)) + "->" + strconv.Itoa(int(p.Port))
}
