package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/metrics"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// service is the gate while it runs.
type service struct {
	u       *ui
	o       gateOptions
	gate    *gate.Gate
	log     *gate.Log
	out     *logOutput
	metrics *metrics.Metrics
	notify  notifier

	confined string // by what, as the log says it

	turn   sync.Mutex     // of a reload, or of the end
	rules  *policy.Policy // in force; changed in a turn
	ending atomic.Bool
}

// runGate is the list of steps from flags to the end of the gate.
func runGate(ctx context.Context, u *ui, o gateOptions) error {
	gate.CollectLess()
	notify := newNotifier()
	if err := o.confine.check(); err != nil {
		return err
	}
	servers, err := o.servers()
	if err != nil {
		return err
	}
	p, warnings, err := o.policy()
	if err != nil {
		return err
	}
	tokens, err := o.tokens()
	if err != nil {
		return err
	}
	upstream, err := o.upstreamProxy()
	if err != nil {
		return err
	}
	list, err := o.listeners()
	if err != nil {
		return err
	}
	clients, err := o.clients(addrsOf(list))
	if err != nil {
		return err
	}
	for _, addr := range addrsOf(list) {
		if upstream != nil && upstream.Addr == addr.String() {
			return usageError("aisb gate", fmt.Errorf("--upstream-proxy %q is this gate itself", o.upstream))
		}
	}
	m, serveMetrics, err := o.openMetrics(u)
	if err != nil {
		return err
	}
	warnRules(u, p, warnings)
	out := newLogOutput(u.Out)
	s := &service{u: u, o: o, log: gate.NewLog(out, ""), out: out, metrics: m, notify: notify, rules: p}
	if s.confined, err = o.lockUp(u, servers); err != nil {
		return err
	}
	defer serveMetrics()()
	s.gate, err = gate.New(gate.Config{
		Policy: p, Resolver: resolve.New(resolve.Config{Servers: servers}), Log: s.log,
		Clients: clients, Tokens: tokens, Command: "aisb gate", Metrics: m, Upstream: upstream,
	})
	if err != nil {
		return err
	}
	return s.serve(ctx, list)
}

// warnRules says what of the rules may not be meant.
func warnRules(u *ui, p *policy.Policy, warnings []policy.Warning) {
	for _, w := range warnings {
		u.warnf("%s", w)
	}
	if p.Len() == 0 {
		u.warnf("there is no rule: everything is refused")
		u.hintf("allow a host: --allow example.com")
	}
}

// serve serves until a signal ends it.
func (s *service) serve(ctx context.Context, list []*net.TCPListener) error {
	// Each has a channel: one full of reloads that wait would lose the end.
	reloads, ends := make(chan os.Signal, 1), make(chan os.Signal, 2)
	signal.Notify(reloads, syscall.SIGHUP)
	signal.Notify(ends, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(reloads)
	defer signal.Stop(ends)
	// A reload waits for files and for who reads the log. The end waits for no
	// reload.
	go func() {
		for range reloads {
			s.reload()
		}
	}()
	served := make(chan error, len(list))
	for _, ln := range list {
		go func() { served <- s.gate.Serve(ln) }()
	}
	for _, addr := range addrsOf(list) {
		s.log.Listening(addr, s.confined)
	}
	s.tell(s.notify.ready(s.status()))
	select {
	case err := <-served:
		return err
	case err := <-s.out.failed:
		return noLog(err)
	case <-ends:
		return s.stop(ctx, ends)
	}
}

// tell says that somebody could not be told.
func (s *service) tell(err error) {
	if err != nil {
		s.u.warnf("%v", err)
	}
}

// status is a line for the service manager.
func (s *service) status() string { return fmt.Sprintf("serving, %d allow rules", s.rules.Len()) }

// lastWords is how long the end of the log may take after all else has ended.
const lastWords = time.Second

// stop lets tunnels end until the time is over or another signal to end comes.
// SIGHUP is none: whoever rotates logs is in no hurry.
func (s *service) stop(ctx context.Context, ends <-chan os.Signal) error {
	s.ending.Store(true)
	ctx, cancel := context.WithTimeout(ctx, s.o.drain)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.turn.Lock()
		defer s.turn.Unlock()
		s.tell(s.notify.stopping())
		s.gate.Drain(ctx)
		s.log.Write(gate.Record{Event: gate.EventExit, Reason: policy.Shutdown})
	}()
	select {
	case <-done:
		return nil
	case <-ends:
		cancel()
	case <-ctx.Done():
	}
	select {
	case <-done:
		return nil
	case <-time.After(lastWords):
		return noLog(errors.New("nobody reads it"))
	}
}

// reload takes what is in the files now, if all of it is valid, and says what
// has changed.
func (s *service) reload() {
	s.turn.Lock()
	defer s.turn.Unlock()
	if s.ending.Load() {
		return
	}
	s.tell(s.notify.reloading())
	p, warnings, err := s.o.reread()
	var tokens *gate.Tokens
	if err == nil {
		tokens, err = s.o.tokens()
	}
	s.metrics.Reloaded(err == nil)
	if err != nil {
		s.u.warnf("not reloaded, the old rules stay: %v", err)
		s.moved(err)
		s.log.Write(gate.Record{Event: gate.EventError, Reason: policy.BadRequest})
		s.tell(s.notify.ready(s.status() + "; the last reload failed"))
		return
	}
	warnRules(s.u, p, warnings)
	changes := policy.Changes(s.rules, p)
	s.rules = p
	s.gate.SetTokens(tokens)
	cut := s.gate.SetPolicy(p)
	s.log.Write(gate.Record{Event: gate.EventReload, Reason: policy.PolicyChanged, Rule: strings.Join(changes, ", ")})
	s.sayChanges(changes, cut)
	s.tell(s.notify.ready(s.status()))
}

// maxChanges are named on stderr.
const maxChanges = 20

func (s *service) sayChanges(changes []string, cut int) {
	text := "no rule has changed"
	if n := len(changes); n > 0 {
		text = strings.Join(changes[:min(n, maxChanges)], ", ")
		if n > maxChanges {
			text += fmt.Sprintf(" and %d more", n-maxChanges)
		}
	}
	if cut > 0 {
		text += fmt.Sprintf("; cut %d tunnels and requests that are no longer allowed", cut)
	}
	s.u.notef("reloaded: %s", text)
}
