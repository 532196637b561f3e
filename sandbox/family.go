package sandbox

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// reachable is at with the gate, or the proof's listener, that the container of
// process pid can reach.
// pasta gives a container the families that the host has routes of, some versions
// also link-local IPv4 without any: the container's routes tell, not the host's.
// Where both families are there, one is enough to open.
func (at endpoints) reachable(pid int) (endpoints, error) {
	if !at.gate6.IsValid() && !at.control6.IsValid() {
		return at, nil
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/route", pid))
	if err != nil {
		return at, fmt.Errorf("read the container's routes: %w", err)
	}
	if !routed(string(table), HostLoopback) {
		at.gate, at.control = at.gate6, at.control6
	}
	return at, nil
}

// Flags of a route (linux/route.h).
const (
	routeUp     = 0x1
	routeReject = 0x200
)

// routed reports whether a table of IPv4 routes, as /proc/PID/net/route has it
// (fib_route_seq_show in net/ipv4/fib_trie.c), leads to an address. It is pure.
func routed(table string, to netip.Addr) bool {
	octets := to.As4()
	addr := uint64(binary.NativeEndian.Uint32(octets[:])) // as the kernel prints addresses
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) < 8 {
			continue
		}
		var number [3]uint64 // destination, flags, mask
		var failed error
		for i, at := range []int{1, 3, 7} {
			n, err := strconv.ParseUint(f[at], 16, 32)
			if err != nil {
				failed = err // the heading
			}
			number[i] = n
		}
		if failed == nil && number[1]&(routeUp|routeReject) == routeUp && addr&number[2] == number[0] {
			return true
		}
	}
	return false
}
