package gate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"sync"

	"golang.org/x/sys/unix"
)

// owner is who holds the other end of a loopback connection.
type owner struct {
	uid   int
	inode uint32
}

// Layout of inet_diag(7): struct inet_diag_req_v2 and struct inet_diag_msg.
const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY, sock_diag(7)
	reqSize          = 56
	msgSize          = 72
	msgUID           = 64
	msgInode         = 68
	anyCookie        = 0xffffffff // INET_DIAG_NOCOOKIE, twice
)

// diag asks the kernel about sockets. It keeps its descriptor, so that a client
// can still be known when the process has no others left. The zero value is
// ready; it is safe for concurrent use.
type diag struct {
	mu  sync.Mutex
	fd  int // netlink socket, 0 is none
	seq uint32
}

// errGone reports that the client's socket is closed already: whose it was
// can't be known any more.
var errGone = errors.New("the client has gone")

// ownerOf asks for the client's socket by its four addresses. The look-up is
// exact, no table is walked.
func (d *diag) ownerOf(client, gate netip.AddrPort) (owner, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.fd == 0 {
		fd, err := openDiag()
		if err != nil {
			return owner{}, err
		}
		d.fd = fd
	}
	d.seq++
	o, err := d.ask(diagRequest(client, gate, d.seq))
	if err != nil && !errors.Is(err, errGone) {
		unix.Close(d.fd) // whatever is wrong with it, the next may be right
		d.fd = 0
	}
	return o, err
}

func openDiag() (int, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return 0, fmt.Errorf("open socket diagnosis: %w", err)
	}
	// A kernel that does not answer must not hold the connection up.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		unix.Close(fd)
		return 0, err
	}
	return fd, nil
}

func (d *diag) ask(request []byte) (owner, error) {
	if err := unix.Sendto(d.fd, request, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return owner{}, fmt.Errorf("ask socket diagnosis: %w", err)
	}
	buf := make([]byte, 1024)
	for {
		n, from, err := unix.Recvfrom(d.fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return owner{}, fmt.Errorf("read socket diagnosis: %w", err)
		}
		if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 || n < unix.SizeofNlMsghdr {
			continue // not from the kernel
		}
		if binary.NativeEndian.Uint32(buf[8:]) == d.seq {
			return parseDiag(buf[:n])
		}
	}
}

// diagRequest is a netlink message that asks for one socket.
func diagRequest(client, gate netip.AddrPort, seq uint32) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+reqSize)
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], uint32(len(b)))
	ne.PutUint16(b[4:], sockDiagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
	ne.PutUint32(b[8:], seq)
	r := b[unix.SizeofNlMsghdr:]
	r[0] = unix.AF_INET
	if client.Addr().Is6() {
		r[0] = unix.AF_INET6
	}
	r[1] = unix.IPPROTO_TCP
	ne.PutUint32(r[4:], 0xffffffff) // all states
	// struct inet_diag_sockid: ports and addresses are in network byte order.
	id := r[8:]
	binary.BigEndian.PutUint16(id[0:], client.Port())
	binary.BigEndian.PutUint16(id[2:], gate.Port())
	copy(id[4:20], client.Addr().AsSlice())
	copy(id[20:36], gate.Addr().AsSlice())
	ne.PutUint32(id[40:], anyCookie)
	ne.PutUint32(id[44:], anyCookie)
	return b
}

func parseDiag(b []byte) (owner, error) {
	ne := binary.NativeEndian
	kind, m := ne.Uint16(b[4:]), b[unix.SizeofNlMsghdr:]
	if kind == unix.NLMSG_ERROR && len(m) >= 4 {
		if err := unix.Errno(-int32(ne.Uint32(m))); err != unix.ENOENT {
			return owner{}, fmt.Errorf("socket diagnosis: %w", err)
		}
		return owner{}, errGone
	}
	if kind != sockDiagByFamily || len(m) < msgSize {
		return owner{}, errors.New("socket diagnosis makes no sense")
	}
	o := owner{uid: int(ne.Uint32(m[msgUID:])), inode: ne.Uint32(m[msgInode:])}
	if o.inode == 0 {
		return owner{}, errGone // closed by its process; the uid is not its own either
	}
	return o, nil
}
