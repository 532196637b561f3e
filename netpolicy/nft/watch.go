package nft

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"slices"
	"syscall"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

// Socket makes a netlink socket of this network namespace, for another process
// to watch the namespace's packet filter with. The kernel asks both for the
// rights of who made the socket and of who uses it (netlink_net_capable in
// net/netlink/af_netlink.c): it is worth nothing to a process in a container that
// has given its rights up, and to the user who owns the container's user namespace it
// is as good as being inside.
func Socket() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
	if err == nil {
		if err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open netlink: %w", err)
	}
	return os.NewFile(uintptr(fd), "netfilter"), nil
}

// Watcher reads the packet filter of the network namespace that its socket was
// made in, also after the last process in there has ended, and changes its sets.
type Watcher struct{ conn *netlink.Conn }

// Watch takes a socket of Socket over.
func Watch(socket *os.File) (*Watcher, error) {
	fd := int(socket.Fd()) // makes it blocking, with the time-out below
	err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 5})
	var addr unix.Sockaddr
	if err == nil {
		addr, err = unix.Getsockname(fd)
	}
	name, ok := addr.(*unix.SockaddrNetlink)
	if err == nil && !ok {
		err = errors.New("not a netlink socket")
	}
	if err != nil {
		return nil, fmt.Errorf("watch packet filter: %w", err)
	}
	return &Watcher{netlink.NewConn(&handed{file: socket}, name.Pid)}, nil
}

// here watches this network namespace. Its socket blocks, as the kernel answers at
// once: the library's own goes through the runtime's poller for each answer, and asks
// first how long it is.
func here() (*Watcher, error) {
	socket, err := Socket()
	if err != nil {
		return nil, err
	}
	w, err := Watch(socket)
	if err != nil {
		socket.Close()
	}
	return w, err
}

// Generation is the kernel's number of the state of the packet filter: another
// one means that someone has changed it.
func (w *Watcher) Generation() (uint32, error) { return generation(w.conn) }

// Counters is Counters of the watched namespace: it verifies on the way.
func (w *Watcher) Counters(rs netpolicy.Ruleset) (map[string]Count, error) {
	return counters(w.conn, rs)
}

// Close closes the socket.
func (w *Watcher) Close() error { return w.conn.Close() }

// handed is a socket made elsewhere as the library wants it: it makes its own
// otherwise, in its own network namespace.
type handed struct {
	file *os.File
	buf  []byte // of largest bytes, for one datagram after the other
}

// largest is more than the kernel puts into one datagram of a list
// (NLMSG_GOODSIZE, or 32 KiB for readers with large buffers).
const largest = 64 << 10

func (h *handed) Close() error { return h.file.Close() }

func (h *handed) Send(m netlink.Message) error { return h.SendMessages([]netlink.Message{m}) }

// SendMessages sends all in one datagram, as a transaction has to be.
func (h *handed) SendMessages(ms []netlink.Message) error {
	var all []byte
	for _, m := range ms {
		b, err := m.MarshalBinary()
		if err != nil {
			return err
		}
		all = append(all, b...)
	}
	if err := h.forget(); err != nil {
		return err
	}
	return unix.Sendto(int(h.file.Fd()), all, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
}

// forget takes answers to earlier requests out of the socket: of a refused transaction only
// the first is read, and whatever comes next would get the others. The kernel has
// answered all of a request when its sending is through.
func (h *handed) forget() error {
	for {
		_, _, _, _, err := unix.Recvmsg(int(h.file.Fd()), nil, nil, unix.MSG_DONTWAIT)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return nil
		case err == nil, errors.Is(err, unix.EINTR), errors.Is(err, unix.ENOBUFS): // more of them than it can hold
		default:
			return err
		}
	}
}

func (h *handed) Receive() ([]netlink.Message, error) {
	var all []netlink.Message
	for m, err := range h.ReceiveIter() {
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	return all, nil
}

// datagram reads one. A signal ends the wait of a socket that has a time-out, whatever
// its handler says (signal(7)), and the runtime sends some to itself.
func (h *handed) datagram() (n, flags int, from unix.Sockaddr, err error) {
	for {
		n, _, flags, from, err = unix.Recvmsg(int(h.file.Fd()), h.buf, nil, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, flags, from, err
		}
	}
}

// ReceiveIter reads one datagram. Only the kernel's count.
func (h *handed) ReceiveIter() iter.Seq2[netlink.Message, error] {
	return func(yield func(netlink.Message, error) bool) {
		if h.buf == nil {
			h.buf = make([]byte, largest)
		}
		n, flags, from, err := h.datagram()
		sender, ok := from.(*unix.SockaddrNetlink)
		switch {
		case err != nil:
		case flags&unix.MSG_TRUNC != 0:
			err = errors.New("an answer of netlink is too long")
		case !ok || sender.Pid != 0:
			err = errors.New("an answer of netlink is not the kernel's")
		}
		if err != nil {
			yield(netlink.Message{}, err)
			return
		}
		parts, err := syscall.ParseNetlinkMessage(slices.Clone(h.buf[:n])) // they are kept
		if err != nil {
			yield(netlink.Message{}, err)
			return
		}
		for _, p := range parts {
			h := netlink.Header{
				Length: p.Header.Len, Type: netlink.HeaderType(p.Header.Type), Flags: netlink.HeaderFlags(p.Header.Flags),
				Sequence: p.Header.Seq, PID: p.Header.Pid,
			}
			if !yield(netlink.Message{Header: h, Data: p.Data}, nil) {
				return
			}
		}
	}
}
