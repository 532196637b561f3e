package policy

import (
	"net/netip"
	"slices"
	"strings"
)

// index finds the rules for a target by look-ups in hash tables: of the whole
// name, and of what follows each of its dots. A look-up with a part of a string
// allocates nothing.
type index struct {
	deny  bool // a list of denials
	rules []*Rule
	next  []int32 // next rule with the same key, or -1

	exact    map[string]int32
	wildcard map[string]int32 // by the name without "*."
	all      int32            // head of the rules "*" plus one, 0 is none
	addrs    map[netip.Addr]int32
	ranges   map[netip.Prefix]int32
	bits4    [33]bool // lengths of IPv4 ranges that exist
	bits6    [129]bool
	depth    int // most labels in a wildcard
}

func newIndex(n int, deny bool) index {
	return index{
		deny:  deny,
		rules: make([]*Rule, 0, n), next: make([]int32, 0, n),
		exact: make(map[string]int32), wildcard: make(map[string]int32),
		addrs: make(map[netip.Addr]int32), ranges: make(map[netip.Prefix]int32),
	}
}

// add appends a rule. Of those with one key the last given is the first found.
func (x *index) add(r *Rule) {
	i := int32(len(x.rules))
	x.rules = append(x.rules, r)
	x.next = append(x.next, -1)
	switch {
	case r.All:
		x.next[i], x.all = x.all-1, i+1
	case r.Prefix.IsValid() && r.Prefix.IsSingleIP():
		chain(x, x.addrs, r.Prefix.Addr(), i)
	case r.Prefix.IsValid():
		chain(x, x.ranges, r.Prefix, i)
		if r.Prefix.Addr().Is4() {
			x.bits4[r.Prefix.Bits()] = true
		} else {
			x.bits6[r.Prefix.Bits()] = true
		}
	case r.Wildcard:
		chain(x, x.wildcard, r.Name, i)
		x.depth = max(x.depth, strings.Count(r.Name, ".")+1)
	default:
		chain(x, x.exact, r.Name, i)
	}
}

// chain puts rule i at the head of its key's list.
func chain[K comparable](x *index, m map[K]int32, key K, i int32) {
	if head, found := m[key]; found {
		x.next[i] = head
	}
	m[key] = i
}

// collect gathers what the rules say of a target: it is in when any rule covers
// it, and what any of them opens is open. The most specific rule, an exact name
// before the longest wildcard before "*", gives its name and its budget.
func (x *index) collect(t Target) Decision {
	d := Decision{Reason: NotListed}
	if t.IsAddr() {
		if i := x.matchAddr(t.Addr, t.Port); i >= 0 {
			return Decision{Allow: true, Reason: Listed, Rule: x.rules[i]}
		}
		return d
	}
	if head, found := x.exact[t.Host]; found {
		x.merge(&d, head, t.Port)
	}
	if len(x.wildcard) > 0 {
		rest := t.Host
		left := strings.Count(rest, ".") + 1 // labels in rest
		for left > 1 {
			rest = rest[strings.IndexByte(rest, '.')+1:]
			if left--; left > x.depth {
				continue
			}
			if head, found := x.wildcard[rest]; found {
				x.merge(&d, head, t.Port)
			}
		}
	}
	if x.all > 0 {
		x.merge(&d, x.all-1, t.Port)
	}
	return d
}

// merge adds the rules of one key to a decision. They are equally specific, so the
// least of their budgets counts, in whatever order they were given.
func (x *index) merge(d *Decision, head int32, port uint16) {
	settled := d.Allow
	for i := head; i >= 0; i = x.next[i] {
		r := x.rules[i]
		switch {
		case !r.matchPort(port):
			if !d.Allow {
				d.Reason = PortNotListed
			}
			continue
		case !d.Allow:
			d.Allow, d.Reason, d.Rule, d.Upload = true, Listed, r, r.Upload
		case !settled && r.Upload > 0 && (d.Upload == 0 || r.Upload < d.Upload):
			d.Rule, d.Upload = r, r.Upload
		}
		d.Private = d.Private || r.Private
		d.TCP = d.TCP || r.TCP
	}
}

// matchAddr returns the rule that covers an address, the longest range first,
// or -1.
func (x *index) matchAddr(a netip.Addr, port uint16) int32 {
	a = a.Unmap()
	if head, found := x.addrs[a]; found {
		if i := x.firstWithPort(head, port); i >= 0 {
			return i
		}
	}
	if len(x.ranges) == 0 {
		return x.firstWithPort(x.allIfDeny(), port)
	}
	bits := x.bits4[:]
	if a.Is6() {
		bits = x.bits6[:]
	}
	for n, bit := range slices.Backward(bits) {
		if !bit {
			continue
		}
		p, err := a.Prefix(n)
		if err != nil {
			continue
		}
		if head, found := x.ranges[p]; found {
			if i := x.firstWithPort(head, port); i >= 0 {
				return i
			}
		}
	}
	return x.firstWithPort(x.allIfDeny(), port)
}

// allIfDeny is the rule "*" of a list of denials, which covers addresses too.
// That of an allow list means public names and no address.
func (x *index) allIfDeny() int32 {
	if x.deny {
		return x.all - 1
	}
	return -1
}

func (x *index) firstWithPort(head int32, port uint16) int32 {
	for i := head; i >= 0; i = x.next[i] {
		if x.rules[i].matchPort(port) {
			return i
		}
	}
	return -1
}
