// Package fdmsg sends JSON messages, and open file descriptors with them,
// between processes that share one end each of a unix socket pair.
//
// A message is a header of four bytes (big-endian length of the JSON text)
// followed by that text. Descriptors ride with the header (SCM_RIGHTS,
// unix(7)), so that they arrive with the message they belong to. The end of
// the stream is the lifeline of both sides: whoever holds the other end is
// gone when Recv returns io.EOF.
package fdmsg

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of one message. A peer that exceeds them is broken or hostile.
const (
	maxMessage = 16 << 20 // bytes of JSON
	maxFiles   = 8        // descriptors
	maxNow     = 1 << 10  // bytes of JSON, of SendNow
)

// ErrTooLarge reports a message over the bounds, in either direction.
var ErrTooLarge = errors.New("message exceeds the bounds")

// ErrBusy reports that the peer has not read what was sent before.
var ErrBusy = errors.New("the other side doesn't read")

// Conn is one end of the pair. Sending is safe for concurrent use; Recv belongs
// to one goroutine at a time.
type Conn struct {
	c  *net.UnixConn
	mu sync.Mutex // serializes Send
}

// Pair makes a connected pair: a Conn for this process, and a file to hand to
// a child. The caller closes the file after the child has started, or the
// child's death is not seen. Both are close-on-exec.
func Pair() (*Conn, *os.File, error) {
	a, b, err := Files()
	if err != nil {
		return nil, nil, err
	}
	conn, err := FromFile(a)
	if err != nil {
		b.Close()
		return nil, nil, err
	}
	return conn, b, nil
}

// Files makes a connected pair for two other processes, or for FromFile. Both are
// close-on-exec.
func Files() (a, b *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	return os.NewFile(uintptr(fds[0]), "fdmsg"), os.NewFile(uintptr(fds[1]), "fdmsg-peer"), nil
}

// FromFile makes a Conn of an inherited descriptor and takes it over: f is
// closed in any case. It asks the kernel to name the sender of each message
// (SO_PASSCRED, unix(7)), so that Message.PID can be trusted.
func FromFile(f *os.File) (*Conn, error) {
	defer f.Close()
	c, err := net.FileConn(f) // a duplicate, close-on-exec and non-blocking
	if err != nil {
		return nil, fmt.Errorf("use inherited descriptor: %w", err)
	}
	u, ok := c.(*net.UnixConn)
	if !ok {
		c.Close()
		return nil, errors.New("use inherited descriptor: not a unix socket")
	}
	return FromConn(u)
}

// FromConn makes a Conn of a connected unix socket and takes it over, as
// FromFile does.
func FromConn(u *net.UnixConn) (*Conn, error) {
	raw, err := u.SyscallConn()
	if err == nil {
		var serr error
		err = raw.Control(func(fd uintptr) {
			serr = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
		})
		err = errors.Join(err, serr)
	}
	if err != nil {
		u.Close()
		return nil, fmt.Errorf("ask for credentials: %w", err)
	}
	return &Conn{c: u}, nil
}

// Close closes this end. The peer's Recv returns io.EOF.
func (c *Conn) Close() error { return c.c.Close() }

// CloseWrite says that no more messages will follow from this side, in all
// processes that hold this end. Recv keeps working.
func (c *Conn) CloseWrite() error { return c.c.CloseWrite() }

// SetDeadline bounds Send and Recv; the zero time means no bound.
func (c *Conn) SetDeadline(t time.Time) error { return c.c.SetDeadline(t) }

// SetReadDeadline bounds Recv alone.
func (c *Conn) SetReadDeadline(t time.Time) error { return c.c.SetReadDeadline(t) }

// SetWriteDeadline bounds Send alone.
func (c *Conn) SetWriteDeadline(t time.Time) error { return c.c.SetWriteDeadline(t) }

// Send writes v as one message with copies of files. The caller keeps files.
func (c *Conn) Send(v any, files ...*os.File) error {
	head, text, oob, err := encode(v, files)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _, err := c.c.WriteMsgUnix(head, oob, nil)
	if err == nil && n < len(head) {
		_, err = c.c.Write(head[n:])
	}
	if err == nil {
		_, err = c.c.Write(text)
	}
	if err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

// SendNow is Send of a small message to a peer that perhaps doesn't read: it goes
// whole or not at all, and never waits. Where every Send of a connection is one,
// nobody who has something to say is held up.
func (c *Conn) SendNow(v any, files ...*os.File) error {
	head, text, oob, err := encode(v, files)
	if err != nil {
		return err
	}
	if len(text) > maxNow {
		return ErrTooLarge
	}
	raw, err := c.c.SyscallConn()
	if err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var n int
	var serr error
	err = raw.Control(func(fd uintptr) {
		// Room for so little is got in one piece (unix_stream_sendmsg in the kernel's
		// net/unix/af_unix.c), so there is all or EAGAIN.
		n, serr = unix.SendmsgN(int(fd), append(head, text...), oob, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	})
	switch err = errors.Join(err, serr); {
	case errors.Is(err, unix.EAGAIN):
		return ErrBusy
	case err == nil && n < len(head)+len(text):
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("send message: %w", err)
	}
	return nil
}

func encode(v any, files []*os.File) (head, text, oob []byte, err error) {
	if text, err = json.Marshal(v); err != nil {
		return nil, nil, nil, fmt.Errorf("encode message: %w", err)
	}
	if len(text) > maxMessage || len(files) > maxFiles {
		return nil, nil, nil, ErrTooLarge
	}
	if len(files) > 0 {
		fds := make([]int, len(files))
		for i, f := range files {
			if fds[i], err = descriptor(f); err != nil {
				return nil, nil, nil, fmt.Errorf("send descriptor: %w", err)
			}
		}
		oob = unix.UnixRights(fds...)
	}
	return binary.BigEndian.AppendUint32(nil, uint32(len(text))), text, oob, nil
}

// Message is what Recv returns beside the decoded value.
type Message struct {
	// Files are the descriptors that came along, owned by the receiver.
	Files []*os.File
	// PID is the sender's process id in the receiver's PID namespace, 0 when
	// it is not visible there. The kernel filled it in.
	PID int
}

// Close closes all descriptors of the message.
func (m Message) Close() {
	for _, f := range m.Files {
		f.Close()
	}
}

// Recv reads one message into v. It returns io.EOF when the peer closed
// between messages, and io.ErrUnexpectedEOF within one.
func (c *Conn) Recv(v any) (Message, error) {
	var head [4]byte
	m, err := c.recvHead(head[:])
	if err != nil {
		m.Close()
		return Message{}, err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessage {
		m.Close()
		return Message{}, ErrTooLarge
	}
	text := make([]byte, size)
	if _, err := io.ReadFull(c.c, text); err != nil {
		m.Close()
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return Message{}, fmt.Errorf("receive message: %w", err)
	}
	if err := json.Unmarshal(text, v); err != nil {
		m.Close()
		return Message{}, fmt.Errorf("decode message: %w", err)
	}
	return m, nil
}

// recvHead fills head and collects the control messages that ride with it.
func (c *Conn) recvHead(head []byte) (Message, error) {
	var m Message
	oob := make([]byte, unix.CmsgSpace(maxFiles*4)+unix.CmsgSpace(unix.SizeofUcred))
	for got := 0; got < len(head); {
		n, oobn, flags, _, err := c.c.ReadMsgUnix(head[got:], oob)
		if perr := m.parse(oob[:oobn]); perr != nil {
			return m, perr
		}
		switch {
		case n == 0 && got == 0 && (err == nil || errors.Is(err, io.EOF)):
			return m, io.EOF
		case n == 0 && (err == nil || errors.Is(err, io.EOF)):
			return m, io.ErrUnexpectedEOF
		case err != nil:
			return m, fmt.Errorf("receive message: %w", err)
		case flags&unix.MSG_CTRUNC != 0:
			return m, ErrTooLarge
		}
		got += n
	}
	return m, nil
}

// parse adds the descriptors and the sender found in control data.
func (m *Message) parse(oob []byte) error {
	if len(oob) == 0 {
		return nil
	}
	msgs, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return fmt.Errorf("parse control message: %w", err)
	}
	for _, msg := range msgs {
		if msg.Header.Level != unix.SOL_SOCKET {
			continue
		}
		switch msg.Header.Type {
		case unix.SCM_RIGHTS:
			fds, err := unix.ParseUnixRights(&msg)
			if err != nil {
				return fmt.Errorf("parse descriptors: %w", err)
			}
			for _, fd := range fds {
				m.Files = append(m.Files, os.NewFile(uintptr(fd), "fdmsg-received"))
			}
		case unix.SCM_CREDENTIALS:
			cred, err := unix.ParseUnixCredentials(&msg)
			if err != nil {
				return fmt.Errorf("parse credentials: %w", err)
			}
			m.PID = int(cred.Pid)
		}
	}
	return nil
}
