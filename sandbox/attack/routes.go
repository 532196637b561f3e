//go:build linux

package attack

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"net"
	"net/netip"
	"os"
	"strings"
)

// linkLocal gives an address the zone of each interface.
func linkLocal(addr, port string) func(Plan) []string {
	return func(p Plan) []string {
		ifaces, err := net.Interfaces()
		if err != nil {
			return nil
		}
		var out []string
		for _, i := range ifaces {
			out = append(out, net.JoinHostPort(addr+"%"+i.Name, port))
		}
		return out
	}
}

// defaultGateway reads the kernel's table of IPv4 routes.
func defaultGateway() (string, bool) {
	text, err := os.ReadFile("/proc/net/route")
	if err != nil {
		return "", false
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 3 || f[1] != "00000000" {
			continue
		}
		b, err := hex.DecodeString(f[2])
		if err != nil || len(b) != 4 {
			continue
		}
		return netip.AddrFrom4([4]byte{b[3], b[2], b[1], b[0]}).String(), true // little-endian
	}
	return "", false
}
