package entry

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/seccomp"
)

// probeArg is the argument with which the entrypoint starts itself as the
// proof's child.
const probeArg = "probe"

// Bounds of the proof.
const (
	refusedWithin = 50 * time.Millisecond
	gateWithin    = 5 * time.Second
	maxTries      = 3 // of a probe that was refused, but late: the machine is busy
)

// identity tells the child whom to become. It comes first, so that the child
// drops while pid 1 puts the fence up.
type identity struct {
	UID, GID    int
	AllowUserNS bool
}

// order tells the child what to try. The proof's key is not in it: the child
// reports what it saw and pid 1 judges.
type order struct {
	Probes []netpolicy.Probe
	Gate   string // empty: none
	Asks   []ask  // of the gate
}

// ask is a request to the gate for one of its own reserved names.
type ask struct {
	Host, Path string
	Nonce      string // sent in X-Aisb-Nonce unless empty
}

// sighting is what the child saw of one probe.
type sighting struct {
	Sent   int        // packets that left the socket
	Errno  unix.Errno // of connect, or of UDP's send
	Later  unix.Errno // UDP: what came back for the packet
	Micros int64      // of the last try
}

// reply is what the gate answered.
type reply struct {
	Status int
	Proof  string
	Error  string // instead, when there was no answer
}

// account is the child's whole report.
type account struct {
	Error   string // it could not drop; nothing was tried
	Probes  []sighting
	Replies []reply
}

// probeMain is the child: it drops through the same function as the command,
// tries everything and reports.
func probeMain() int {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return complain(err)
	}
	conn, err := fdmsg.FromFile(os.NewFile(handshake.FD, "entry"))
	if err != nil {
		return complain(err)
	}
	var id identity
	if err := receive(conn, &id); err != nil {
		return 1 // pid 1 ended, or needs no proof
	}
	dropErr := drop(id.UID, id.GID, seccomp.Options{AllowUserNS: id.AllowUserNS})
	var o order
	if err := receive(conn, &o); err != nil {
		return 1
	}
	var a account
	if dropErr != nil {
		a.Error = dropErr.Error()
	} else {
		a = o.carryOut()
	}
	if err := conn.Send(a); err != nil {
		return complain(err)
	}
	return 0
}

// receive reads a message that carries no descriptors.
func receive(conn *fdmsg.Conn, v any) error {
	m, err := conn.Recv(v)
	m.Close()
	return err
}

// carryOut tries everything at once.
func (o order) carryOut() account {
	a := account{Probes: make([]sighting, len(o.Probes)), Replies: make([]reply, len(o.Asks))}
	var all sync.WaitGroup
	for i, p := range o.Probes {
		all.Go(func() { a.Probes[i] = attempt(p) })
	}
	for i, q := range o.Asks {
		all.Go(func() {
			r, err := q.send(o.Gate)
			if err != nil {
				r.Error = err.Error()
			}
			a.Replies[i] = r
		})
	}
	all.Wait()
	return a
}

// attempt sends a probe, again if the answer was late.
func attempt(p netpolicy.Probe) sighting {
	var s sighting
	for range maxTries {
		began := time.Now()
		var sent bool
		if p.Proto == netpolicy.UDP {
			sent, s.Errno, s.Later = tryUDP(p.To)
		} else {
			sent, s.Errno = tryTCP(p.To)
		}
		s.Micros = time.Since(began).Microseconds()
		if sent {
			s.Sent++
		}
		if s.Micros <= refusedWithin.Microseconds() || s.Errno == 0 {
			break
		}
	}
	return s
}

// open makes a non-blocking socket for an address. The calls are the bare ones
// because each packet must be known: net.Dial tries again on some errors.
func open(to netip.AddrPort, kind int) (int, unix.Sockaddr, unix.Errno) {
	domain, addr := unix.AF_INET6, unix.Sockaddr(&unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()})
	if to.Addr().Is4() {
		domain, addr = unix.AF_INET, &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	}
	fd, err := unix.Socket(domain, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	return fd, addr, errnoOf(err)
}

func tryTCP(to netip.AddrPort) (sent bool, result unix.Errno) {
	fd, addr, errno := open(to, unix.SOCK_STREAM)
	if errno != 0 {
		return false, errno
	}
	defer unix.Close(fd)
	switch errno := errnoOf(unix.Connect(fd, addr)); errno {
	case unix.EINPROGRESS:
		return true, fate(fd, unix.POLLOUT)
	case 0, unix.ECONNREFUSED:
		return true, errno
	default: // without a route nothing was sent
		return false, errno
	}
}

// question is a DNS query for the address of a reserved name (RFC 2606), so
// that a leak would show as an answer and bother nobody.
const question = "\x1b\x0b\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x05proof\x04aisb\x07invalid\x00\x00\x01\x00\x01"

func tryUDP(to netip.AddrPort) (sent bool, result, later unix.Errno) {
	fd, addr, errno := open(to, unix.SOCK_DGRAM)
	if errno != 0 {
		return false, errno, 0
	}
	defer unix.Close(fd)
	// Connected, so that ICMP errors come back to this socket (udp(7)).
	if errno := errnoOf(unix.Connect(fd, addr)); errno != 0 {
		return false, errno, 0
	}
	_, err := unix.Write(fd, []byte(question))
	return true, errnoOf(err), fate(fd, unix.POLLIN)
}

// fate waits for the socket's fate: its error, 0 for success or data, or
// ETIMEDOUT when nothing happens.
func fate(fd int, events int16) unix.Errno {
	limit := time.Now().Add(2 * refusedWithin)
	for {
		left := time.Until(limit)
		if left <= 0 {
			return unix.ETIMEDOUT
		}
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: events}}, int(left.Milliseconds())+1)
		if err == unix.EINTR || (err == nil && n == 0) {
			continue
		}
		if err != nil {
			return errnoOf(err)
		}
		code, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return errnoOf(err)
		}
		return unix.Errno(code)
	}
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		return errno
	}
	return unix.EIO
}

// maxAnswer bounds the head of an answer of the gate.
const maxAnswer = 16 << 10

// send asks the gate. The few lines of HTTP are written by hand: net/http would
// make every start slower.
func (q ask) send(gate string) (reply, error) {
	conn, err := net.DialTimeout("tcp", gate, gateWithin)
	if err != nil {
		return reply{}, err
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(gateWithin))
	head := "GET http://" + q.Host + q.Path + " HTTP/1.1\r\nHost: " + q.Host + "\r\nUser-Agent: " + Name + "\r\n"
	if q.Nonce != "" {
		head += "X-Aisb-Nonce: " + q.Nonce + "\r\n"
	}
	if _, err := conn.Write([]byte(head + "Connection: close\r\n\r\n")); err != nil {
		return reply{}, err
	}
	var answer []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(answer), "\r\n\r\n") {
		n, err := conn.Read(buf)
		answer = append(answer, buf[:n]...)
		if len(answer) > maxAnswer {
			return reply{}, fmt.Errorf("answer is over %d bytes", maxAnswer)
		}
		if err != nil {
			return reply{}, fmt.Errorf("answer ends early: %w", err)
		}
	}
	return parseAnswer(string(answer))
}

// parseAnswer reads the status and the proof of an HTTP/1.1 response's head.
func parseAnswer(text string) (reply, error) {
	head, _, _ := strings.Cut(text, "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	version, rest, _ := strings.Cut(lines[0], " ")
	code, _, _ := strings.Cut(rest, " ")
	status, err := strconv.Atoi(code)
	if err != nil || !strings.HasPrefix(version, "HTTP/1.") {
		return reply{}, fmt.Errorf("answer starts with %q, which is not HTTP", lines[0])
	}
	r := reply{Status: status}
	for _, line := range lines[1:] {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.EqualFold(key, "X-Aisb-Proof") {
			r.Proof = strings.TrimSpace(value)
		}
	}
	return r, nil
}
