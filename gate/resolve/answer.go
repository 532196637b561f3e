package resolve

import (
	"net/netip"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// maxChain bounds the CNAME records that are followed for one name.
const maxChain = 12

// answer is what a message says about one question.
type answer struct {
	addrs []netip.Addr
	next  string // the name to ask further, when the message ends in a CNAME
	links int    // CNAME records followed
	ttl   time.Duration
	kind  outcome
}

type outcome int

const (
	failed   outcome = iota // no usable answer
	found                   // addresses, or a name to ask further
	noRecord                // the name exists without such a record
	noName                  // NXDOMAIN
)

// answers reports whether a message is an answer to this very question. The ID
// alone can be guessed in 65,536 tries, and a delayed answer to another
// question may carry it by chance (RFC 5452, section 9.1).
func answers(query, reply *dns.Msg) bool {
	if !reply.Response || reply.Id != query.Id || reply.Opcode != dns.OpcodeQuery {
		return false
	}
	if len(reply.Question) == 0 && unread(reply) {
		return true // what it couldn't read, a server need not repeat
	}
	if len(reply.Question) != 1 {
		return false
	}
	q, r := query.Question[0], reply.Question[0]
	return strings.EqualFold(q.Name, r.Name) && q.Qtype == r.Qtype && q.Qclass == r.Qclass
}

// unread reports whether a server says that it doesn't understand the question, as
// those from before EDNS do (RFC 6891, section 7).
func unread(reply *dns.Msg) bool {
	return reply.Rcode == dns.RcodeFormatError || reply.Rcode == dns.RcodeNotImplemented
}

// readAnswer takes the addresses out of a message: those of the asked name or
// of a name that its CNAME records lead to. Records of any other owner were not
// asked for. It is pure.
func readAnswer(m *dns.Msg, qtype uint16) answer {
	a := answer{kind: noRecord, ttl: maxTTL}
	switch m.Rcode {
	case dns.RcodeSuccess:
	case dns.RcodeNameError:
		return answer{kind: noName, ttl: negativeTTL(m)}
	default:
		return answer{}
	}
	name := m.Question[0].Name
	for {
		next := ""
		for _, rr := range m.Answer {
			h := rr.Header()
			if h.Class != dns.ClassINET || !strings.EqualFold(h.Name, name) {
				continue
			}
			if addr, ok := address(rr, qtype); ok {
				a.addrs = append(a.addrs, addr)
				a.lower(h.Ttl)
			} else if c, ok := rr.(*dns.CNAME); ok && next == "" {
				next = c.Target
				a.lower(h.Ttl)
			}
		}
		if len(a.addrs) > 0 {
			a.kind, a.next = found, ""
			return a
		}
		if next == "" {
			break
		}
		if a.links++; a.links > maxChain {
			return answer{} // too long, or a loop
		}
		name, a.next = next, next
	}
	if a.next == "" || hasSOA(m) {
		// RFC 2308, section 2.2: with the SOA the server speaks of the end of
		// the chain; there is nothing further to ask.
		a.next = ""
		a.ttl = negativeTTL(m)
		return a
	}
	a.kind = found
	return a
}

// isLocal reports names without a meaning in the public DNS: single labels,
// .local (RFC 6762), .internal and .localhost (RFC 6761, section 6.3). No rule
// names the target of an alias, so nothing asks for one of these because an
// alias points there.
func isLocal(name string) bool {
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last == name || last == "local" || last == "internal" || last == "localhost"
}

func (a *answer) lower(ttl uint32) { a.ttl = min(a.ttl, time.Duration(ttl)*time.Second) }

// address returns the address in a record of the asked type.
func address(rr dns.RR, qtype uint16) (netip.Addr, bool) {
	switch rr := rr.(type) {
	case *dns.A:
		if addr, ok := netip.AddrFromSlice(rr.A.To4()); ok && qtype == dns.TypeA {
			return addr, true
		}
	case *dns.AAAA:
		if addr, ok := netip.AddrFromSlice(rr.AAAA.To16()); ok && qtype == dns.TypeAAAA {
			return addr, true
		}
	}
	return netip.Addr{}, false
}

func hasSOA(m *dns.Msg) bool {
	for _, rr := range m.Ns {
		if _, ok := rr.(*dns.SOA); ok {
			return true
		}
	}
	return false
}

// negativeTTL is how long the absence may be remembered (RFC 2308, section 5):
// without an SOA record not at all.
func negativeTTL(m *dns.Msg) time.Duration {
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(time.Duration(min(soa.Hdr.Ttl, soa.Minttl))*time.Second, maxNegativeTTL)
		}
	}
	return 0
}
