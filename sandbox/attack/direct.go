//go:build linux

package attack

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Addresses that nobody has: reserved for documentation (RFC 5737, RFC 3849).
// The fence treats them like any public one, and should it leak, nobody is
// bothered.
const (
	public4 = "203.0.113.1"
	public6 = "2001:db8::1"
)

// metadata are where clouds answer with credentials.
var metadata = []string{"169.254.169.254:80", "169.254.170.2:80", "168.63.129.16:80", "100.100.100.200:80"}

// list makes a plan's targets of constant ones.
func list(targets ...string) func(Plan) []string { return func(Plan) []string { return targets } }

// at joins addresses with a port of the plan's.
func at(addrs []string, port int) []string {
	var out []string
	for _, a := range addrs {
		out = append(out, net.JoinHostPort(a, strconv.Itoa(port)))
	}
	return out
}

// ipv6 picks by family.
func ipv6(addrs []string, want bool) []string {
	var out []string
	for _, a := range addrs {
		if strings.Contains(a, ":") == want {
			out = append(out, a)
		}
	}
	return out
}

// direct are attacks that go past the gate: on the network (T5), on the host's
// other services (T10), on another's gate (T17).
func direct() []Attack {
	all := slices.Concat(directTCP(), directUDP(), beside())
	for i := range all {
		if all[i].Row == "" {
			all[i].Row = "T5"
		}
	}
	return all
}

// anyOf are the host's addresses of a family, at the canary's port.
func anyOf(want6 bool) func(Plan) []string {
	return func(p Plan) []string { return at(ipv6(p.HostIPs, want6), p.AnyPort) }
}

func gateway(port string) func(Plan) []string {
	return func(Plan) []string {
		if gw, ok := defaultGateway(); ok {
			return []string{net.JoinHostPort(gw, port)}
		}
		return nil
	}
}

func directTCP() []Attack {
	return []Attack{
		{ID: "tcp-private", Try: "TCP to private addresses", Run: tcp(list("10.0.0.1:80", "172.16.0.1:80", "192.168.0.1:80", "100.64.0.1:80"))},
		{ID: "tcp-public", Try: "TCP to a public address", Run: tcp(list(public4+":443", public4+":80", public4+":22", public4+":53", public4+":853"))},
		{ID: "tcp-link-local", Try: "TCP to link-local addresses", Run: tcp(list("169.254.0.1:80", "169.254.1.2:80", "169.254.1.4:80"))},
		{ID: "tcp-metadata", Try: "TCP to the cloud's metadata services", Run: tcp(list(metadata...))},
		{ID: "tcp-gateway", Try: "TCP to the default gateway", Run: tcp(gateway("80"))},
		{ID: "tcp-host", Try: "TCP to the host's own addresses", Run: tcp(anyOf(false))},
		{ID: "tcp6-host", Try: "the same over IPv6", Run: tcp(anyOf(true))},
		{ID: "tcp6-public", Try: "TCP to a public IPv6 address", Run: tcp(list("[" + public6 + "]:443"))},
		{ID: "tcp6-metadata", Try: "metadata over IPv6", Run: tcp(list("[fd00:ec2::254]:80", "[fd20:ce::254]:80"))},
		{ID: "tcp6-local", Try: "TCP to unique local and site-local addresses", Run: tcp(list("[fd77::1]:80", "[fc00::1]:80", "[fec0::1]:80"))},
		{ID: "tcp6-link-local", Try: "TCP to link-local IPv6 addresses", Run: tcp(linkLocal("fe80::1", "80"))},
		{ID: "tcp6-translated", Try: "IPv4 in IPv6: NAT64, 6to4, Teredo, compatible", Run: tcp(list("[64:ff9b::cb00:7101]:80", "[2002:cb00:7101::1]:80", "[2001:0:cb00:7101::1]:80", "[::203.0.113.1]:80"))},
		{ID: "tcp6-mapped", Try: "a mapped address on an IPv6 socket", Run: call(mapped)},
		{ID: "tcp-fast-open", Try: "data in the SYN (TCP fast open)", Run: call(fastOpen)},
		{ID: "tcp-source-port", Try: "TCP from the gate's own port number", Run: fromGatePort},
		{ID: "mptcp", Try: "multipath TCP", Run: call(func() error { return dialRaw(unix.AF_INET, unix.SOCK_STREAM, 262 /* IPPROTO_MPTCP */) })},
		{ID: "sctp", Try: "SCTP", Run: absent(unix.SOCK_STREAM, 132)},
		{ID: "dccp", Try: "DCCP", Run: absent(6 /* SOCK_DCCP */, 33)},
		{ID: "udplite", Try: "UDP-Lite", Run: absent(unix.SOCK_DGRAM, 136)},
		{ID: "icmp", Try: "an echo request by a datagram socket", Run: absent(unix.SOCK_DGRAM, unix.IPPROTO_ICMP)},
	}
}

func directUDP() []Attack {
	return []Attack{
		{ID: "udp-public", Try: "UDP to a public address: DNS, NTP, QUIC, VPN", Run: udp(list(public4+":53", public4+":123", public4+":443", public4+":51820"))},
		{ID: "udp-host", Try: "UDP to the host's own addresses", Run: udp(anyOf(false))},
		{ID: "udp6-host", Try: "the same over IPv6", Run: udp(anyOf(true))},
		{ID: "udp6-public", Try: "UDP to a public IPv6 address", Run: udp(list("["+public6+"]:53", "["+public6+"]:443"))},
		{ID: "udp-gateway", Try: "UDP to the default gateway: DNS, NAT-PMP", Run: udp(func(p Plan) []string { return append(gateway("53")(p), gateway("5351")(p)...) })},
		{ID: "udp-multicast", Try: "multicast: mDNS, SSDP, LLMNR", Run: udp(list("224.0.0.251:5353", "239.255.255.250:1900", "224.0.0.252:5355"))},
		{ID: "udp6-multicast", Try: "multicast over IPv6", Run: udp(linkLocal("ff02::fb", "5353"))},
		{ID: "udp-broadcast", Try: "broadcast: DHCP", Run: udp(list("255.255.255.255:67"))},
		{ID: "dns-podman", Try: "podman's DNS forwarder", Run: both(list("169.254.1.1:53"))},
		{ID: "dns-resolv-conf", Try: "the name servers of /etc/resolv.conf", Run: resolvers},
		{ID: "dns-loopback", Try: "the host's stub resolver", Run: both(func(p Plan) []string { return at(p.Loopback, 53) })},
		{ID: "gate-other-ports", Try: "the gate's address at other ports", Run: gateNeighbours},
		{ID: "gate-udp", Try: "UDP to the gate's port", Run: udp(func(p Plan) []string { return optional(p.Gate) })},
	}
}

// beside are attacks on what else the host has.
func beside() []Attack {
	loop := func(p Plan) []string { return at(p.Loopback, p.LoopPort) }
	return []Attack{
		{ID: "loopback-tcp", Row: "T10", Try: "TCP to another service on the host's loopback", Run: tcp(loop)},
		{ID: "loopback-udp", Row: "T10", Try: "UDP to another service on the host's loopback", Run: udp(loop)},
		{ID: "unix-abstract", Row: "T10", Try: "an abstract socket of the host", Run: func(_ context.Context, p Plan) Finding { return unixDial(p, []string{"@" + p.Abstract}) }},
		{ID: "unix-paths", Row: "T10", Try: "sockets of podman, docker, D-Bus, ssh-agent, X11, Wayland", Run: func(_ context.Context, p Plan) Finding { return unixDial(p, p.Sockets) }},
		{ID: "second-gate", Row: "T17", Try: "another session's gate", Run: tcp(func(p Plan) []string {
			if p.Second == 0 {
				return nil
			}
			return at(p.Loopback, p.Second)
		})},
	}
}

func optional(addr string) []string {
	if addr == "" {
		return nil
	}
	return []string{addr}
}

// tcp tries to connect. A refusal may be a fence's or an empty port's, and a
// connection is a way out in any case: that is why the canaries listen.
func tcp(targets func(Plan) []string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		var found []Finding
		for _, target := range targets(p) {
			found = append(found, dialTCP(ctx, p, target))
		}
		return worst(found)
	}
}

func dialTCP(ctx context.Context, p Plan, target string) Finding {
	d := net.Dialer{Timeout: 400 * time.Millisecond}
	conn, err := d.DialContext(ctx, "tcp", target)
	if err != nil {
		return refusedAt(target, err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(200 * time.Millisecond))
	if _, err := conn.Write([]byte(token(p.ID) + "\n")); err != nil {
		return got("connected to %s", target)
	}
	_, _ = conn.Read(make([]byte, 64)) // so that it arrives before the end
	return got("connected to %s", target)
}

// refusedAt judges the error of a connection. Silence says nothing: a fence
// answers at once, so what was sent went somewhere.
func refusedAt(target string, err error) Finding {
	name := errnoName(err)
	if name == "no answer" {
		return unknown("%s: no answer, and no refusal", target)
	}
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EADDRINUSE) {
		return unknown("could not be tried: %s", name)
	}
	return held("%s", name)
}

// udp sends. The fence refuses within the call, so a datagram that nothing
// refused by then has left.
func udp(targets func(Plan) []string) func(context.Context, Plan) Finding {
	return func(_ context.Context, p Plan) Finding {
		var found []Finding
		for _, target := range targets(p) {
			found = append(found, sendUDP(p, target))
		}
		return worst(found)
	}
}

func sendUDP(p Plan, target string) Finding {
	addr, err := netip.ParseAddrPort(target)
	if err != nil {
		return unknown("%v", err)
	}
	d := net.Dialer{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_BROADCAST, 1) })
	}}
	conn, err := d.Dial("udp", addr.String())
	if err != nil {
		return refusedAt(target, err)
	}
	defer conn.Close()
	if _, err := conn.Write(query(p.ID)); err != nil {
		return refusedAt(target, err)
	}
	raw, err := conn.(*net.UDPConn).SyscallConn()
	if err != nil {
		return unknown("%v", err)
	}
	pending := 0
	if err := raw.Control(func(fd uintptr) { pending, _ = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR) }); err != nil {
		return unknown("%v", err)
	}
	if pending != 0 {
		return refusedAt(target, syscall.Errno(pending))
	}
	return got("sent to %s, and nothing refused it", target)
}

// query is a DNS question for the attack's token: whoever gets it can tell.
func query(id string) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(os.Getpid()))
	b = append(b, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0)
	for _, label := range []string{token(id), "example", "com"} {
		b = append(append(b, byte(len(label))), label...)
	}
	return append(b, 0, 0, 1, 0, 1)
}

func both(targets func(Plan) []string) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) Finding {
		return worst([]Finding{tcp(targets)(ctx, p), udp(targets)(ctx, p)})
	}
}

// resolvers are those that programs of the sandbox would ask. None is as good
// as one that refuses.
func resolvers(ctx context.Context, p Plan) Finding {
	text, err := os.ReadFile("/etc/resolv.conf")
	if err != nil {
		return unknown("%s", errnoName(err))
	}
	var found []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == "nameserver" {
			if addr, err := netip.ParseAddr(f[1]); err == nil {
				found = append(found, netip.AddrPortFrom(addr, 53).String())
			}
		}
	}
	if len(found) == 0 {
		return held("it names none")
	}
	return both(list(found...))(ctx, p)
}

// gateNeighbours are ports that a rule which opens too much would show.
func gateNeighbours(ctx context.Context, p Plan) Finding {
	addr, err := netip.ParseAddrPort(p.Gate)
	if err != nil {
		return unknown("this session has no gate")
	}
	if addr.Addr().IsLoopback() {
		return held("the gate listens on the sandbox's own loopback: there is nothing beside it")
	}
	var near []string
	for _, port := range []uint16{22, 80, 443, 631, 3128, addr.Port() - 1, addr.Port() + 1} {
		if port != addr.Port() {
			near = append(near, netip.AddrPortFrom(addr.Addr(), port).String())
		}
	}
	return tcp(list(near...))(ctx, p)
}
