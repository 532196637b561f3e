package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/control"
)

// client is one that is attached, or waits.
type client struct {
	conn    *fdmsg.Conn
	streams []stream // of a terminal one for both ways; else stdout, stderr
	once    sync.Once
}

// stream is a side of a socket pair or of a pipe.
type stream interface {
	io.ReadWriteCloser
	SetWriteDeadline(t time.Time) error
}

// Why a client's part ends while the command goes on.
var (
	taken  = control.AttachEnd{GoesOn: "another 'aisb attach' has taken its place"}
	unread = control.AttachEnd{GoesOn: "nobody reads its output here any more"}
)

// errEnded is said of a command that has ended.
var errEnded = &control.Error{Text: "the command has ended", Hint: "'aisb wait' tells how, 'aisb output' what it wrote", Status: 125}

// Attach joins a client with the command, in the place of one that is attached
// already, or lets it wait for the end. The files are the client's: the socket that
// control.AttachControl and AttachEnd go over, then a stream for a terminal, or one
// each for stdout and stderr.
func (k *Keeper) Attach(_ context.Context, a control.Attach) ([]*os.File, error) {
	ours, theirs, err := fdmsg.Files()
	if err != nil {
		return nil, err
	}
	conn, err := fdmsg.FromFile(ours)
	if err != nil {
		theirs.Close()
		return nil, err
	}
	c, files := &client{conn: conn}, []*os.File{theirs}
	if !a.Wait {
		var more []*os.File
		more, err = c.open(k.pty != nil)
		files = append(files, more...)
	}
	if err == nil {
		err = k.enter(c, a.Wait)
	}
	if err != nil {
		closeAll(files)
		c.close()
		return nil, err
	}
	if k.pty != nil && !a.Wait {
		go func() {
			_, _ = io.Copy(k.pty, c.streams[0]) // ends when either side is closed
		}()
	}
	go func() {
		k.redraw(c, a.Rows, a.Cols)
		k.hear(c)
	}()
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}

// open makes the client's streams, and returns its sides of them.
func (c *client) open(tty bool) ([]*os.File, error) {
	if tty {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, fmt.Errorf("make a stream: %w", err)
		}
		c.streams = []stream{os.NewFile(uintptr(fds[0]), "attached")}
		return []*os.File{os.NewFile(uintptr(fds[1]), "attached")}, nil
	}
	var theirs []*os.File
	for range 2 {
		r, w, err := os.Pipe()
		if err != nil {
			return theirs, fmt.Errorf("make a stream: %w", err)
		}
		c.streams, theirs = append(c.streams, w), append(theirs, r)
	}
	return theirs, nil
}

func (c *client) close() {
	c.once.Do(func() {
		for _, s := range c.streams {
			s.Close()
		}
		c.conn.Close()
	})
}

// enter lets a client in. One that comes when the command has ended could hold its
// last output up.
func (k *Keeper) enter(c *client, wait bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	over := k.closed
	if !wait {
		select {
		case <-k.ended:
			over = true
		default:
		}
	}
	switch {
	case over:
		return errEnded
	case wait && len(k.waits) >= maxHeard:
		return errors.New("too many wait for the end already")
	case wait:
		k.waits[c] = true
		return nil
	}
	if old := k.looks; old != nil {
		_ = old.conn.SendNow(taken) // one that doesn't read it sees the end
		old.close()
	}
	k.looks = c
	if k.setup != nil {
		// Nobody else writes yet, and a new socket has room for it. An error shows soon.
		_, _ = c.streams[0].Write(k.setup.Again())
	}
	return nil
}

// leave lets a client go.
func (k *Keeper) leave(c *client) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looks == c {
		k.looks = nil
	}
	delete(k.waits, c)
	c.close()
}

// hear does what a client asks for until it goes.
func (k *Keeper) hear(c *client) {
	defer k.leave(c)
	for {
		var a control.AttachControl
		m, err := c.conn.Recv(&a)
		m.Close()
		if err != nil {
			return
		}
		if a.Signal != 0 {
			_ = k.signal(syscall.Signal(a.Signal)) // an error means that the command has ended
		}
		if a.Rows > 0 && a.Cols > 0 {
			k.resize(c, a.Rows, a.Cols)
		}
	}
}
