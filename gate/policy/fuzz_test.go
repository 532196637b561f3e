package policy

import (
	"net/netip"
	"strings"
	"testing"
)

// What parses prints back the same, and means the same.
func FuzzParseTarget(f *testing.F) {
	for _, s := range []string{"a.test:443", "[::1]:80", "127.1:22", "A.:1", "[fe80::1%25e]:1", "0x1:1", "xn--0.test:1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		target, err := ParseAuthority(s)
		if err != nil {
			return
		}
		again, err := ParseAuthority(target.String())
		if err != nil || again != target {
			t.Fatalf("%q parses to %q, and that to %q, %v", s, target, again, err)
		}
		if target.IsAddr() == (target.Host != "") || target.Port == 0 {
			t.Fatalf("%q parses to %#v", s, target)
		}
		if !target.IsAddr() {
			if _, err := netip.ParseAddr(target.Host); err == nil {
				t.Fatalf("%q parses to the name %q, which is an address", s, target.Host)
			}
			if target.Host != strings.ToLower(target.Host) || strings.HasSuffix(target.Host, ".") {
				t.Fatalf("%q parses to %q, which is not canonical", s, target.Host)
			}
		}
	})
}

// A rule that is taken covers what it names, and a wildcard never its apex.
func FuzzRule(f *testing.F) {
	for _, s := range []string{"a.test", "*.a.test:22+tcp", "10.0.0.0/8:5432+private", "[2606::]/32:*", "*", "bücher.test", "http://x/", "a+upload=3MB"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, _, err := Parse([]Line{{Text: s, Origin: "f"}}, nil, Options{AllowAllNames: true})
		if err != nil {
			return
		}
		r := p.allowed.rules[0]
		port := r.Port
		if port == 0 {
			port = portHTTPS
		}
		in := Target{Host: r.Name, Port: port}
		switch {
		case r.All:
			in.Host = "some.example"
		case r.Prefix.IsValid():
			in = Target{Addr: r.Prefix.Addr().Unmap(), Port: port}
		case r.Wildcard:
			if d := p.Decide(in); d.Allow {
				t.Fatalf("rule %q allows its apex %s", s, in)
			}
			in.Host = "x." + r.Name
			if len(in.Host) > 253 {
				return
			}
		}
		if d := p.Decide(in); !d.Allow {
			t.Fatalf("rule %q refuses %s: %s", s, in, d.Reason)
		}
	})
}

// A decision agrees with a naive reading of the rules, and no name rule lets an
// address through.
func FuzzDecide(f *testing.F) {
	f.Add("a.test *.b.test:22 *.c.b.test", "x.b.test", "y.x.b.test:22")
	f.Add("9.9.9.0/24:443 *", "9.9.9.9", "9.9.9.9:443")
	f.Fuzz(func(t *testing.T, allow, deny, text string) {
		target, err := ParseAuthority(text)
		if err != nil {
			return
		}
		p, _, err := Parse(lines(strings.Fields(allow)...), lines(strings.Fields(deny)...), Options{AllowAllNames: true})
		if err != nil {
			return
		}
		d := p.Decide(target)
		if naive := naiveAllow(p, target); d.Allow != naive {
			t.Fatalf("allow %q deny %q: %s is %v (%s), a naive reading says %v", allow, deny, target, d.Allow, d.Reason, naive)
		}
	})
}

func naiveAllow(p *Policy, target Target) bool {
	for _, r := range p.denied.rules {
		if naiveCovers(r, target) || r.All && target.IsAddr() && r.matchPort(target.Port) {
			return false
		}
	}
	covered, private := false, false
	for _, r := range p.allowed.rules {
		if target.Host == ServiceHost && (r.Name != ServiceHost || r.Wildcard) {
			continue
		}
		if naiveCovers(r, target) {
			covered, private = true, private || r.Private
		}
	}
	if isLocalhost(target.Host) {
		return false
	}
	if !target.IsAddr() && target.Host != ServiceHost && isLocalName(target.Host, false) {
		return covered && private
	}
	return covered
}

func naiveCovers(r *Rule, target Target) bool {
	if !r.matchPort(target.Port) {
		return false
	}
	switch {
	case target.IsAddr():
		return r.Prefix.IsValid() && r.Prefix.Contains(target.Addr)
	case r.All:
		return true
	case r.Prefix.IsValid():
		return false
	case r.Wildcard:
		return strings.HasSuffix(target.Host, "."+r.Name)
	}
	return target.Host == r.Name
}
