package control

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/aisb-dev/aisb/gate/fdmsg"
)

// Attach is how a client wants to be joined with a detached command.
type Attach struct {
	Wait       bool   `json:"wait,omitempty"` // only hear of its end
	Rows, Cols uint16 // of its terminal; 0: it has none
}

// AttachControl is what a client that is attached says.
type AttachControl struct {
	Signal     int    `json:"signal,omitempty"`
	Rows, Cols uint16 // its terminal's new size; 0: the same
}

// AttachEnd is the last that it hears.
type AttachEnd struct {
	GoesOn string   `json:"goes_on,omitempty"` // why only this client's part ends; the rest is empty then
	Status int      `json:"status"`
	Words  []string `json:"words,omitempty"` // what aisb has said since the command began
}

// ErrGoesOn means that only the client's part has ended: AttachEnd tells why.
var ErrGoesOn = errors.New("the command goes on")

// Attached is a client's side of a detached command.
type Attached struct {
	PTY, Stdout, Stderr *os.File // streams: both ways, or output alone; nil if it only waits

	conn   *fdmsg.Conn
	once   sync.Once
	left   chan struct{}
	ended  chan struct{} // closed when the two below are known
	end    AttachEnd
	endErr error
}

// Attach joins this client with the sandbox's first command.
func (c *Client) Attach(a Attach) (*Attached, error) {
	_, m, err := c.ask(Request{Op: OpAttach, Attach: &a}, Patience)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	x := &Attached{left: make(chan struct{}), ended: make(chan struct{})}
	var streams []**os.File
	switch n := len(m.Files); {
	case a.Wait && n == 1:
	case !a.Wait && n == 2:
		streams = []**os.File{&x.PTY}
	case !a.Wait && n == 3:
		streams = []**os.File{&x.Stdout, &x.Stderr}
	default:
		return nil, fmt.Errorf("the sandbox has sent %d descriptors", n)
	}
	for i, to := range streams {
		if *to, err = pollable(m.Files[1+i]); err != nil {
			x.closeStreams()
			return nil, err
		}
	}
	if x.conn, err = fdmsg.FromFile(m.Files[0]); err != nil {
		x.closeStreams()
		return nil, err
	}
	go x.hear()
	return x, nil
}

func (x *Attached) closeStreams() {
	for _, f := range []*os.File{x.PTY, x.Stdout, x.Stderr} {
		if f != nil {
			f.Close()
		}
	}
}

// hear waits for the end.
func (x *Attached) hear() {
	defer close(x.ended)
	m, err := x.conn.Recv(&x.end)
	m.Close()
	switch {
	case errors.Is(err, io.EOF):
		x.endErr = ErrSandboxEnded // without a word: its aisb was killed
	case err != nil:
		x.endErr = err
	case x.end.GoesOn != "":
		x.endErr = ErrGoesOn
	case x.end.Status < 0 || x.end.Status > 255:
		x.endErr = fmt.Errorf("the sandbox says that the status is %d", x.end.Status)
	}
}

// Signal sends a signal to the command. It never waits.
func (x *Attached) Signal(sig syscall.Signal) error {
	return x.conn.SendNow(AttachControl{Signal: int(sig)})
}

// Resize tells the command of the terminal's new size.
func (x *Attached) Resize(rows, cols uint16) error {
	return x.conn.SendNow(AttachControl{Rows: rows, Cols: cols})
}

// Leave ends this client's part. The command goes on.
func (x *Attached) Leave() {
	x.once.Do(func() {
		close(x.left)
		x.conn.Close()
		x.closeStreams()
	})
}

// Left is closed once Leave was called.
func (x *Attached) Left() <-chan struct{} { return x.left }

// Wait waits for the command's end, and tells how it was.
func (x *Attached) Wait() (AttachEnd, error) {
	<-x.ended
	return x.end, x.endErr
}
