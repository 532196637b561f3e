//go:build linux

package attack

import (
	"context"
	"fmt"
	"net"
	"os"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/proc"
)

// Second is another gate of the same user, as another session would have one:
// it serves this process alone.
type Second struct {
	process          *proc.Process
	listener, canary *net.TCPListener
	log              *os.File
}

// StartSecond starts it from the binary exe, notes its port in the plan, and
// makes sure that it serves its owner: one that nobody can use shows nothing.
func (c *Canaries) StartSecond(ctx context.Context, exe string) (*Second, error) {
	s := &Second{}
	var err error
	loopback := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	if s.listener, err = net.ListenTCP("tcp4", loopback); err != nil {
		return nil, err
	}
	if s.canary, err = net.ListenTCP("tcp4", loopback); err != nil {
		s.close()
		return nil, err
	}
	if s.log, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
		s.close()
		return nil, err
	}
	cfg := proc.Config{Run: "aisb-attack-second", Command: "aisb doctor --attack", RunDir: c.Dir + "/second",
		Allow: []policy.Line{{Text: c.Plan.Allowed, Origin: "aisb doctor"}}, Key: make([]byte, 32)}
	s.process, err = proc.Start(ctx, exe, cfg, proc.Listeners{Gate: s.listener, Canary: s.canary, Log: s.log})
	if err != nil {
		s.close()
		return nil, fmt.Errorf("start a second gate: %w", err)
	}
	if err := s.process.Pasta(os.Getpid()); err != nil {
		s.Stop(ctx)
		return nil, fmt.Errorf("start a second gate: %w", err)
	}
	p := c.Plan
	p.Gate = s.listener.Addr().String()
	if a, err := gateAsk(ctx, p, get("http://"+p.Allowed+"/")); err != nil || a.status != 200 {
		s.Stop(ctx)
		return nil, fmt.Errorf("the second gate does not serve its owner: %v %v", a, err)
	}
	c.Plan.Second = s.listener.Addr().(*net.TCPAddr).Port
	return s, nil
}

// Stop ends it and judges what it saw: one client, its owner.
func (s *Second) Stop(ctx context.Context) Finding {
	var report gate.Report
	var err error
	if s.process != nil {
		report, err = s.process.Stop(ctx)
	}
	s.close()
	switch {
	case err != nil:
		return unknown("no report: %v", err)
	case report.Foreign > 0:
		return got("it turned %d clients away that the fence had let through", report.Foreign)
	case len(report.Hosts) != 1 || report.Hosts[0].Count != 1 || len(report.Refusals) > 0:
		return got("it served %+v, refused %+v", report.Hosts, report.Refusals)
	}
	return held("no client but its owner")
}

func (s *Second) close() {
	if s.listener != nil {
		s.listener.Close()
	}
	if s.canary != nil {
		s.canary.Close()
	}
	if s.log != nil {
		s.log.Close()
	}
}

// FromHost asks a session's gate, named as the sandbox knows it, from this
// process: it is the same user's and not the session's. mapped is the address
// in the sandbox that leads to the host's loopback.
func (c *Canaries) FromHost(ctx context.Context, gateAddr, mapped string) Finding {
	host, port, err := net.SplitHostPort(gateAddr)
	switch {
	case err != nil:
		return unknown("this session has no gate")
	case host != mapped:
		return held("it listens at %s in the sandbox alone", gateAddr)
	}
	p := c.Plan
	p.Gate = net.JoinHostPort("127.0.0.1", port)
	return refuses(gateAsk(ctx, p, get("http://"+p.Allowed+"/")))
}
