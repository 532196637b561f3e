package sandbox

import (
	"net/netip"
	"testing"
)

func TestRouted(t *testing.T) {
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	for _, tt := range []struct {
		name, table string
		want        bool
	}{
		{"default route", head + "up0\t00000000\t02004D0A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n", true},
		{"link-local network", head + "up0\t0000FEA9\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n", true},
		{"another network", head + "up0\t00004D0A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n", false},
		{"unreachable", head + "*\t00000000\t00000000\t0201\t0\t0\t0\t00000000\t0\t0\t0\n", false},
		{"not up", head + "up0\t00000000\t02004D0A\t0002\t0\t0\t0\t00000000\t0\t0\t0\n", false},
		{"no route", head, false},
		{"nothing", "", false},
	} {
		if got := routed(tt.table, netip.MustParseAddr("169.254.1.3")); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A container with IPv4 gets the gate of IPv4, and one without it the other.
func TestReachable(t *testing.T) {
	at := endpoints{gate: netip.MustParseAddrPort("169.254.1.3:1"), gate6: netip.MustParseAddrPort("[fd3d:8b5a:61e7::3]:2")}
	if _, err := at.reachable(1 << 30); err == nil {
		t.Error("a process that isn't there has routes")
	}
	at.gate6 = netip.AddrPort{}
	if got, err := at.reachable(1 << 30); err != nil || got.gate != at.gate {
		t.Errorf("without a choice: %v, %v", got.gate, err)
	}
}
