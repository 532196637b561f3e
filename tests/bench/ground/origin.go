package ground

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Ports of the origin.
const (
	TalkPort = 443  // four bytes for whatever comes
	WebPort  = 80   // an answer of BodySize bytes to each request
	DownPort = 8443 // after a ClientHello, bytes without end
	UpPort   = 8444 // takes as many bytes as it is told, then gives four
)

// BodySize is the body of the answer on WebPort.
const BodySize = 1024

// serveOrigin serves until standard input ends.
func serveOrigin() error {
	in := bufio.NewReader(os.Stdin)
	if _, err := in.ReadString('\n'); err != nil {
		return err
	}
	err := ip("link set lo up", "addr add 10.99.0.2/30 dev far", "link set far up",
		"addr add "+Address+"/32 dev lo")
	if err := errors.Join(err, tune()); err != nil {
		return err
	}
	for port, serve := range map[int]func(net.Conn){DownPort: pour, UpPort: drain} {
		ln, err := net.Listen("tcp4", fmt.Sprintf(":%d", port))
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := ln.Accept()
				if err != nil {
					return
				}
				go serve(c)
			}
		}()
	}
	answers := map[int][]byte{
		TalkPort: []byte("TLS!"),
		WebPort: fmt.Appendf(nil, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s",
			BodySize, strings.Repeat("x", BodySize)),
	}
	l, err := newTalkers(answers)
	if err != nil {
		return err
	}
	failed := make(chan error, 1)
	go func() { failed <- l.serve() }()
	go func() { io.Copy(io.Discard, in); failed <- nil }()
	fmt.Println("ready")
	return <-failed
}

// pour sends until the client has had enough.
func pour(c net.Conn) {
	defer c.Close()
	buf := make([]byte, 256<<10)
	if _, err := c.Read(buf); err != nil {
		return
	}
	for {
		if _, err := c.Write(buf); err != nil {
			return
		}
	}
}

// drain takes as many bytes as the eight after the ClientHello say, and says so.
// An end of file would not do: squid takes the end of one direction for both.
func drain(c net.Conn) {
	defer c.Close()
	head := make([]byte, 5)
	if _, err := io.ReadFull(c, head); err != nil {
		return
	}
	rest := make([]byte, int(binary.BigEndian.Uint16(head[3:]))+8)
	if _, err := io.ReadFull(c, rest); err != nil {
		return
	}
	left := int64(binary.BigEndian.Uint64(rest[len(rest)-8:]))
	for buf := make([]byte, 256<<10); left > 0; {
		n, err := c.Read(buf)
		if err != nil {
			return
		}
		left -= int64(n)
	}
	io.WriteString(c, "done")
}

// talkers answers many connections from one thread: an origin that costs more
// than the proxies would hide what they can do.
type talkers struct {
	epoll   int
	answers map[int][]byte // by listening descriptor
	of      map[int][]byte // by connection
}

func newTalkers(answers map[int][]byte) (*talkers, error) {
	epoll, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, err
	}
	t := &talkers{epoll: epoll, answers: map[int][]byte{}, of: map[int][]byte{}}
	for port, answer := range answers {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		err = errors.Join(unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
			unix.Bind(fd, &unix.SockaddrInet4{Port: port}), unix.Listen(fd, 4096), t.watch(fd))
		if err != nil {
			return nil, err
		}
		t.answers[fd] = answer
	}
	return t, nil
}

func (t *talkers) watch(fd int) error {
	return unix.EpollCtl(t.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)})
}

func (t *talkers) serve() error {
	events := make([]unix.EpollEvent, 256)
	buf := make([]byte, 16<<10)
	for {
		n, err := unix.EpollWait(t.epoll, events, -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		for _, e := range events[:max(n, 0)] {
			fd := int(e.Fd)
			if answer, listens := t.answers[fd]; listens {
				t.accept(fd, answer)
			} else if n, err := unix.Read(fd, buf); n > 0 {
				unix.Write(fd, t.of[fd]) // it is short and fits the socket's buffer
			} else if !errors.Is(err, unix.EAGAIN) {
				delete(t.of, fd)
				unix.Close(fd)
			}
		}
	}
}

func (t *talkers) accept(fd int, answer []byte) {
	for {
		c, _, err := unix.Accept4(fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		if err != nil {
			return
		}
		if t.watch(c) != nil {
			unix.Close(c)
			continue
		}
		t.of[c] = answer
	}
}
