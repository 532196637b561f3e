//go:build linux

package attack

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// families are attacks by sockets that no ruleset of this kind sees, or that
// speak to the kernel.
func families() []Attack {
	list := []Attack{
		{ID: "raw-ip", Row: "T5", Try: "a raw IPv4 socket", Run: socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{ID: "raw-ip6", Row: "T5", Try: "a raw IPv6 socket", Run: socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)},
		{ID: "raw-header", Row: "T5", Try: "a raw socket with headers of its own", Run: socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_RAW)},
		{ID: "packet-raw", Row: "T5", Try: "a packet socket: its frames pass no ruleset", Run: socket(unix.AF_PACKET, unix.SOCK_RAW, 0x0300)},
		{ID: "packet-dgram", Row: "T5", Try: "a cooked packet socket", Run: socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300)},
		{ID: "packet-disguised", Row: "T5", Try: "a packet socket under AF_INET", Run: socket(unix.AF_INET, unix.SOCK_PACKET, 0x0300)},
		{ID: "vsock", Row: "T5", Try: "a socket to the hypervisor", Run: socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{ID: "vsock-pair", Row: "T5", Try: "the same by socketpair", Run: call(func() error { _, err := unix.Socketpair(unix.AF_VSOCK, unix.SOCK_STREAM, 0); return err })},
		{ID: "xdp", Row: "T5", Try: "an XDP socket", Run: socket(unix.AF_XDP, unix.SOCK_RAW, 0)},
		{ID: "bluetooth", Row: "T5", Try: "a Bluetooth socket", Run: socket(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1)},
		{ID: "can", Row: "T5", Try: "a CAN bus socket", Run: socket(unix.AF_CAN, unix.SOCK_RAW, 1)},
		{ID: "tipc", Row: "T5", Try: "a TIPC socket", Run: socket(unix.AF_TIPC, unix.SOCK_STREAM, 0)},
		{ID: "alg", Row: "T7", Try: "a socket to the kernel's ciphers", Run: socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{ID: "netlink-netfilter", Row: "T7", Try: "netlink to nf_tables: list, flush, add", Run: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{ID: "netlink-generic", Row: "T7", Try: "generic netlink", Run: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC)},
		{ID: "netlink-xfrm", Row: "T7", Try: "netlink to IPsec", Run: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_XFRM)},
		{ID: "netlink-audit", Row: "T7", Try: "netlink to audit", Run: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_AUDIT)},
		{ID: "netlink-uevent", Row: "T1", Try: "netlink to the host's devices", Run: socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT)},
		{ID: "iptables", Row: "T7", Try: "the iptables of old, by a socket option", Run: oldTables},
		{ID: "link-down", Row: "T7", Try: "set an interface down", Run: call(linkDown)},
		{ID: "add-route", Row: "T7", Try: "add a route by netlink", Run: call(func() error { return netlinkRoute(unix.RTM_NEWROUTE) })},
		{ID: "del-route", Row: "T7", Try: "delete the default route", Run: call(func() error { return netlinkRoute(unix.RTM_DELROUTE) })},
		{ID: "so-mark", Row: "T7", Try: "mark packets (SO_MARK)", Run: option(unix.SOL_SOCKET, unix.SO_MARK)},
		{ID: "ip-transparent", Row: "T7", Try: "send from another's address (IP_TRANSPARENT)", Run: option(unix.SOL_IP, unix.IP_TRANSPARENT)},
		{ID: "bind-device", Row: "T5", Try: "bind to the interface, and send past the routes", Run: bindDevice},
		{ID: "resolve-unlisted", Row: "T18", Try: "resolve an unlisted name", Run: resolve("example.com")},
		{ID: "resolve-local", Row: "T18", Try: "resolve a name of the local network", Run: resolve("local")},
	}
	return list
}

// socket is an attack that has won when the socket is there.
func socket(domain, kind, proto int) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
		if err == nil {
			unix.Close(fd)
		}
		return judgedSocket(err)
	}
}

// judgedSocket: what the kernel is built without leads nowhere either.
func judgedSocket(err error) Finding {
	if errors.Is(err, unix.EINVAL) {
		return held("EINVAL: the kernel has no such socket")
	}
	return judged(err)
}

// absent is an attack by a protocol that the kernel may lack; where it has it,
// the datagram or the connection must be refused.
func absent(kind, proto int) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, proto)
		if err != nil {
			return judgedSocket(err)
		}
		unix.Close(fd)
		return judged(dialRaw(unix.AF_INET, kind, proto))
	}
}

// dialRaw connects to the public address, and sends.
func dialRaw(domain, kind, proto int) error {
	fd, err := unix.Socket(domain, kind|unix.SOCK_CLOEXEC, proto)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 400_000})
	to := &unix.SockaddrInet4{Port: 443, Addr: netip.MustParseAddr(public4).As4()}
	if proto == unix.IPPROTO_ICMP {
		echo := []byte{8, 0, 0, 0, 0, 0, 0, 1}
		return unix.Sendto(fd, echo, 0, to)
	}
	if err := unix.Connect(fd, to); err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte("aisb-attack"))
	return err
}

// mapped connects an IPv6 socket to an IPv4 address, which net.Dial would not.
func mapped() error {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 400_000})
	return unix.Connect(fd, &unix.SockaddrInet6{Port: 443, Addr: netip.MustParseAddr(public4).As16()})
}

func fastOpen() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Usec: 400_000})
	return unix.Sendto(fd, []byte("aisb-attack"), unix.MSG_FASTOPEN, &unix.SockaddrInet4{Port: 443, Addr: netip.MustParseAddr(public4).As4()})
}

// fromGatePort would be let through by a rule that looks at ports alone.
func fromGatePort(context.Context, Plan) Finding {
	gate, err := netip.ParseAddrPort(gateOf(os.Getenv))
	if err != nil {
		return unknown("this session has no gate")
	}
	from := &net.TCPAddr{Port: int(gate.Port())}
	if gate.Addr().IsLoopback() { // an inner listener has that port itself
		from.IP = net.IPv4(127, 0, 0, 2)
	}
	d := net.Dialer{Timeout: 400 * time.Millisecond, LocalAddr: from,
		Control: func(_, _ string, c syscall.RawConn) error {
			return c.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			})
		}}
	conn, err := d.Dial("tcp4", public4+":443")
	if err != nil {
		return refusedAt(public4, err)
	}
	conn.Close()
	return got("connected to %s", public4)
}

func unixDial(p Plan, paths []string) Finding {
	var found []Finding
	for _, path := range paths {
		if path == "@" || path == "" {
			continue
		}
		conn, err := net.DialTimeout("unix", path, 400*time.Millisecond)
		if err != nil {
			if strings.Contains(err.Error(), unix.ENOENT.Error()) {
				found = append(found, held("ENOENT"))
				continue
			}
			found = append(found, refusedAt(path, err))
			continue
		}
		_, _ = conn.Write([]byte(token(p.ID) + "\n"))
		conn.Close()
		return got("connected to %s", path)
	}
	return worst(found)
}

func option(level, name int) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return unknown("%s", errnoName(err))
		}
		defer unix.Close(fd)
		return judged(unix.SetsockoptInt(fd, level, name, 1))
	}
}

// oldTables reads what IPT_SO_GET_INFO gives (linux/netfilter_ipv4/ip_tables.h).
func oldTables(context.Context, Plan) Finding {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return unknown("%s", errnoName(err))
	}
	defer unix.Close(fd)
	const getInfo = 64
	_, err = unix.GetsockoptInt(fd, unix.SOL_IP, getInfo)
	return judged(err)
}

// bindDevice: the kernel lets anyone bind a socket to an interface that has
// none yet (since Linux 5.7), so the send has to be refused.
func bindDevice(_ context.Context, p Plan) Finding {
	ifaces, err := net.Interfaces()
	if err != nil {
		return unknown("%v", err)
	}
	var found []Finding
	for _, i := range ifaces {
		if i.Flags&net.FlagLoopback != 0 {
			continue
		}
		d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
			var serr error
			err := c.Control(func(fd uintptr) {
				_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_DONTROUTE, 1)
				serr = unix.BindToDevice(int(fd), i.Name)
			})
			if err != nil {
				return err
			}
			return serr
		}}
		conn, err := d.Dial("udp4", public4+":53")
		if err == nil {
			_, err = conn.Write(query(p.ID))
			conn.Close()
		}
		if err == nil {
			return got("sent by %s, and nothing refused it", i.Name)
		}
		found = append(found, refusedAt(i.Name, err))
	}
	if len(found) == 0 {
		return held("there is no interface but loopback")
	}
	return worst(found)
}

func linkDown() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	ifreq, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, ifreq); err != nil {
		return err
	}
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifreq) // as they are: nothing changes where it works
}

// netlinkRoute asks for a change of routes and reads the kernel's answer.
func netlinkRoute(kind uint16) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	m := make([]byte, unix.SizeofNlMsghdr+unix.SizeofRtMsg)
	put := func(at int, v uint16) { m[at], m[at+1] = byte(v), byte(v>>8) }
	put(0, uint16(len(m)))
	put(4, kind)
	put(6, unix.NLM_F_REQUEST|unix.NLM_F_ACK)
	m[unix.SizeofNlMsghdr] = unix.AF_INET
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	answer := make([]byte, 512)
	n, _, err := unix.Recvfrom(fd, answer, 0)
	if err != nil || n < unix.SizeofNlMsghdr+4 {
		return err
	}
	code := int32(uint32(answer[16]) | uint32(answer[17])<<8 | uint32(answer[18])<<16 | uint32(answer[19])<<24)
	if code == 0 {
		return nil
	}
	return syscall.Errno(-code)
}

func resolve(domain string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		ctx, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		addrs, err := (&net.Resolver{}).LookupHost(ctx, token(p.ID)+"."+domain)
		if err == nil {
			return got("resolved to %s", strings.Join(addrs, " "))
		}
		if ctx.Err() != nil {
			return unknown("no answer, and no refusal")
		}
		return held("no such host")
	}
}
