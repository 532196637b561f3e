package policy

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// ServiceHost is the reserved name under which the services on the host's own
// loopback are reached. A rule for it needs a port.
const ServiceHost = "host.containers.internal"

// ReservedDomain is answered by the gate itself and can't be in a rule.
const ReservedDomain = "aisb.invalid"

// Rule is one line of a policy. What it matches is either a name, the names
// below one, a range of addresses, or every public name.
type Rule struct {
	Text   string // as written, without comment
	Origin string // where it was written: file:line, or a flag

	Name     string       // canonical name; of a wildcard, what follows "*."
	Wildcard bool         // names below Name, not Name itself
	All      bool         // the rule "*"
	Prefix   netip.Prefix // of an address or range

	Port    uint16 // 0: Ports of the kind, see matchPort
	AnyPort bool   // ":*"

	Private bool  // +private
	TCP     bool  // +tcp
	Upload  int64 // +upload=SIZE in bytes, 0 is no limit
}

// portHTTP and portHTTPS are those of a rule that names none.
const (
	portHTTP  = 80
	portHTTPS = 443
	portSSH   = 22
)

// matchPort reports whether the rule covers a port.
func (r *Rule) matchPort(port uint16) bool {
	switch {
	case r.AnyPort:
		return true
	case r.Port != 0:
		return r.Port == port
	}
	return port == portHTTP || port == portHTTPS
}

// RuleError is what is wrong with a rule, and what may have been meant.
type RuleError struct {
	Rule       string
	Origin     string
	Problem    string
	Suggestion string // a sentence, may be empty
}

// Error implements error: where the rule is and what is wrong with it.
func (e *RuleError) Error() string {
	return fmt.Sprintf("%s: rule %q %s", e.Origin, e.Rule, e.Problem)
}

// ParseRule reads one rule. deny says that it comes from a list of denials,
// where a rule without a port means every port, and options make no sense.
func ParseRule(l Line, deny bool) (*Rule, error) {
	r := &Rule{Text: strings.TrimSpace(l.Text), Origin: l.Origin}
	if len(r.Text) > maxLine {
		return nil, &RuleError{Rule: r.Text[:64], Origin: l.Origin, Problem: "is too long"}
	}
	if h, problem := r.parse(deny); problem != "" {
		if h.rules == nil && h.text == "" {
			h.rules = []string{tidy(r.Text)}
		}
		return nil, &RuleError{Rule: r.Text, Origin: l.Origin, Problem: problem, Suggestion: h.sentence(deny)}
	}
	return r, nil
}

// parse reads the text of a rule into its other fields.
func (r *Rule) parse(deny bool) (h hint, problem string) {
	if h, problem := misread(r.Text); problem != "" {
		return h, problem
	}
	host, options, hasOptions := strings.Cut(r.Text, "+")
	if hasOptions {
		if deny {
			return hint{rules: []string{host}}, "denies, so it can have no options"
		}
		if err := r.parseOptions(options); err != nil {
			return hint{text: "the options are +private, +tcp and +upload=SIZE"}, err.Error()
		}
	}
	if h, problem := r.parseMatch(host); problem != "" {
		return h, problem
	}
	if deny {
		r.AnyPort = r.AnyPort || r.Port == 0
		return hint{}, ""
	}
	return r.impossible()
}

func (r *Rule) parseOptions(text string) error {
	for option := range strings.SplitSeq(text, "+") {
		name, value, hasValue := strings.Cut(option, "=")
		switch {
		case name == "private" && !hasValue:
			r.Private = true
		case name == "tcp" && !hasValue:
			r.TCP = true
		case name == "upload" && hasValue:
			n, err := parseSize(value)
			if err != nil {
				return err
			}
			r.Upload = n
		default:
			return fmt.Errorf("has an unknown option %q", "+"+option)
		}
	}
	return nil
}

// parseSize reads 20MB, 512KiB or plain bytes.
func parseSize(s string) (int64, error) {
	units := []struct {
		suffix string
		factor int64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"B", 1}, {"", 1},
	}
	for _, u := range units {
		digits, found := strings.CutSuffix(s, u.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseInt(digits, 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/u.factor || digits[0] == '+' {
			break
		}
		return n * u.factor, nil
	}
	return 0, fmt.Errorf("has a bad size %q, expected one such as 20MB", s)
}

// parseMatch reads what the rule matches: everything before the options.
func (r *Rule) parseMatch(text string) (h hint, problem string) {
	if text == "*" {
		r.All, r.AnyPort = true, false
		return hint{}, ""
	}
	if strings.Contains(text, "/") {
		return r.parseRange(text)
	}
	// A bare IPv6 address: its colons are no port.
	if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() && addr.Zone() == "" {
		r.Prefix = singlePrefix(addr)
		return hint{}, ""
	}
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() != "" {
		return hint{}, "can match no name: " + errZone.Error()
	}
	host, port, hasPort, err := splitPort(text)
	if err != nil {
		return hint{}, "can match no name: " + err.Error()
	}
	if hasPort {
		if h, problem := r.parseRulePort(host, port); problem != "" {
			return h, problem
		}
	}
	return r.parseRuleHost(host)
}

func (r *Rule) parseRulePort(host, port string) (h hint, problem string) {
	if port == "*" {
		r.AnyPort = true
		return hint{}, ""
	}
	n, err := parsePort(port)
	if err != nil {
		return hint{rules: []string{host + ":443", host + ":*"}}, fmt.Sprintf("has a bad port %q", port)
	}
	r.Port = n
	return hint{}, ""
}

func (r *Rule) parseRuleHost(host string) (h hint, problem string) {
	if host == "*" {
		r.All = true
		return hint{}, ""
	}
	if name, found := strings.CutPrefix(host, "*."); found {
		r.Wildcard = true
		host = name
	}
	if strings.Contains(host, "*") {
		return meantWildcard(host), `has a "*" elsewhere than in "*." at its beginning`
	}
	if !isASCII(host) {
		ascii, err := idna.New(idna.MapForLookup(), idna.BidiRule(), idna.StrictDomainName(false)).ToASCII(host)
		if err != nil {
			return hint{text: "write the name as it is in the DNS, beginning with xn--"}, fmt.Sprintf("is no internationalized name: %v", err)
		}
		host = ascii
	}
	t, err := parseHost(host, 1)
	switch {
	case err != nil:
		return hint{}, fmt.Sprintf("can match no name: %v", err)
	case t.IsAddr() && r.Wildcard:
		return hint{rules: []string{host}, text: "or a range such as 192.0.2.0/24:443"}, "is a wildcard over an address"
	case t.IsAddr():
		r.Prefix = singlePrefix(t.Addr)
	default:
		r.Name = t.Host
	}
	return hint{}, ""
}

func singlePrefix(a netip.Addr) netip.Prefix {
	a = a.Unmap()
	return netip.PrefixFrom(a, a.BitLen())
}

// parseRange reads CIDR:port, with an IPv6 range in brackets or not.
func (r *Rule) parseRange(text string) (h hint, problem string) {
	cidr, port, hasPort := text, "", false
	slash := strings.IndexByte(text, '/')
	if colon := strings.IndexByte(text[slash:], ':'); colon >= 0 {
		cidr, port, hasPort = text[:slash+colon], text[slash+colon+1:], true
	}
	cidr = strings.NewReplacer("[", "", "]", "").Replace(cidr)
	prefix, err := netip.ParsePrefix(cidr)
	if err != nil {
		if _, err := netip.ParseAddr(strings.Trim(text[:slash], "[]")); err == nil {
			return hint{text: "a range is such as 192.0.2.0/24:443"}, "is no range of addresses"
		}
		return hint{rules: []string{meantHost(text)}, text: "since a path can't be allowed alone"}, "is neither a host nor a range of addresses"
	}
	if prefix.Masked() != prefix {
		return hint{rules: []string{prefix.Masked().String() + text[len(cidr):]}}, "has bits beyond its length"
	}
	if prefix.Addr().Is4In6() {
		return hint{text: "write the IPv4 range"}, "is a range of IPv4-mapped addresses"
	}
	r.Prefix = prefix
	if !hasPort {
		r.Port, r.AnyPort = 0, false
		return hint{}, ""
	}
	return r.parseRulePort(cidr, port)
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
