package gate

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// ownAddrs knows the addresses of this host: a name that leads to one of them
// leads to the host itself, however public the address looks. There are those of
// its interfaces, and those that a local route makes its own.
type ownAddrs struct {
	mu    sync.RWMutex
	set   map[netip.Addr]bool // of the interfaces
	asked map[netip.Addr]bool // whether the kernel would deliver it to this host
	read  time.Time
}

// ownFresh is how long the answers are taken to be current. An interface that
// comes up is known within that time.
const ownFresh = time.Second

// maxAsked bounds the addresses that are remembered: names lead anywhere.
const maxAsked = 4096

// has reports whether an address is the host's own. The error says that it
// can't be known, for want of descriptors as a rule.
func (o *ownAddrs) has(a netip.Addr) (bool, error) {
	a = a.Unmap().WithZone("")
	o.mu.RLock()
	fresh := time.Since(o.read) < ownFresh && o.set != nil
	local, known := o.asked[a]
	own := o.set[a]
	o.mu.RUnlock()
	if fresh && (own || known) {
		return own || local, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.read) >= ownFresh || o.set == nil {
		set, err := readOwn()
		if err != nil {
			return false, err
		}
		o.set, o.asked, o.read = set, nil, time.Now()
	}
	if o.set[a] {
		return true, nil
	}
	local, err := routedHere(a)
	if err != nil {
		return false, err
	}
	if o.asked == nil || len(o.asked) >= maxAsked {
		o.asked = make(map[netip.Addr]bool)
	}
	o.asked[a] = local
	return local, nil
}

// routedHere reports whether the kernel takes an address for its own. The
// source that it chooses for such a destination is the destination itself
// (ip_route_output_key_hash, for routes of type local). Connecting a datagram
// socket asks for the route and sends nothing.
func routedHere(a netip.Addr) (bool, error) {
	family, to := unix.AF_INET, unix.Sockaddr(&unix.SockaddrInet4{Port: 9, Addr: as4(a)})
	if a.Is6() {
		family, to = unix.AF_INET6, &unix.SockaddrInet6{Port: 9, Addr: a.As16()}
	}
	fd, err := unix.Socket(family, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if errors.Is(err, unix.EAFNOSUPPORT) {
		return false, nil // a kernel without IPv6 dials none
	}
	if err != nil {
		return false, fmt.Errorf("ask for a route: %w", err)
	}
	defer unix.Close(fd)
	if unix.Connect(fd, to) != nil {
		return false, nil // no route: nothing can be dialled either
	}
	from, err := unix.Getsockname(fd)
	if err != nil {
		return false, fmt.Errorf("ask for a route: %w", err)
	}
	switch from := from.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(from.Addr) == a, nil
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(from.Addr).Unmap() == a, nil
	}
	return false, errors.New("ask for a route: the source is no address")
}

// as4 is the address where it is an IPv4 one.
func as4(a netip.Addr) (b [4]byte) {
	if a.Is4() {
		b = a.As4()
	}
	return b
}

func readOwn() (map[netip.Addr]bool, error) {
	list, err := net.InterfaceAddrs()
	set := make(map[netip.Addr]bool, len(list))
	for _, one := range list {
		if ipnet, ok := one.(*net.IPNet); ok {
			if a, ok := netip.AddrFromSlice(ipnet.IP); ok {
				set[a.Unmap()] = true
			}
		}
	}
	return set, err
}
