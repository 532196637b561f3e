package gate

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// ownAddrs knows the addresses of this host's interfaces: a name that leads to
// one of them leads to the host itself, however public the address looks.
type ownAddrs struct {
	mu   sync.RWMutex
	set  map[netip.Addr]bool
	read time.Time
	err  error
}

// ownFresh is how long the list is taken to be current. An interface that
// comes up is known within that time.
const ownFresh = time.Second

// has reports whether an address is the host's own. When the list can't be
// read, every address is.
func (o *ownAddrs) has(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	o.mu.RLock()
	fresh := time.Since(o.read) < ownFresh && o.set != nil
	own := o.set[a] || o.err != nil
	o.mu.RUnlock()
	if fresh {
		return own
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.read) >= ownFresh || o.set == nil {
		o.set, o.err = readOwn()
		o.read = time.Now()
	}
	return o.set[a] || o.err != nil
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
