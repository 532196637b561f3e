package policy

import "strings"

// shadow returns a rule of x that covers every target of r, or nil. It looks at
// single rules: what several cover together it doesn't see.
func (x *index) shadow(r *Rule) *Rule {
	covers := func(head int32, found bool) *Rule {
		for i := head; found && i >= 0; i = x.next[i] {
			c := x.rules[i]
			if c.AnyPort || !r.AnyPort && c.Port != 0 && c.Port == r.Port {
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
