package entry

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// reachable reports whether any route of this network namespace, in any table,
// covers an address.
func reachable(to netip.Addr) (bool, error) {
	family := uint8(unix.AF_INET6)
	if to.Is4() {
		family = unix.AF_INET
	}
	conn, err := netlink.Dial(unix.NETLINK_ROUTE, nil)
	if err != nil {
		return false, fmt.Errorf("open netlink: %w", err)
	}
	defer conn.Close()
	msgs, err := conn.Execute(netlink.Message{
		Header: netlink.Header{Type: unix.RTM_GETROUTE, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{family}, make([]byte, unix.SizeofRtMsg-1)...),
	})
	if err != nil {
		return false, fmt.Errorf("list routes: %w", err)
	}
	for _, m := range msgs {
		covered, err := covers(m.Data, to)
		if err != nil || covered {
			return covered, err
		}
	}
	return false, nil
}

// covers reports whether a route, given as struct rtmsg and its attributes
// (rtnetlink(7)), leads anywhere for an address.
func covers(msg []byte, to netip.Addr) (bool, error) {
	if len(msg) < unix.SizeofRtMsg {
		return false, fmt.Errorf("route of %d bytes", len(msg))
	}
	bits, kind := int(msg[1]), msg[7]
	switch kind {
	case unix.RTN_UNREACHABLE, unix.RTN_PROHIBIT, unix.RTN_BLACKHOLE, unix.RTN_THROW:
		return false, nil
	}
	attrs, err := netlink.UnmarshalAttributes(msg[unix.SizeofRtMsg:])
	if err != nil {
		return false, fmt.Errorf("decode route: %w", err)
	}
	dst := netip.IPv6Unspecified() // a default route has no destination
	if to.Is4() {
		dst = netip.IPv4Unspecified()
	}
	for _, a := range attrs {
		if a.Type == unix.RTA_DST {
			var ok bool
			if dst, ok = netip.AddrFromSlice(a.Data); !ok {
				return false, fmt.Errorf("route to %x", a.Data)
			}
		}
	}
	prefix := netip.PrefixFrom(dst, bits)
	if !prefix.IsValid() {
		return false, fmt.Errorf("route to %s/%d", dst, bits)
	}
	return prefix.Contains(to), nil
}

// cutOff returns an error unless loopback is the only link that is up: where no
// probe could be sent at all, there must be nothing to send by.
func cutOff() error {
	links, err := net.Interfaces()
	if err != nil {
		return fmt.Errorf("list links: %w", err)
	}
	for _, l := range links {
		if l.Flags&net.FlagUp != 0 && l.Flags&net.FlagLoopback == 0 {
			return fmt.Errorf("no probe found a route, but link %q is up", l.Name)
		}
	}
	return nil
}
