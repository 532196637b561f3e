package fakes

import (
	"errors"
	"fmt"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// Port is one at which nobody listens, and which nobody gets by chance while it is
// held: a port that was merely closed is soon another's, on a machine where tests run
// side by side. Who means it may listen there.
type Port struct {
	Addr netip.AddrPort

	socket *os.File
}

// HoldPort takes a free port of 127.0.0.1. A bound socket that doesn't listen
// refuses connections. With SO_REUSEADDR another one may be bound there to listen, but
// only by the port's number: when it chooses one, the kernel passes over those that have
// a socket (inet_csk_find_open_port).
func HoldPort() (*Port, error) {
	at := netip.AddrFrom4([4]byte{127, 0, 0, 1})
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("hold a port: %w", err)
	}
	p := &Port{socket: os.NewFile(uintptr(fd), "port")}
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		unix.Bind(fd, &unix.SockaddrInet4{Addr: at.As4()}))
	if err == nil {
		var bound unix.Sockaddr
		bound, err = unix.Getsockname(fd)
		if b, ok := bound.(*unix.SockaddrInet4); ok {
			p.Addr = netip.AddrPortFrom(at, uint16(b.Port))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hold a port: %w", err), p.Close())
	}
	return p, nil
}

// Close gives the port back.
func (p *Port) Close() error { return p.socket.Close() }
