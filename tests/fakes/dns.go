package fakes

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// Answer is what a name server says of a name, for all types.
type Answer struct {
	Addrs []netip.Addr // A and AAAA records
	CNAME string       // an alias; its target's records follow when known
	TTL   uint32       // seconds; 0 is 60
	Rcode int          // dns.RcodeServerFailure and the like, without records

	Silent   bool           // no answer at all
	Delay    time.Duration  // before the answer
	Truncate bool           // over UDP: TC set and no records, so that TCP must be asked
	Mangle   func(*dns.Msg) // last change to the answer: another ID, question, class
}

// Zone is a table of names, lower case and without the final dot. A name that
// starts with "*." answers for those below it that have no entry of their own.
type Zone map[string]Answer

// Hosts makes a Zone of names and their addresses, as text. It panics when one
// is no address, since a test's table is wrong then.
func Hosts(table map[string][]string) Zone {
	zone := Zone{}
	for name, addrs := range table {
		var a Answer
		for _, s := range addrs {
			a.Addrs = append(a.Addrs, netip.MustParseAddr(s))
		}
		zone[canonical(name)] = a
	}
	return zone
}

// DNS is an authoritative name server over UDP and TCP. Names outside its zone
// do not exist.
type DNS struct {
	Log  *Log
	Addr netip.AddrPort // of both listeners

	mu      sync.Mutex
	zone    Zone
	servers []*dns.Server
	done    sync.WaitGroup
}

// StartDNS listens on addr ("203.0.113.53:53"; port 0 chooses one) over UDP and
// TCP and answers from zone. A nil log makes one.
func StartDNS(addr string, zone Zone, log *Log) (*DNS, error) {
	pc, ln, err := listenBoth(addr)
	if err != nil {
		return nil, fmt.Errorf("start name server on %s: %w", addr, err)
	}
	if log == nil {
		log = &Log{}
	}
	d := &DNS{Log: log, Addr: pc.LocalAddr().(*net.UDPAddr).AddrPort(), zone: maps.Clone(zone)}
	if d.zone == nil {
		d.zone = Zone{}
	}
	for _, srv := range []*dns.Server{
		{PacketConn: pc, Handler: d.handler("udp")},
		{Listener: ln, Handler: d.handler("tcp")},
	} {
		started := make(chan struct{})
		srv.NotifyStartedFunc = func() { close(started) }
		d.servers = append(d.servers, srv)
		d.done.Go(func() { srv.ActivateAndServe() })
		<-started // Shutdown of a server that hasn't started is an error
	}
	return d, nil
}

// listenBoth opens the same port over UDP and TCP.
func listenBoth(addr string) (net.PacketConn, net.Listener, error) {
	var errs error
	for range 20 { // with port 0, the one that UDP got may be taken over TCP
		pc, err := net.ListenPacket("udp", addr)
		if err != nil {
			return nil, nil, err
		}
		ln, err := net.Listen("tcp", pc.LocalAddr().String())
		if err == nil {
			return pc, ln, nil
		}
		errs = errors.Join(errs, err)
		pc.Close()
	}
	return nil, nil, errs
}

// Set replaces the answer for name.
func (d *DNS) Set(name string, a Answer) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.zone[canonical(name)] = a
}

// Close ends both servers and waits for them.
func (d *DNS) Close() error {
	var errs error
	for _, srv := range d.servers {
		errs = errors.Join(errs, srv.Shutdown())
	}
	d.done.Wait()
	return errs
}

func canonical(name string) string { return strings.ToLower(strings.TrimSuffix(name, ".")) }

func (d *DNS) handler(proto string) dns.HandlerFunc {
	return func(w dns.ResponseWriter, q *dns.Msg) {
		reply, a := d.reply(q, proto)
		e := Event{Fake: "dns", Addr: d.Addr.String(), Client: w.RemoteAddr().String(), Proto: proto,
			Rcode: dns.RcodeToString[reply.Rcode]}
		if len(q.Question) == 1 {
			e.Name, e.Type = canonical(q.Question[0].Name), dns.TypeToString[q.Question[0].Qtype]
		}
		d.Log.Add(e)
		if a.Silent {
			return
		}
		time.Sleep(a.Delay)
		if proto == "udp" {
			size := dns.MinMsgSize
			if opt := q.IsEdns0(); opt != nil {
				size = int(opt.UDPSize())
			}
			tc := reply.Truncated
			reply.Truncate(size) // sets TC when records had to go, else clears it
			reply.Truncated = reply.Truncated || tc
		}
		if a.Mangle != nil {
			a.Mangle(reply)
		}
		w.WriteMsg(reply)
	}
}

// reply answers from the zone as it is now.
func (d *DNS) reply(q *dns.Msg, proto string) (*dns.Msg, Answer) {
	reply := new(dns.Msg)
	reply.SetReply(q)
	reply.Authoritative = true
	reply.RecursionAvailable = true
	if len(q.Question) != 1 {
		return reply.SetRcodeFormatError(q), Answer{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	question := q.Question[0]
	first, known := d.lookup(question.Name)
	switch {
	case !known:
		reply.Rcode = dns.RcodeNameError
	case first.Rcode != 0:
		reply.Rcode = first.Rcode
		return reply, first
	case first.Truncate && proto == "udp":
		reply.Truncated = true
		return reply, first
	}
	reply.Answer = d.records(question)
	if len(reply.Answer) == 0 {
		reply.Ns = []dns.RR{soa(question.Name)} // for how long "no" holds (RFC 2308, section 3)
	}
	return reply, first
}

func (d *DNS) lookup(name string) (Answer, bool) {
	name = canonical(name)
	if a, ok := d.zone[name]; ok {
		return a, true
	}
	for rest := name; ; {
		_, parent, found := strings.Cut(rest, ".")
		if !found {
			return Answer{}, false
		}
		if a, ok := d.zone["*."+parent]; ok {
			return a, true
		}
		rest = parent
	}
}

// records follows aliases within the zone, but no loop of them.
func (d *DNS) records(q dns.Question) []dns.RR {
	var rrs []dns.RR
	name := q.Name
	for range 32 {
		a, known := d.lookup(name)
		if !known {
			break
		}
		hdr := dns.RR_Header{Name: name, Class: dns.ClassINET, Ttl: a.TTL}
		if hdr.Ttl == 0 {
			hdr.Ttl = 60
		}
		if a.CNAME != "" {
			hdr.Rrtype = dns.TypeCNAME
			rrs = append(rrs, &dns.CNAME{Hdr: hdr, Target: dns.Fqdn(a.CNAME)})
			name = dns.Fqdn(a.CNAME)
			continue
		}
		for _, addr := range a.Addrs {
			switch {
			case q.Qtype == dns.TypeA && addr.Is4():
				hdr.Rrtype = dns.TypeA
				rrs = append(rrs, &dns.A{Hdr: hdr, A: addr.AsSlice()})
			case q.Qtype == dns.TypeAAAA && addr.Is6():
				hdr.Rrtype = dns.TypeAAAA
				rrs = append(rrs, &dns.AAAA{Hdr: hdr, AAAA: addr.AsSlice()})
			}
		}
		break
	}
	return rrs
}

func soa(name string) dns.RR {
	return &dns.SOA{
		Hdr: dns.RR_Header{Name: name, Rrtype: dns.TypeSOA, Class: dns.ClassINET, Ttl: 60},
		Ns:  "ns.invalid.", Mbox: "nobody.invalid.", Serial: 1, Refresh: 60, Retry: 60, Expire: 60, Minttl: 60,
	}
}
