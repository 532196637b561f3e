package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/direct"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// NoGate is how a sandbox without a gate (NetNoGate) is kept up to date.
type NoGate struct {
	DNS     bool          // leave podman's DNS forwarder open
	Refresh time.Duration // between look-ups, which the resolver's cache may answer; 0 is DefaultRefresh
	Linger  time.Duration // that an address stays open after its name has lost it; 0 is DefaultLinger
	Wait    time.Duration // for look-ups at the start; 0 is DefaultWait
}

// Times of a sandbox without a gate.
const (
	DefaultRefresh = 20 * time.Second
	// DefaultLinger is how long a connection may be silent through a gate at least:
	// models think.
	DefaultLinger = 30 * time.Minute
	// DefaultWait is enough for a name server that answers, and for the second try with
	// one that doesn't. What has no answer by then is opened when it has one.
	DefaultWait = 10 * time.Second
)

// Files beside the log of a run without a gate, which the container mounts.
const (
	hostsName  = "hosts"
	resolvName = "resolv.conf"
)

// directSide is the host's side of a sandbox without a gate: it looks the names up,
// and for the proof it is what can be reached.
type directSide struct {
	finder   *direct.Finder
	book     *direct.Book
	hosts    *direct.HostsFile
	log      *gate.Log
	file     *os.File           // of log
	controls []*net.TCPListener // answer during the proof, see openControl
	canaries []*net.TCPListener // nobody may come
	every    time.Duration
	found    chan []direct.Answer
	stop     context.CancelFunc // of the look-ups
	changes  []direct.Change    // that are not in force yet
	problems []string           // of names, each once, as it came up
	told     map[string]bool    // the same
	trouble  chan string        // the same while the sandbox runs
}

// openDirect looks the names up and makes what the container needs of that. With
// another mode it does nothing.
func (s *Session) openDirect(ctx context.Context, at *endpoints) error {
	if s.spec.Net != NetNoGate {
		return nil
	}
	times := hurried(s.spec.NoGate)
	d := &directSide{every: cmp.Or(times.Refresh, DefaultRefresh), found: make(chan []direct.Answer), stop: func() {}}
	s.direct = d
	var err error
	if d.file, err = os.OpenFile(s.dirs.LogPath(), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("open the run's log: %w", err)
	}
	d.log = gate.NewLog(d.file, s.spec.Name)
	if d.finder, err = s.finder(); err != nil {
		return err
	}
	// One place is the control's.
	d.book = direct.NewBook(cmp.Or(times.Linger, DefaultLinger), netpolicy.MaxPeers-1)
	first, cancel := context.WithTimeout(ctx, cmp.Or(times.Wait, DefaultWait))
	defer cancel()
	d.note(d.book.Take(d.finder.Find(first), time.Now()))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err := s.mountDirect(at); err != nil {
		return err
	}
	return d.openControl(at)
}

func (s *Session) warn(text string) {
	if s.on.Warn != nil {
		s.on.Warn(text)
	}
}

// finder is made of the gate's rules.
func (s *Session) finder() (*direct.Finder, error) {
	rules, _, err := policy.Parse(s.spec.Gate.Allow, s.spec.Gate.Deny, policy.Options{AllowAllNames: s.spec.Gate.AllowAllNames})
	if err != nil {
		return nil, err
	}
	var servers []resolve.Server
	if s.spec.Gate.Resolver != "" {
		server, err := resolve.ParseServer(s.spec.Gate.Resolver)
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	return direct.NewFinder(direct.Config{
		Policy: rules, Resolver: resolve.New(resolve.Config{Servers: servers}), Service: HostLoopback,
		Mapped: []netip.Addr{HostLoopback, HostLoopback6, DNSForward},
	})
}

// mountDirect writes the files that the container mounts. They lie beside the log, as
// nobody would remove them elsewhere after a SIGKILL of this process.
func (s *Session) mountDirect(at *endpoints) error {
	d := s.direct
	if len(d.book.Peers()) == 0 {
		return &Failure{Status: podman.StatusPodman, Err: fmt.Errorf("no name of the allowlist has an address to open: %s", strings.Join(d.problems[:min(3, len(d.problems))], "; ")),
			Hint: "aisb check HOST says what the name leads to; --resolver IP asks another name server"}
	}
	for _, p := range d.problems {
		s.warn(p)
	}
	d.problems, d.told, d.trouble = nil, nil, make(chan string, 16) // these are told
	at.hosts, at.peers = filepath.Join(s.dirs.State, hostsName), d.book.Peers()
	known, err := os.ReadFile(s.host.Conf.Hosts())
	if err != nil {
		return fmt.Errorf("make hosts file: %w", err)
	}
	if d.hosts, err = direct.CreateHosts(at.hosts, string(known)); err != nil {
		return err
	}
	if err := d.hosts.Set(d.book.Lines()); err != nil || !s.spec.NoGate.DNS {
		return err
	}
	at.resolv = filepath.Join(s.dirs.State, resolvName)
	text := "# made by aisb: podman's forwarder to the host's resolver (--no-gate=dns)\nnameserver " + DNSForward.String() + "\n"
	err = os.WriteFile(at.resolv, []byte(text), 0o644)
	if err = errors.Join(err, os.Chmod(at.resolv, 0o644)); err != nil {
		return fmt.Errorf("make resolv.conf: %w", err)
	}
	return nil
}

// proved ends what was there for the proof alone, and begins to look names up again.
func (d *directSide) proved() {
	if d == nil {
		return
	}
	for _, l := range d.controls {
		l.Close() // nobody can reach it any more
	}
	var ctx context.Context
	ctx, d.stop = context.WithCancel(context.Background())
	go func() {
		tick := time.NewTicker(d.every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			select {
			case d.found <- d.finder.Find(ctx):
			case <-ctx.Done():
				return
			}
		}
	}()
}

// answers is nil, and so never ready, with a gate.
func (d *directSide) answers() <-chan []direct.Answer {
	if d == nil {
		return nil
	}
	return d.found
}

// reopen lets the sandbox reach what its names have come to mean. The ruleset comes
// before the hosts file, so that no name leads to an address that is shut.
func (s *Session) reopen(answers []direct.Answer) *Failure {
	d := s.direct
	d.changes = append(d.changes, d.book.Take(answers, time.Now())...)
	d.changes = append(d.changes, d.book.Drop(d.finder.Refuses)...)
	if err := s.dog.update(s.policy.WithPeers(d.book.Peers())); err != nil {
		if errors.Is(err, nft.ErrRaced) {
			return s.dog.look() // and the next look-up tries again
		}
		return fenceFailure(err)
	}
	d.note(d.changes)
	d.changes = nil
	if err := d.hosts.Set(d.book.Lines()); err != nil {
		return &Failure{Status: podman.StatusPodman, Err: fmt.Errorf("the sandbox was stopped: its names can't be kept up to date: %w", err)}
	}
	return nil
}

// note writes changes to the log.
func (d *directSide) note(changes []direct.Change) {
	for _, c := range changes {
		r := gate.Record{
			Event: gate.EventOpen, Host: c.Target.Name(), Port: c.Target.Port, Reason: c.Reason, Rule: c.Rule, Addr: c.Peer,
		}
		switch {
		case c.Open:
		case c.Peer.IsValid():
			r.Event = gate.EventShut
		case c.Reason == policy.NXDomain, c.Reason == policy.DNSFailure, c.Reason == policy.Limit:
			r.Event = gate.EventError
			d.complain(c)
		default:
			r.Event = gate.EventDeny
			d.complain(c)
		}
		if !d.log.Write(r) {
			d.say("the run's log can't be written: not all that is opened and shut is in it")
		}
	}
}

// complain tells of a target without an answer.
func (d *directSide) complain(c direct.Change) { d.say(c.Problem()) }

// say tells of a problem, once, if anyone listens.
func (d *directSide) say(text string) {
	if d.told[text] {
		return // a name may come and go all day
	}
	if d.told == nil {
		d.told = map[string]bool{}
	}
	d.told[text] = true
	d.problems = append(d.problems, text)
	select {
	case d.trouble <- text:
	default: // the receipt has them all
	}
}

// Trouble tells, while the command runs, what a gate warns of. Without one, it is of names
// that can't be looked up any more, or lead elsewhere than they may: what was open before
// stays so for a while. It is nil, and so never ready, where there is neither.
func (s *Session) Trouble() <-chan string {
	switch {
	case s.direct != nil:
		return s.direct.trouble
	case s.net != nil:
		return s.net.process.Warnings()
	}
	return nil
}

// close ends it, and returns what the receipt tells.
func (d *directSide) close() Opened {
	if d == nil {
		return Opened{}
	}
	d.stop()
	for _, l := range slices.Concat(d.controls, d.canaries) {
		l.Close()
	}
	if d.hosts != nil {
		d.hosts.Close()
	}
	var o Opened
	if d.book != nil {
		o = Opened{Names: d.book.Names(), Peers: len(d.book.Peers()), Problems: d.problems}
	}
	if d.log != nil {
		d.log.Write(gate.Record{Event: gate.EventExit, Reason: policy.Shutdown})
	}
	d.file.Close() // nil if it could not be opened: an error then, no more
	return o
}

// Opened is what a sandbox without a gate could reach at its end.
type Opened struct {
	Names, Peers int      // names and addresses of rules; addresses with ports
	Up, Down     uint64   // bytes of packets to and from them, headers included
	Problems     []string // of names, each once
}
