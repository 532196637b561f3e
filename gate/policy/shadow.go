package policy

import "strings"

// shadow returns a rule of x that covers every target of r, or nil. Of a rule for
// the two default ports, one rule each may cover them. Beyond that it looks at
// single rules: what several cover together it doesn't see.
func (x *index) shadow(r *Rule) *Rule {
	switch {
	case r.AnyPort:
		return x.shadowAt(r, 0)
	case r.Port != 0:
		return x.shadowAt(r, r.Port)
	}
	c := x.shadowAt(r, portHTTP)
	if c != nil && x.shadowAt(r, portHTTPS) != nil {
		return c
	}
	return nil
}

// shadowAt is about one port of r, or about all of them.
func (x *index) shadowAt(r *Rule, port uint16) *Rule {
	covers := func(head int32, found bool) *Rule {
		for i := head; found && i >= 0; i = x.next[i] {
			c := x.rules[i]
			if c.AnyPort || port != 0 && c.Port == port {
				return c
			}
		}
		return nil
	}
	if c := covers(x.all-1, true); c != nil {
		return c
	}
	switch {
	case r.All:
		return nil
	case r.Prefix.IsValid():
		for bits := r.Prefix.Bits(); bits >= 0; bits-- {
			p, err := r.Prefix.Addr().Prefix(bits)
			if err != nil {
				return nil
			}
			head, found := x.ranges[p]
			if p.IsSingleIP() {
				head, found = x.addrs[p.Addr()]
			}
			if c := covers(head, found); c != nil {
				return c
			}
		}
		return nil
	}
	if !r.Wildcard {
		head, found := x.exact[r.Name]
		if c := covers(head, found); c != nil {
			return c
		}
	}
	name := r.Name
	if !r.Wildcard {
		_, name, _ = strings.Cut(name, ".")
	}
	for ; name != ""; _, name, _ = strings.Cut(name, ".") {
		head, found := x.wildcard[name]
		if c := covers(head, found); c != nil {
			return c
		}
	}
	return nil
}
