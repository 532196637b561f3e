package policy

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
)

// Target is where a client wants to go, in canonical form: either Host, a
// lower-case ASCII name without trailing dot, or Addr, an address without zone
// and never IPv4-mapped. Only the parsers of this file make one.
type Target struct {
	Host string
	Addr netip.Addr
	Port uint16
}

// IsAddr reports whether the target is an address rather than a name.
func (t Target) IsAddr() bool { return t.Addr.IsValid() }

// Name is the host as text, without brackets.
func (t Target) Name() string {
	if t.IsAddr() {
		return t.Addr.String()
	}
	return t.Host
}

// String is the authority-form: host:port, an IPv6 address in brackets.
// ParseAuthority reads it back.
func (t Target) String() string {
	if t.IsAddr() {
		return netip.AddrPortFrom(t.Addr, t.Port).String()
	}
	return t.Host + ":" + strconv.Itoa(int(t.Port))
}

// HostField is the value of a Host header field for the target: the port is
// left out where it is the scheme's default (RFC 9110, section 7.2).
func (t Target) HostField(defaultPort uint16) string {
	if t.Port != defaultPort {
		return t.String()
	}
	if t.IsAddr() && t.Addr.Is6() {
		return "[" + t.Addr.String() + "]"
	}
	return t.Name()
}

// Errors of the parsers: what is wrong with a host or a port.
var (
	errNoPort     = errors.New("no port")
	errBadPort    = errors.New("the port is not a number from 1 to 65535")
	errEmptyHost  = errors.New("no host")
	errBrackets   = errors.New("the host in brackets is not an IPv6 address")
	errZone       = errors.New("an address with a zone")
	errCharacter  = errors.New("the host has a character that no name has")
	errLabel      = errors.New("the host has an empty label or one over 63 bytes")
	errNameLength = errors.New("the host is longer than 253 bytes")
	errNumber     = errors.New("the host is a number, but not an address in the usual form")
)

// ParseAuthority reads the authority-form of a CONNECT request, host:port. The
// port must be there (RFC 9112, section 3.2.3).
func ParseAuthority(s string) (Target, error) {
	host, port, found, err := splitPort(s)
	if err != nil {
		return Target{}, err
	}
	if !found {
		return Target{}, errNoPort
	}
	return parseHostPort(host, port)
}

// ParseHost reads host or host:port, with defaultPort where there is none, as
// in the authority of an absolute-form request or a Host header field.
func ParseHost(s string, defaultPort uint16) (Target, error) {
	host, port, found, err := splitPort(s)
	if err != nil {
		return Target{}, err
	}
	if !found {
		return parseHost(host, defaultPort)
	}
	return parseHostPort(host, port)
}

// splitPort splits at the colon outside brackets. A host with two colons and
// no brackets is refused: it may mean two things.
func splitPort(s string) (host, port string, found bool, err error) {
	if strings.HasPrefix(s, "[") {
		end := strings.IndexByte(s, ']')
		if end < 0 {
			return "", "", false, errBrackets
		}
		host, rest := s[:end+1], s[end+1:]
		if rest == "" {
			return host, "", false, nil
		}
		if rest[0] != ':' {
			return "", "", false, errBrackets
		}
		return host, rest[1:], true, nil
	}
	host, port, found = strings.Cut(s, ":")
	if strings.Contains(port, ":") {
		return "", "", false, errBadPort
	}
	return host, port, found, nil
}

func parseHostPort(host, port string) (Target, error) {
	n, err := parsePort(port)
	if err != nil {
		return Target{}, err
	}
	return parseHost(host, n)
}

// parsePort takes digits alone: no sign, no space, no leading zero.
func parsePort(s string) (uint16, error) {
	if s == "" || len(s) > 5 || s[0] == '0' {
		return 0, errBadPort
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, errBadPort
		}
		n = n*10 + int(s[i]-'0')
	}
	if n > 65535 {
		return 0, errBadPort
	}
	return uint16(n), nil
}

func parseHost(host string, port uint16) (Target, error) {
	if host == "" {
		return Target{}, errEmptyHost
	}
	if host[0] == '[' {
		addr, err := netip.ParseAddr(strings.TrimSuffix(host[1:], "]"))
		if err != nil || !addr.Is6() {
			return Target{}, errBrackets
		}
		if addr.Zone() != "" {
			return Target{}, errZone
		}
		return Target{Addr: addr.Unmap(), Port: port}, nil
	}
	name, err := parseName(host)
	if err != nil {
		return Target{}, err
	}
	if !endsInNumber(name) {
		return Target{Host: name, Port: port}, nil
	}
	// A name whose last label is a number is an IPv4 address to many
	// resolvers, in forms such as 127.1, 0x7f.1 or 017700000001 (inet_aton(3)).
	// Only the one form that everybody reads alike is taken.
	addr, err := netip.ParseAddr(host)
	if err != nil || !addr.Is4() {
		return Target{}, errNumber
	}
	return Target{Addr: addr, Port: port}, nil
}

// parseName checks a name and brings it into canonical form. Bytes outside
// letters, digits, hyphen and underscore are refused: what would have to be
// mapped or decoded first (IDNA, percent-encoding) may be read differently by
// somebody else.
func parseName(s string) (string, error) {
	name := strings.TrimSuffix(s, ".")
	if name == "" {
		return "", errEmptyHost
	}
	if len(name) > 253 { // RFC 1035, section 2.3.4, without the root
		return "", errNameLength
	}
	label, upper := 0, false
	for i := range len(name) {
		c := name[i]
		switch {
		case c == '.':
			if label == 0 {
				return "", errLabel
			}
			label = 0
			continue
		case 'A' <= c && c <= 'Z':
			upper = true
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return "", errCharacter
		}
		if label++; label > 63 {
			return "", errLabel
		}
	}
	if label == 0 {
		return "", errLabel
	}
	if upper {
		name = strings.ToLower(name)
	}
	return name, nil
}

// endsInNumber follows the URL standard's check of the same name: the last
// label is digits, or a hexadecimal number after 0x.
func endsInNumber(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	if hex, found := strings.CutPrefix(last, "0x"); found {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}
