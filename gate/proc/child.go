package proc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/confine"
	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
)

// Times of the gate's process.
const (
	configTimeout = 10 * time.Second
	drainTime     = 300 * time.Millisecond // the sandbox is gone when stop comes
	lastTime      = 3 * time.Second        // from the lifeline's end to that of the process
)

// child is the gate's side.
type child struct {
	conn     *fdmsg.Conn
	runDir   string
	gate     *gate.Gate
	log      *gate.Log
	confined string
	witness  *asker // nil if enclosed
	canary   atomic.Int64
	enclosed bool // and serves nobody yet
	served   chan error
}

// Main is the main function of a gate's process. It returns the exit status.
func Main() int {
	gate.CollectLess()
	if err := confine.NoCore(); err != nil {
		fmt.Fprintf(os.Stderr, "aisb-gate: error: prevent core files: %v\n", err)
		return 1
	}
	if err := confine.CloseInherited(fd); err != nil {
		fmt.Fprintf(os.Stderr, "aisb-gate: error: %v\n", err)
		return 1
	}
	conn, err := fdmsg.FromFile(os.NewFile(fd, "parent"))
	if err != nil {
		fmt.Fprintf(os.Stderr, "aisb-gate: error: this process is started by aisb, not by hand: %v\n", err)
		return 2
	}
	c := &child{conn: conn, served: make(chan error, 2)} // of IPv4 and of IPv6
	if err := c.configure(); err != nil {
		_ = conn.Send(message{Kind: kindFailed, Error: err.Error()})
		return 1
	}
	if err := conn.Send(message{Kind: kindReady}); err != nil {
		c.lifeline()
		return 1
	}
	return c.obey()
}

// configure takes the first message and begins to serve.
func (c *child) configure() error {
	c.conn.SetReadDeadline(time.Now().Add(configTimeout))
	var m message
	received, err := c.conn.Recv(&m)
	if err != nil {
		return fmt.Errorf("receive configuration: %w", err)
	}
	defer func() { received.Close() }()
	c.conn.SetReadDeadline(time.Time{})
	files := received.Files
	cfg := m.Config
	if m.Kind != kindConfig || cfg == nil || !whole(len(files), cfg.Enclosed) {
		return errors.New("receive configuration: it is not whole")
	}
	c.runDir, c.enclosed = cfg.RunDir, cfg.Enclosed
	received.Files = files[1:] // the log stays open
	c.log = gate.NewLog(files[0], cfg.Run)
	c.log.OnFailure(func(err error) {
		if at, ok := errors.AsType[*fs.PathError](err); ok {
			err = at.Err // the file came without a name
		}
		fmt.Fprintf(os.Stderr, "%sthe run's log can't be written, and nothing new is let through until it can: %v\n", warning, err)
	})
	if !cfg.Enclosed {
		conn, err := fdmsg.FromFile(files[1])
		if err != nil {
			return err
		}
		c.witness = &asker{conn: conn}
	}
	if err := c.build(cfg); err != nil || cfg.Enclosed {
		return err
	}
	for pair := range slices.Chunk(files[2:], 2) {
		canary, err := net.FileListener(pair[1])
		if err != nil {
			return fmt.Errorf("use the canary listener: %w", err)
		}
		go c.watchCanary(canary)
		if err := c.serve(pair[0]); err != nil {
			return err
		}
	}
	return nil
}

// whole reports whether that many files can come with a configuration.
func whole(files int, enclosed bool) bool {
	if enclosed {
		return files == 1
	}
	return files == 4 || files == 6
}

// serve begins to serve.
func (c *child) serve(listener *os.File) error {
	ln, err := net.FileListener(listener)
	if err != nil {
		return fmt.Errorf("use the listener: %w", err)
	}
	c.log.Listening(ln.Addr().(*net.TCPAddr).AddrPort(), c.confined)
	go func() { c.served <- c.gate.Serve(ln) }()
	return nil
}

// build makes the gate and locks this process up, which has read nothing by then
// but what its parent says.
func (c *child) build(cfg *Config) error {
	p, _, err := policy.Parse(cfg.Allow, cfg.Deny, policy.Options{AllowAllNames: cfg.AllowAllNames})
	if err != nil {
		return err
	}
	var servers []resolve.Server
	if cfg.Resolver != "" {
		s, err := resolve.ParseServer(cfg.Resolver)
		if err != nil {
			return err
		}
		servers = append(servers, s)
	}
	command := cfg.Command
	if command == "" {
		command = "aisb run"
	}
	clients := gate.Clients{UID: os.Getuid(), Enclosed: cfg.Enclosed}
	if c.witness != nil {
		clients.Holds = c.witness.holds
	}
	c.gate, err = gate.New(gate.Config{
		Policy: p, Resolver: resolve.New(resolve.Config{Servers: servers}), Log: c.log,
		Clients: clients, Key: cfg.Key, Command: command,
	})
	if err != nil {
		return err
	}
	return c.confine(servers)
}

// confine locks this process up. The run's directory has to be there for that.
func (c *child) confine(servers []resolve.Server) error {
	needs := confine.Needs{Scratch: c.runDir}
	needs.Files, needs.Dirs, needs.Roots = resolve.Reads(servers)
	if c.runDir != "" {
		if err := os.MkdirAll(c.runDir, 0o700); err != nil {
			return fmt.Errorf("make the run's directory: %w", err)
		}
	}
	state, err := confine.Apply(needs)
	if err != nil {
		return fmt.Errorf("lock the gate's process up: %w", err)
	}
	c.confined = state.String()
	return nil
}

// watchCanary counts who comes to a port of the host's loopback that only a
// leak in the fence can reach. Whoever may use the gate is the sandbox; other
// processes of the host that scan ports don't count.
func (c *child) watchCanary(ln net.Listener) {
	for {
		conn, err := ln.Accept()
		if err != nil {
			return
		}
		if reason, err := c.gate.CheckClient(conn); reason == "" && err == nil {
			c.canary.Add(1)
			c.log.Write(gate.Record{Event: gate.EventForeign, Reason: policy.ForeignClient, Addr: local(conn)})
		}
		conn.Close()
	}
}

func local(conn net.Conn) netip.AddrPort {
	a, _ := conn.LocalAddr().(*net.TCPAddr)
	return a.AddrPort()
}

// obey serves the parent's requests until stop or the end of the lifeline.
func (c *child) obey() int {
	requests := make(chan request)
	go c.receive(requests)
	for {
		select {
		case err := <-c.served:
			// The listener is broken, which is nobody's wish.
			c.exit(policy.Limit)
			fmt.Fprintf(os.Stderr, "aisb-gate: error: serve: %v\n", err)
			return 1
		case r, ok := <-requests:
			if !ok {
				c.lifeline()
				return 0
			}
			reply, last := c.answer(r)
			r.files.Close()
			if err := c.conn.Send(reply); err != nil {
				c.lifeline()
				return 1
			}
			if last {
				return 0
			}
		}
	}
}

// request is a message of the parent with what came along.
type request struct {
	message
	files fdmsg.Message
}

// receive passes requests on. It closes the channel at the end of file, after which
// the process ends, whatever obey may wait for: nobody is left to kill it.
func (c *child) receive(requests chan<- request) {
	defer close(requests)
	defer func() {
		time.AfterFunc(lastTime, func() {
			_ = c.removeRunDir()
			os.Exit(1) //nolint:forbidigo // obey, which returns the status, is what doesn't end
		})
	}()
	for {
		var r request
		var err error
		if r.files, err = c.conn.Recv(&r.message); err != nil {
			r.files.Close()
			return
		}
		requests <- r
	}
}

// answer does what a request asks for. last says that it was the last.
func (c *child) answer(m request) (reply message, last bool) {
	switch m.Kind {
	case kindListener:
		if err := c.serveEnclosed(m.files.Files); err != nil {
			return message{Kind: kindFailed, Error: err.Error()}, false
		}
		return message{Kind: kindDone}, false
	case kindStop:
		ctx, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		c.gate.Drain(ctx)
		c.exit(policy.Shutdown)
		report := c.gate.Report()
		report.Canary = int(c.canary.Load())
		return message{Kind: kindReport, Report: &report}, true
	}
	return message{Kind: kindFailed, Error: fmt.Sprintf("unknown request %q", m.Kind)}, false
}

func (c *child) exit(reason policy.Reason) {
	c.log.Write(gate.Record{Event: gate.EventExit, Reason: reason})
}
