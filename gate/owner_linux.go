package gate

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strconv"

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

// ownerOf asks the kernel for the client's socket by its four addresses. The
// look-up is exact, no table is walked.
func ownerOf(client, gate netip.AddrPort) (owner, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, unix.NETLINK_INET_DIAG)
	if err != nil {
		return owner{}, fmt.Errorf("open socket diagnosis: %w", err)
	}
	defer unix.Close(fd)
	// A kernel that does not answer must not hold the connection up.
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}); err != nil {
		return owner{}, err
	}
	if err := unix.Sendto(fd, diagRequest(client, gate), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return owner{}, fmt.Errorf("ask socket diagnosis: %w", err)
	}
	buf := make([]byte, 4096)
	n, from, err := unix.Recvfrom(fd, buf, 0)
	if err != nil {
		return owner{}, fmt.Errorf("read socket diagnosis: %w", err)
	}
	if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 {
		return owner{}, errors.New("socket diagnosis from elsewhere than the kernel")
	}
	return parseDiag(buf[:n])
}

// diagRequest is a netlink message that asks for one socket.
func diagRequest(client, gate netip.AddrPort) []byte {
	b := make([]byte, unix.SizeofNlMsghdr+reqSize)
	ne := binary.NativeEndian
	ne.PutUint32(b[0:], uint32(len(b)))
	ne.PutUint16(b[4:], sockDiagByFamily)
	ne.PutUint16(b[6:], unix.NLM_F_REQUEST)
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
	if len(b) < unix.SizeofNlMsghdr {
		return owner{}, errors.New("socket diagnosis is too short")
	}
	ne := binary.NativeEndian
	kind, m := ne.Uint16(b[4:]), b[unix.SizeofNlMsghdr:]
	if kind == unix.NLMSG_ERROR && len(m) >= 4 {
		return owner{}, fmt.Errorf("socket diagnosis: %w", unix.Errno(-int32(ne.Uint32(m))))
	}
	if kind != sockDiagByFamily || len(m) < msgSize {
		return owner{}, errors.New("socket diagnosis makes no sense")
	}
	return owner{uid: int(ne.Uint32(m[msgUID:])), inode: ne.Uint32(m[msgInode:])}, nil
}

// holdsSocket reports whether a process has a descriptor of a socket.
func holdsSocket(pid int, inode uint32) bool {
	if inode == 0 {
		return false
	}
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	f, err := os.Open(dir)
	if err != nil {
		return false
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return false
	}
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	buf := make([]byte, 64)
	for _, name := range names {
		n, err := unix.Readlinkat(int(f.Fd()), name, buf)
		if err == nil && string(buf[:n]) == want {
			return true
		}
	}
	return false
}
