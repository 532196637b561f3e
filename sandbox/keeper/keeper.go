package keeper

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/terminal"
)

// Streams are what a command reads and writes: its terminal, or two pipes.
type Streams struct {
	PTY            *os.File // master
	Stdout, Stderr *os.File // without a terminal
}

// Bounds of a client.
const (
	lastWords = 2 * time.Second // for a client to read the rest, when the command has ended
	endLimit  = 2 * time.Second // for it to hear of that
	maxHeard  = 64              // clients that wait for the end
)

// Keeper holds the streams of one command. Its methods are safe for concurrent use.
type Keeper struct {
	pty     *os.File
	signal  func(syscall.Signal) error
	ended   <-chan struct{}
	output  *Output
	setup   *terminal.Setup // nil without a terminal; of mu
	copies  sync.WaitGroup
	drained chan struct{} // closed when all that was written is read

	mu     sync.Mutex
	looks  *client          // who is attached, if anybody
	waits  map[*client]bool // who wants to hear of the end alone
	closed bool
}

// Keep begins to read. ended is closed when the command has ended: from then on no
// client may hold its last output up. The keeper closes the streams.
func Keep(s Streams, output *Output, signal func(syscall.Signal) error, ended <-chan struct{}) (*Keeper, error) {
	k := &Keeper{signal: signal, ended: ended, output: output, drained: make(chan struct{}), waits: map[*client]bool{}}
	files := []*os.File{s.Stdout, s.Stderr}
	if s.PTY != nil {
		files = []*os.File{s.PTY}
	}
	var sources []*os.File
	for _, f := range files {
		src, err := pollable(f)
		if err != nil {
			closeAll(sources)
			return nil, err
		}
		sources = append(sources, src)
	}
	if s.PTY != nil {
		k.pty, k.setup = sources[0], terminal.NewSetup()
	}
	for i, src := range sources {
		k.copies.Go(func() { k.copy(src, i) })
	}
	go func() {
		k.copies.Wait()
		close(k.drained)
	}()
	go func() {
		select {
		case <-ended:
			k.hurry()
		case <-k.drained:
		}
	}()
	return k, nil
}

// pollable takes a descriptor over so that closing it ends whoever reads from it or
// writes to it.
func pollable(f *os.File) (*os.File, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("keep the command's stream: %w", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("keep the command's stream: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// copy reads one source to its end. Who is attached and doesn't read holds the
// command up, as a terminal does, until that ends.
func (k *Keeper) copy(src *os.File, which int) {
	defer src.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := src.Read(buf) // a terminal's ends with EIO
		if n > 0 {
			_, _ = k.output.Write(buf[:n]) // never fails
			k.show(which, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

// show passes output on to who is attached.
func (k *Keeper) show(which int, p []byte) {
	k.mu.Lock()
	if k.setup != nil {
		_, _ = k.setup.Write(p) // never fails
	}
	c := k.looks
	k.mu.Unlock()
	if c == nil {
		return
	}
	if _, err := c.streams[which].Write(p); err != nil {
		k.cutOff(c)
	}
}

// cutOff shows a client no more: it is gone, or doesn't read. How a command ended that
// has done so by now it hears all the same.
func (k *Keeper) cutOff(c *client) {
	select {
	case <-k.ended:
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.looks == c && !k.closed {
			k.looks, k.waits[c] = nil, true
		}
	default:
		_ = c.conn.SendNow(unread) // an error means that it is gone
		k.leave(c)
	}
}

// hurry gives who is attached a moment for the rest.
func (k *Keeper) hurry() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.looks != nil {
		for _, s := range k.looks.streams {
			_ = s.SetWriteDeadline(time.Now().Add(lastWords)) // an error means that it is gone
		}
	}
}

// Drained is closed when all that the command has written is read.
func (k *Keeper) Drained() <-chan struct{} { return k.drained }

// redrawPause is how long a terminal has another size than the client's: a program
// that looks at it at each signal must find both.
const redrawPause = 100 * time.Millisecond

// redraw gives the terminal the size of a client's that has come, and so makes the
// command paint anew. The kernel tells it only of a size that differs from the last
// (tty_do_resize in its tty_io.c), and some programs compare too, so that one that is
// the same already is another for a moment.
func (k *Keeper) redraw(c *client, rows, cols uint16) {
	if k.pty == nil || rows == 0 || cols == 0 {
		return
	}
	if old, ok := k.size(); ok && old.Row == rows && old.Col == cols {
		k.resize(c, rows+1, cols)
		select {
		case <-time.After(redrawPause):
		case <-k.drained:
		}
	}
	k.resize(c, rows, cols)
}

// resize does what the client that is attached wants, and no other.
func (k *Keeper) resize(c *client, rows, cols uint16) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pty == nil || k.looks != c {
		return
	}
	if raw, err := k.pty.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
		})
	}
}

func (k *Keeper) size() (size *unix.Winsize, ok bool) {
	raw, err := k.pty.SyscallConn()
	if err != nil {
		return nil, false
	}
	cerr := raw.Control(func(fd uintptr) { size, err = unix.IoctlGetWinsize(int(fd), unix.TIOCGWINSZ) })
	return size, err == nil && cerr == nil
}

// End tells all clients how the command has ended, and lets them go.
func (k *Keeper) End(e control.AttachEnd) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	if k.looks != nil {
		k.waits[k.looks] = true
	}
	for c := range k.waits {
		if c.conn.SetWriteDeadline(time.Now().Add(endLimit)) == nil {
			_ = c.conn.Send(e) // an error means that it is gone
		}
		c.close()
	}
	k.looks, k.waits = nil, nil
}
