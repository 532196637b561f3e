package policy

import "net/netip"

// Class says what kind of address it is, as far as the gate cares.
type Class int

// The classes. The zero value is refused always, so that a forgotten case
// can't open anything.
const (
	Special  Class = iota // never reached: reserved, loopback, link-local, multicast, ...
	Metadata              // never reached: a cloud's metadata service
	Private               // reached by a rule with +private
	Public
)

// special4 are the rows of the IANA IPv4 Special-Purpose Address Registry
// (RFC 6890 and its updates) and what RFC 5771 and RFC 1112 reserve, without
// the private ones. Rows that the registry calls globally reachable are
// protocol anycasts: no service that a rule could mean lives there.
var special4 = prefixes(
	"0.0.0.0/8",          // this network, RFC 791; Linux takes 0.0.0.0 for itself
	"127.0.0.0/8",        // loopback, RFC 1122
	"169.254.0.0/16",     // link-local, RFC 3927
	"192.0.0.0/24",       // IETF protocol assignments, RFC 6890
	"192.0.2.0/24",       // documentation, RFC 5737
	"192.31.196.0/24",    // AS112, RFC 7535
	"192.52.193.0/24",    // AMT, RFC 7450
	"192.88.99.0/24",     // 6to4 relay, RFC 7526
	"192.175.48.0/24",    // AS112, RFC 7534
	"198.18.0.0/15",      // benchmarking, RFC 2544
	"198.51.100.0/24",    // documentation
	"203.0.113.0/24",     // documentation
	"224.0.0.0/4",        // multicast, RFC 5771
	"240.0.0.0/4",        // reserved, RFC 1112
	"255.255.255.255/32", // limited broadcast, RFC 919
)

// private4 is what +private opens.
var private4 = prefixes(
	"10.0.0.0/8",     // RFC 1918
	"172.16.0.0/12",  // RFC 1918
	"192.168.0.0/16", // RFC 1918
	"100.64.0.0/10",  // shared address space (CGNAT), RFC 6598
)

// special6 are rows of the IANA IPv6 Special-Purpose Address Registry within
// 2000::/3. Outside of it nothing is global unicast (RFC 4291, section 2.4).
var special6 = prefixes(
	"2001::/23",         // IETF protocol assignments, RFC 2928: Teredo, ORCHID, benchmarking, ...
	"2001:db8::/32",     // documentation, RFC 3849
	"2002::/16",         // 6to4, RFC 3056: an IPv4 address in disguise
	"2620:4f:8000::/48", // AS112, RFC 7534
	"3fff::/20",         // documentation, RFC 9637
)

// metadata are the services that hand credentials to whoever can reach them.
// Those in link-local ranges are refused with their range as well; naming them
// keeps the reason honest.
var metadata = prefixes(
	"169.254.169.254/32",     // AWS, Azure, GCP, ...
	"169.254.170.2/32",       // AWS ECS
	"168.63.129.16/32",       // Azure's host, a public address
	"100.100.100.200/32",     // Alibaba, in CGNAT space
	"100.96.0.96/32",         // Volcengine, in CGNAT space
	"192.0.0.192/32",         // Oracle
	"fd00:ec2::254/128",      // AWS
	"fd00:ec2::23/128",       // AWS EKS
	"fd20:ce::254/128",       // GCP
	"fd00:c1::a9fe:a9fe/128", // Oracle
	"fd00:100::100:200/128",  // Alibaba
	"fd00:a9fe:a9fe::1/128",  // Akamai (Linode)
	"fd00:42::42/128",        // Scaleway
)

var (
	global6 = netip.MustParsePrefix("2000::/3")
	unique6 = netip.MustParsePrefix("fc00::/7")     // ULA, RFC 4193
	nat64   = netip.MustParsePrefix("64:ff9b::/96") // RFC 6052
)

func prefixes(texts ...string) []netip.Prefix {
	out := make([]netip.Prefix, len(texts))
	for i, t := range texts {
		out[i] = netip.MustParsePrefix(t)
	}
	return out
}

// Classify says what an address is. IPv4 addresses inside IPv6 ones are taken
// out and judged themselves: IPv4-mapped ones are the same thing to the
// kernel, and a NAT64 prefix is a door to IPv4. A NAT64 address is public when
// the address in it is, and otherwise special, not private: which private
// network lies behind a translator is anybody's guess.
func Classify(a netip.Addr) Class {
	if !a.IsValid() || a.Zone() != "" {
		return Special
	}
	a = a.Unmap()
	if contains(metadata, a) {
		return Metadata
	}
	if a.Is4() {
		return classify4(a)
	}
	switch {
	case nat64.Contains(a):
		inner := Inner(a)
		if contains(metadata, inner) {
			return Metadata
		}
		if classify4(inner) == Public {
			return Public
		}
		return Special
	case unique6.Contains(a):
		return Private
	case !global6.Contains(a), contains(special6, a):
		return Special
	}
	return Public
}

// Inner is the IPv4 address to which a translator passes on what is sent to a
// NAT64 address (RFC 6052, section 2.2). Any other address is returned as it is,
// an IPv4-mapped one as an IPv4 one.
func Inner(a netip.Addr) netip.Addr {
	if !nat64.Contains(a) {
		return a.Unmap()
	}
	b := a.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

func classify4(a netip.Addr) Class {
	switch {
	case contains(private4, a):
		return Private
	case contains(special4, a):
		return Special
	}
	return Public
}

func contains(set []netip.Prefix, a netip.Addr) bool {
	for _, p := range set {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// CheckAddr says whether an address that a decision led to may be dialled:
// d.Reason if so, else the reason to refuse it. Whether the address belongs to
// the host itself is for the caller to know.
func (p *Policy) CheckAddr(d Decision, a netip.Addr, port uint16) Reason {
	if p.denied.matchAddr(a, port) >= 0 {
		return DeniedRule
	}
	if nat64.Contains(a) && p.denied.matchAddr(Inner(a), port) >= 0 {
		return DeniedRule
	}
	switch Classify(a) {
	case Public:
		return d.Reason
	case Private:
		if d.Private {
			return d.Reason
		}
	}
	return SpecialAddress
}
