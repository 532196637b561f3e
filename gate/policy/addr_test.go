package policy

import (
	"net/netip"
	"testing"
)

func TestClassify(t *testing.T) {
	tests := map[Class][]string{
		Special: {
			"0.0.0.0", "0.1.2.3", "127.0.0.1", "127.255.255.254", "169.254.1.1", "192.0.0.8", "192.0.2.1", "192.31.196.1",
			"192.52.193.1", "192.88.99.1", "192.175.48.1", "198.18.0.1", "198.19.255.255", "198.51.100.1", "203.0.113.7",
			"224.0.0.251", "239.255.255.250", "240.0.0.1", "255.255.255.255",
			"::", "::1", "::2", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "64:ff9b:1::a00:1", "64:ff9b::7f00:1",
			"64:ff9b::a00:1", "100::1", "100:0:0:1::1", "2001::1", "2001:2::1", "2001:10::1", "2001:20::1", "2001:30::1",
			"2001:1::1", "2001:3::1", "2001:4:112::1", "2001:db8::1", "2002:a00:1::", "2002:808:808::", "2620:4f:8000::1",
			"3fff::1", "5f00::1", "fe80::1", "fec0::1", "ff02::fb", "4000::1",
		},
		Private: {
			"10.0.0.1", "10.255.255.255", "172.16.0.1", "172.31.255.254", "192.168.0.1", "192.168.255.255",
			"100.64.0.1", "100.127.255.255", "::ffff:10.0.0.1", "fc00::1", "fd12:3456::1", "fdff:ffff::1",
		},
		Metadata: {
			"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "192.0.0.192", "fd00:ec2::254",
			"fd00:ec2::23", "fd20:ce::254", "fd00:42::42", "fd00:c1::a9fe:a9fe", "fd00:100::100:200", "fd00:a9fe:a9fe::1", "100.96.0.96", "::ffff:169.254.169.254", "64:ff9b::a83f:8110",
		},
		Public: {
			"1.1.1.1", "9.255.255.255", "11.0.0.1", "126.255.255.254", "128.0.0.1", "100.63.255.255", "100.128.0.1",
			"169.253.255.255", "169.255.0.1", "172.15.255.255", "172.32.0.1", "192.0.1.1", "192.0.3.1", "192.167.255.255",
			"192.169.0.1", "198.17.255.254", "198.20.0.1", "198.51.99.1", "203.0.112.255", "203.0.114.1", "223.255.255.254",
			"168.63.129.15", "168.63.129.17", "2000::1", "2001:200::1", "2001:db7::1", "2001:db9::1", "2003::1", "2400:cb00::1",
			"2606:4700:4700::1111", "2620:fe::fe", "3ffe::1", "3fff:1000::1", "2a00:1450::1", "::ffff:8.8.8.8", "64:ff9b::808:808",
		},
	}
	for want, addrs := range tests {
		for _, a := range addrs {
			if got := Classify(netip.MustParseAddr(a)); got != want {
				t.Errorf("Classify(%s) = %d, want %d", a, got, want)
			}
		}
	}
	if Classify(netip.MustParseAddr("2600::1%eth0")) != Special || Classify(netip.Addr{}) != Special {
		t.Error("an address with a zone or none at all is not refused")
	}
}

// Each row refuses its first and last address and, unless another row adjoins,
// not the public neighbours.
func TestRowEdges(t *testing.T) {
	for _, set := range [][]netip.Prefix{special4, private4, special6} {
		for _, p := range set {
			first, last := p.Addr(), lastOf(p)
			if Classify(first) == Public || Classify(last) == Public {
				t.Errorf("%s: an edge is public", p)
			}
			for _, a := range []netip.Addr{first.Prev(), last.Next()} {
				if a.IsValid() && !inAny(a) && Classify(a) != Public {
					t.Errorf("%s: the neighbour %s is refused", p, a)
				}
			}
		}
	}
}

func inAny(a netip.Addr) bool {
	return contains(special4, a) || contains(private4, a) || contains(special6, a) || contains(metadata, a) ||
		a.Is6() && !global6.Contains(a)
}

func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

func TestCheckAddr(t *testing.T) {
	p := mustParse(t, "a.test b.test+private", "8.8.0.0/16 9.9.9.9:53")
	a, b := p.Decide(Target{Host: "a.test", Port: 443}), p.Decide(Target{Host: "b.test", Port: 443})
	tests := []struct {
		d    Decision
		addr string
		port uint16
		want Reason
	}{
		{a, "1.1.1.1", 443, Listed},
		{a, "10.0.0.1", 443, SpecialAddress},
		{b, "10.0.0.1", 443, Listed},
		{b, "fd00::1", 443, Listed},
		{b, "127.0.0.1", 443, SpecialAddress},
		{b, "169.254.169.254", 443, SpecialAddress},
		{b, "fd00:ec2::254", 443, SpecialAddress},
		{a, "8.8.4.4", 443, DeniedRule},
		{a, "::ffff:8.8.4.4", 443, DeniedRule},
		{a, "64:ff9b::8.8.4.4", 443, DeniedRule},
		{a, "64:ff9b::9.9.9.9", 443, Listed},
		{a, "64:ff9b::9.9.9.9", 53, DeniedRule},
		{b, "100.96.0.96", 80, SpecialAddress},
		{a, "9.9.9.9", 443, Listed},
		{a, "9.9.9.9", 53, DeniedRule},
		{Decision{}, "10.0.0.1", 443, SpecialAddress},
	}
	for _, tt := range tests {
		if got := p.CheckAddr(tt.d, netip.MustParseAddr(tt.addr), tt.port); got != tt.want {
			t.Errorf("CheckAddr(%s, %s) = %s, want %s", tt.d.RuleText(), tt.addr, got, tt.want)
		}
	}
}
