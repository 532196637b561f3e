package direct

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Book remembers what was found. An address that a name had stays open for a while
// after the name has it no more: connections to it may be under way, and whoever
// spreads a name's load gives other addresses in each answer. The sandbox is told only
// of those that the name has. One that may not be reached any more goes at once (Drop).
type Book struct {
	linger  time.Duration
	limit   int // of peers
	entries []*entry
	bad     map[policy.Target]policy.Reason // what has no answer at present
}

// entry is an address that a target has led to.
type entry struct {
	target  policy.Target
	addr    netip.Addr
	seen    time.Time // in an answer
	current bool      // in the last answer
}

func (e *entry) peer() netip.AddrPort { return netip.AddrPortFrom(e.addr, e.target.Port) }

// NewBook makes an empty book. Addresses stay for linger after they were last seen;
// limit bounds how many there are with their ports.
func NewBook(linger time.Duration, limit int) *Book {
	return &Book{linger: linger, limit: limit, bad: map[policy.Target]policy.Reason{}}
}

// Change is something that a user may want to know.
type Change struct {
	Answer                // what has led to it
	Peer   netip.AddrPort // that was opened or shut; invalid when the target has no answer
	Open   bool
}

// Take takes answers in and returns what has changed. Of a target about which nothing
// could be learned everything stays as it is.
func (b *Book) Take(answers []Answer, now time.Time) []Change {
	var changes []Change
	for _, a := range answers {
		if !a.Allowed() {
			changes = append(changes, b.fail(a)...)
			if a.unknown() {
				continue
			}
		}
		changes = append(changes, b.age(a, now)...)
		changes = append(changes, b.enter(a, now)...)
		switch {
		case !a.Allowed():
		case b.has(a.Target):
			delete(b.bad, a.Target)
		default:
			changes = append(changes, b.fail(Answer{Target: a.Target, Rule: a.Rule, Reason: policy.Limit,
				Why: fmt.Sprintf("%d other addresses and ports are open, as many as can be", b.limit)})...)
		}
	}
	return changes
}

// Drop lets go, before their time, of the addresses that may not be reached any more.
func (b *Book) Drop(refuses func(policy.Target, netip.Addr) (policy.Reason, bool)) []Change {
	var changes []Change
	b.entries = slices.DeleteFunc(b.entries, func(e *entry) bool {
		reason, refused := refuses(e.target, e.addr)
		if refused {
			changes = append(changes, Change{Answer: Answer{Target: e.target, Reason: reason}, Peer: e.peer()})
		}
		return refused
	})
	return changes
}

// fail notes that a target has no answer, once.
func (b *Book) fail(a Answer) []Change {
	if b.bad[a.Target] == a.Reason {
		return nil
	}
	b.bad[a.Target] = a.Reason
	return []Change{{Answer: a}}
}

// has reports whether a target has an address at present.
func (b *Book) has(t policy.Target) bool {
	return slices.ContainsFunc(b.entries, func(e *entry) bool { return e.target == t && e.current })
}

// enter adds the addresses of an answer.
func (b *Book) enter(a Answer, now time.Time) []Change {
	var changes []Change
	for _, addr := range a.Addrs {
		i := slices.IndexFunc(b.entries, func(e *entry) bool { return e.target == a.Target && e.addr == addr })
		if i < 0 {
			e := &entry{target: a.Target, addr: addr}
			changed, room := b.makeRoom(e.peer())
			changes = append(changes, changed...)
			if !room {
				continue // the others do: a name needs one of its addresses
			}
			i = len(b.entries)
			b.entries = append(b.entries, e)
			changes = append(changes, Change{Answer: a, Peer: e.peer(), Open: true})
		}
		b.entries[i].seen, b.entries[i].current = now, true
	}
	return changes
}

// age marks what a target hasn't any more, and lets go of what was marked for long.
func (b *Book) age(a Answer, now time.Time) []Change {
	var changes []Change
	b.entries = slices.DeleteFunc(b.entries, func(e *entry) bool {
		if e.target != a.Target || slices.Contains(a.Addrs, e.addr) {
			return false
		}
		e.current = false
		if now.Sub(e.seen) < b.linger {
			return false
		}
		changes = append(changes, Change{Answer: a, Peer: e.peer()})
		return true
	})
	return changes
}

// makeRoom lets go of the address that was seen longest ago, if another finds no
// place. Those that names have stay.
func (b *Book) makeRoom(p netip.AddrPort) (changes []Change, room bool) {
	peers := b.Peers()
	if len(peers) < b.limit || slices.Contains(peers, p) {
		return nil, true
	}
	oldest := -1
	for i, e := range b.entries {
		if !e.current && (oldest < 0 || e.seen.Before(b.entries[oldest].seen)) {
			oldest = i
		}
	}
	if oldest < 0 {
		return nil, false
	}
	e := b.entries[oldest]
	b.entries = slices.Delete(b.entries, oldest, oldest+1)
	more, room := b.makeRoom(p) // it may have been another name's too
	return append([]Change{{Answer: Answer{Target: e.target, Reason: policy.Limit}, Peer: e.peer()}}, more...), room
}

// Peers are the addresses and ports that are open, sorted, each once.
func (b *Book) Peers() []netip.AddrPort {
	peers := make([]netip.AddrPort, 0, len(b.entries))
	for _, e := range b.entries {
		peers = append(peers, e.peer())
	}
	slices.SortFunc(peers, netip.AddrPort.Compare)
	return slices.Compact(peers)
}

// Lines are what the sandbox's hosts file has to say: each name with the addresses
// that it has, in the order in which they came.
func (b *Book) Lines() []Line {
	var lines []Line
	for _, e := range b.entries {
		l := Line{Addr: e.addr, Name: e.target.Host}
		if e.current && l.Name != "" && !slices.Contains(lines, l) {
			lines = append(lines, l)
		}
	}
	return lines
}

// Names is the number of names and addresses that are open by themselves.
func (b *Book) Names() int {
	names := map[string]bool{}
	for _, e := range b.entries {
		names[e.target.Name()] = true
	}
	return len(names)
}
