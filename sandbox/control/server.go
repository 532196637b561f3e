package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// SocketName is the socket in a run's directory.
const SocketName = "control"

// Bounds of a server.
const (
	maxClients     = 64 // at once
	requestTimeout = 5 * time.Second
	acceptPause    = 50 * time.Millisecond // after an error, such as no free descriptor
)

// Handler is what a sandbox can do for clients. Its functions are called
// concurrently.
type Handler struct {
	Info func() Info
	// Stop begins to end the sandbox. The client hears of the end by that of its
	// connection.
	Stop func(grace time.Duration)
	// Exec starts a command. Its files are the client's.
	Exec func(ctx context.Context, x handshake.Exec) ([]*os.File, error)
	// Attach joins a client with the first command. Its files are the client's.
	Attach func(ctx context.Context, a Attach) ([]*os.File, error)
}

// Server is the socket of one sandbox.
type Server struct {
	ln   *net.UnixListener
	once sync.Once
	done chan struct{} // closed by Close
	all  sync.WaitGroup
}

// Listen makes dir, for the user alone, unless the run's gate has, and a socket in it.
// Whoever comes before Serve waits.
func Listen(dir string) (*Server, error) {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return nil, fmt.Errorf("make the control socket's directory: %w", err)
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the control socket's directory: %w", err)
	}
	path, done, err := socketPath(dir)
	if err != nil {
		return nil, err
	}
	defer done()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	// The directory goes as a whole; the path means nothing by then.
	ln.SetUnlinkOnClose(false)
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, fmt.Errorf("open the control socket: %w", err)
	}
	return &Server{ln: ln, done: make(chan struct{})}, nil
}

// socketPath is a path to the socket in dir that is short, since no more than 107
// bytes fit into an address (unix(7)), and that nobody swaps on the way. It holds
// until done is called.
func socketPath(dir string) (path string, done func(), err error) {
	d, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return "", nil, fmt.Errorf("open the control socket's directory: %w", err)
	}
	return fmt.Sprintf("/proc/self/fd/%d/%s", d.Fd(), SocketName), func() { d.Close() }, nil
}

// Serve answers clients until Close. It returns at once.
func (s *Server) Serve(h Handler) {
	slots := make(chan struct{}, maxClients)
	ctx, cancel := context.WithCancel(context.Background())
	s.all.Go(func() {
		<-s.done
		cancel()
	})
	s.all.Go(func() {
		for {
			c, err := s.ln.AcceptUnix()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil {
				s.pause(acceptPause)
				continue
			}
			select {
			case slots <- struct{}{}:
				s.all.Go(func() {
					defer func() { <-slots }()
					s.serve(ctx, c, h)
				})
			default:
				c.Close()
			}
		}
	})
}

func (s *Server) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.done:
	}
}

// Close ends the server and all its connections.
func (s *Server) Close() {
	s.once.Do(func() { close(s.done) })
	s.ln.Close()
	s.all.Wait()
}

// serve answers one client.
func (s *Server) serve(ctx context.Context, c *net.UnixConn, h Handler) {
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if _, err := peer(c); err != nil {
		return // it gets no word, only the end of the connection
	}
	conn, err := fdmsg.FromConn(c)
	if err != nil {
		return
	}
	var text json.RawMessage
	_ = conn.SetDeadline(time.Now().Add(requestTimeout)) // an error shows in what follows
	m, err := conn.Recv(&text)
	m.Close()
	if err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	r, refused := parseRequest(text)
	if refused != nil {
		_ = conn.Send(Answer{Protocol: Protocol, Err: refused}) // an error means that the client is gone
		return
	}
	switch r.Op {
	case OpInfo:
		info := h.Info()
		_ = conn.Send(Answer{Protocol: Protocol, Info: &info}) // as above
	case OpStop:
		if conn.Send(Answer{Protocol: Protocol}) != nil {
			return
		}
		h.Stop(r.Grace)
		<-ctx.Done()
	case OpExec:
		files, err := h.Exec(ctx, *r.Exec)
		answer(conn, spoken(r), files, err)
	case OpAttach:
		files, err := h.Attach(ctx, *r.Attach)
		answer(conn, spoken(r), files, err)
	}
}

// answer hands a client what it has asked for, or tells why not.
func answer(conn *fdmsg.Conn, protocol int, files []*os.File, err error) {
	if err != nil {
		refused, ok := errors.AsType[*Error](err)
		if !ok {
			refused = &Error{Text: err.Error(), Status: handshake.ExitRefused}
		}
		_ = conn.Send(Answer{Protocol: protocol, Err: refused})
		return
	}
	// When the client is gone, closing these is the end of its command.
	_ = conn.Send(Answer{Protocol: protocol}, files...)
	for _, f := range files {
		f.Close()
	}
}
