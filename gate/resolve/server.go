package resolve

import (
	"fmt"
	"net/netip"
	"net/url"
	"strings"
)

// Transport is how a name server is asked.
type Transport string

// The transports. UDP falls back to TCP when an answer is truncated.
const (
	UDP Transport = "udp"
	TCP Transport = "tcp"
	TLS Transport = "tls"   // DNS over TLS, RFC 7858
	DoH Transport = "https" // DNS over HTTPS, RFC 8484
)

// Server is a name server. It is always given by address: the gate has nothing
// to resolve a resolver's name with.
type Server struct {
	Transport Transport
	Addr      netip.AddrPort
	Name      string // that the certificate must be for; "" is the address
	Path      string // of DoH
}

// String is the form that ParseServer reads.
func (s Server) String() string {
	switch s.Transport {
	case UDP:
		return s.Addr.String()
	case DoH:
		return "https://" + s.Addr.String() + s.Path + fragment(s.Name)
	}
	return string(s.Transport) + "://" + s.Addr.String() + fragment(s.Name)
}

func fragment(name string) string {
	if name == "" {
		return ""
	}
	return "#" + name
}

// ParseServer reads IP[:PORT], udp://, tcp://, tls:// or https://IP[:PORT][/PATH],
// of which the last two may end in #NAME, the name in the certificate.
func ParseServer(text string) (Server, error) {
	if !strings.Contains(text, "://") {
		addr, err := parseAddr(text, 53)
		if err != nil {
			return Server{}, fmt.Errorf("name server %q: %w", text, err)
		}
		return Server{Transport: UDP, Addr: addr}, nil
	}
	u, err := url.Parse(text)
	if err != nil {
		return Server{}, fmt.Errorf("name server %q: not a URL", text)
	}
	ports := map[Transport]uint16{UDP: 53, TCP: 53, TLS: 853, DoH: 443}
	s := Server{Transport: Transport(u.Scheme), Name: u.Fragment}
	port, known := ports[s.Transport]
	switch {
	case !known:
		return Server{}, fmt.Errorf("name server %q: unknown scheme, expected udp, tcp, tls or https", text)
	case u.User != nil || u.RawQuery != "" || s.Transport != DoH && strings.Trim(u.Path, "/") != "":
		return Server{}, fmt.Errorf("name server %q: expected %s://IP[:PORT]", text, u.Scheme)
	case s.Name != "" && (s.Transport == UDP || s.Transport == TCP):
		return Server{}, fmt.Errorf("name server %q: a name makes sense only with tls and https", text)
	}
	if s.Transport == DoH {
		if s.Path = u.EscapedPath(); s.Path == "" || s.Path == "/" {
			s.Path = "/dns-query" // the path of RFC 8484's examples, used by all public servers
		}
	}
	if s.Addr, err = parseAddr(u.Host, port); err != nil {
		return Server{}, fmt.Errorf("name server %q: %w", text, err)
	}
	return s, nil
}

// parseAddr reads an address with or without port and brackets.
func parseAddr(text string, port uint16) (netip.AddrPort, error) {
	if ap, err := netip.ParseAddrPort(text); err == nil && ap.Port() != 0 {
		return ap, nil
	}
	bare := strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	addr, err := netip.ParseAddr(bare)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("expected an address such as 9.9.9.9 or [2620:fe::fe]:53, a name would have to be resolved first")
	}
	return netip.AddrPortFrom(addr, port), nil
}
