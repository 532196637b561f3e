package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
)

// How long a sandbox may take for an answer that costs it nothing.
const (
	Patience = 10 * time.Second // a machine that is very busy draws it out
	Glance   = time.Second      // for who wants to see what there is, at once

	stoppedAfter = time.Second // whoever hasn't answered by then may have been stopped: that one never will
)

// ErrDead means that a run's aisb is gone, and the sandbox with it.
var ErrDead = errors.New("its aisb is gone")

// StoppedError means that a run's aisb stands still, by SIGSTOP or ^Z.
type StoppedError struct{ PID int }

func (*StoppedError) Error() string { return "the sandbox's aisb is stopped" }

// Client is a connection to a sandbox, good for one request.
type Client struct {
	conn *fdmsg.Conn
	pid  int
}

// Dial connects to the run of a name. runtime is where runs have their
// directories.
func Dial(runtime, name string) (*Client, error) {
	path, done, err := socketPath(filepath.Join(runtime, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrDead
	}
	if err != nil {
		return nil, err
	}
	defer done()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, fs.ErrNotExist) {
		return nil, ErrDead
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the sandbox's aisb: %w", err)
	}
	pid, err := peer(c)
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("connect to the sandbox's aisb: %w", err)
	}
	conn, err := fdmsg.FromConn(c)
	if err != nil {
		c.Close()
		return nil, err
	}
	return &Client{conn: conn, pid: pid}, nil
}

// Close ends the connection.
func (c *Client) Close() error { return c.conn.Close() }

// PID is the process that listens: the sandbox's aisb.
func (c *Client) PID() int { return c.pid }

// ask sends a request and returns the answer and what came along.
func (c *Client) ask(r Request, limit time.Duration) (Answer, fdmsg.Message, error) {
	r.Protocol = Protocol
	err := c.conn.SetDeadline(time.Now().Add(limit))
	waited := c.unlessStopped()
	if err == nil {
		err = c.conn.Send(r)
	}
	var m fdmsg.Message
	var text json.RawMessage
	if err == nil {
		m, err = c.conn.Recv(&text)
	}
	waited()
	var a Answer
	switch {
	case errors.Is(err, io.EOF):
		err = errors.New("the sandbox's aisb has closed the connection") // it ends, or is too busy
	case errors.Is(err, os.ErrDeadlineExceeded) && stopped(c.pid):
		err = &StoppedError{c.pid}
	case errors.Is(err, os.ErrDeadlineExceeded):
		err = fmt.Errorf("the sandbox's aisb hasn't answered within %v", limit)
	case err == nil:
		if a, err = parseAnswer(r.Op, text); err != nil {
			m.Close()
			m.Files = nil
		}
	}
	return a, m, err
}

// unlessStopped ends the wait for a process that has been stopped. What it returns is to
// be called when the wait is over.
func (c *Client) unlessStopped() (over func()) {
	looked := make(chan struct{})
	timer := time.AfterFunc(stoppedAfter, func() {
		defer close(looked)
		if stopped(c.pid) {
			_ = c.conn.SetDeadline(time.Unix(1, 0)) // an error means that the wait is over
		}
	})
	return func() {
		if !timer.Stop() {
			<-looked
		}
	}
}

// Info asks what the sandbox is.
func (c *Client) Info() (Info, error) { return c.info(Patience) }

func (c *Client) info(patience time.Duration) (Info, error) {
	a, m, err := c.ask(Request{Op: OpInfo}, patience)
	m.Close()
	if err == nil && a.Info == nil {
		err = errors.New("the sandbox's aisb has given no answer")
	}
	if err != nil {
		return Info{}, err
	}
	return *a.Info, nil
}

// ErrNotEnded means that a sandbox goes on although it should have ended.
var ErrNotEnded = errors.New("it has not ended in time")

// Stop ends the sandbox: its command gets SIGTERM, and is killed when it takes
// longer than grace. It returns when the sandbox is gone, or with ErrNotEnded
// when that takes longer than limit beside.
func (c *Client) Stop(grace, limit time.Duration) error {
	_, m, err := c.ask(Request{Op: OpStop, Grace: grace}, Patience)
	m.Close()
	if err != nil {
		return err
	}
	if err := c.conn.SetDeadline(time.Now().Add(grace + limit)); err != nil {
		return err
	}
	var never Answer
	if _, err := c.conn.Recv(&never); errors.Is(err, os.ErrDeadlineExceeded) {
		return ErrNotEnded
	}
	return nil
}

// List asks every run below runtime what it is, all at once, in the order of
// their names. Those whose aisb doesn't answer in time have but name and state.
func List(runtime string, patience time.Duration) ([]Info, error) {
	names, err := sockets(runtime)
	if err != nil {
		return nil, err
	}
	list := make([]Info, len(names))
	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { list[i] = look(runtime, name, patience) })
	}
	all.Wait()
	return list, nil
}

// DeadOnes are the runs below runtime of which only the socket is left. It waits
// for nobody.
func DeadOnes(runtime string) ([]string, error) {
	names, err := sockets(runtime)
	return slices.DeleteFunc(names, func(name string) bool {
		c, err := Dial(runtime, name)
		if err == nil {
			c.Close()
		}
		return !errors.Is(err, ErrDead)
	}), err
}

// sockets are the names of all runs that have or had one, in their order.
func sockets(runtime string) ([]string, error) {
	paths, err := filepath.Glob(filepath.Join(escapeGlob(runtime), "*", SocketName))
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(filepath.Dir(path))
	}
	slices.Sort(names)
	return names, err
}

// escapeGlob makes a pattern that means dir alone.
func escapeGlob(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

func look(runtime, name string, patience time.Duration) Info {
	c, err := Dial(runtime, name)
	if errors.Is(err, ErrDead) {
		return Info{Name: name, State: Dead}
	}
	if err != nil {
		return Info{Name: name, State: Silent}
	}
	defer c.Close()
	info, err := c.info(patience)
	if err != nil {
		_, isStopped := errors.AsType[*StoppedError](err)
		return Info{Name: name, State: Silent, PID: c.pid, Stopped: isStopped}
	}
	// The directory's name is the one to connect by, whatever the answer says.
	info.Name = name
	return info
}

// Match returns which of the runs a user means by pattern: the one of that very
// name, or else those whose name begins with it, with or without the "aisb-" that
// names begin with in both cases.
func Match(runs []Info, pattern string) []Info {
	var some []Info
	for _, r := range runs {
		if r.Name == pattern || r.Name == "aisb-"+pattern {
			return []Info{r}
		}
		if strings.HasPrefix(r.Name, pattern) || strings.HasPrefix(r.Name, "aisb-"+pattern) {
			some = append(some, r)
		}
	}
	return some
}
