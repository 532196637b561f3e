package resolve

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// A guessed answer that comes first is passed over, not believed and not taken
// for a failure.
func TestForgedAnswer(t *testing.T) {
	pc, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer pc.Close()
	go func() {
		buf := make([]byte, 1500)
		for {
			n, from, err := pc.ReadFrom(buf)
			if err != nil {
				return
			}
			q := new(dns.Msg)
			if q.Unpack(buf[:n]) != nil {
				continue
			}
			for _, a := range []struct {
				id   uint16
				addr string
			}{{q.Id + 1, "192.0.2.66"}, {q.Id, "192.0.2.1"}} {
				m := new(dns.Msg).SetReply(q)
				m.Id = a.id
				if q.Question[0].Qtype == dns.TypeA {
					m.Answer = []dns.RR{&dns.A{
						Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
						A:   net.ParseIP(a.addr),
					}}
				}
				wire, _ := m.Pack()
				pc.WriteTo([]byte("garbage"), from)
				pc.WriteTo(wire, from)
			}
		}
	}()
	r := New(Config{Servers: []Server{{Transport: UDP, Addr: pc.LocalAddr().(*net.UDPAddr).AddrPort()}}})
	got, err := r.Lookup(t.Context(), "a.test")
	if fmt.Sprint(got) != "[192.0.2.1]" || err != nil {
		t.Errorf("got %v, %v, want the true answer", got, err)
	}
}

// Whatever bytes come back, an address is taken only from an answer to the
// question, from a record of the asked type and class.
func FuzzReadAnswer(f *testing.F) {
	q := newQuery("a.test", dns.TypeA, true)
	m := new(dns.Msg).SetReply(q)
	m.Answer = []dns.RR{
		&dns.CNAME{Hdr: dns.RR_Header{Name: "a.test.", Rrtype: dns.TypeCNAME, Class: dns.ClassINET, Ttl: 9}, Target: "b.test."},
		&dns.A{Hdr: dns.RR_Header{Name: "b.test.", Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 9}, A: net.IPv4(192, 0, 2, 1)},
	}
	wire, _ := m.Pack()
	f.Add(wire[2:]) // without the ID
	f.Fuzz(func(t *testing.T, wire []byte) {
		reply := new(dns.Msg)
		if reply.Unpack(append([]byte{byte(q.Id >> 8), byte(q.Id)}, wire...)) != nil || !answers(q, reply) {
			return
		}
		a := readAnswer(reply, dns.TypeA)
		if len(a.addrs) > 0 && a.kind != found || a.ttl > maxTTL || a.links > maxChain+1 {
			t.Fatalf("answer %+v of %s", a, reply)
		}
		for _, addr := range a.addrs {
			if !addr.Is4() {
				t.Fatalf("address %s of a question for A", addr)
			}
		}
	})
}

// Over TLS and HTTPS the certificate must be for the server's name or address;
// an answer by anyone else is none.
func TestEncrypted(t *testing.T) {
	ca, err := fakes.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	zone := fakes.Hosts(map[string][]string{"a.test": {"192.0.2.1"}})
	plain, err := fakes.StartDNS("127.0.0.1:0", zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	dot := overTLS(t, ca, plain.Addr)
	doh, err := fakes.StartHTTPS("127.0.0.1:0", ca, postDNS(plain.Addr), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer doh.Close()
	other, err := fakes.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	for _, server := range []Server{
		{Transport: TLS, Addr: dot}, {Transport: TLS, Addr: dot, Name: "dns.test"},
		{Transport: DoH, Addr: doh.Addr, Path: "/dns-query"}, {Transport: DoH, Addr: doh.Addr, Path: "/dns-query", Name: "dns.test"},
		{Transport: TCP, Addr: plain.Addr},
	} {
		r := New(Config{Servers: []Server{server}, Roots: ca.Pool()})
		got, err := r.Lookup(t.Context(), "a.test")
		if fmt.Sprint(got) != "[192.0.2.1]" || err != nil {
			t.Errorf("%s: %v, %v", server, got, err)
		}
		if _, err := r.Lookup(t.Context(), "none.test"); !errors.Is(err, ErrNoName) {
			t.Errorf("%s: %v, want ErrNoName", server, err)
		}
		if server.Transport == TCP {
			continue
		}
		stranger := New(Config{Servers: []Server{server}, Roots: other.Pool()})
		if got, err := stranger.Lookup(t.Context(), "a.test"); !errors.Is(err, ErrFailed) {
			t.Errorf("%s: an unknown authority gives %v, %v", server, got, err)
		}
	}
}

// overTLS puts TLS in front of a name server's TCP side.
func overTLS(t *testing.T, ca *fakes.CA, plain netip.AddrPort) netip.AddrPort {
	t.Helper()
	conf := ca.Config()
	conf.NextProtos = nil
	ln, err := tls.Listen("tcp", "127.0.0.1:0", conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			up, err := net.Dial("tcp", plain.String())
			if err != nil {
				c.Close()
				continue
			}
			go func() { io.Copy(up, c); up.Close() }()
			go func() { io.Copy(c, up); c.Close() }()
		}
	}()
	return ln.Addr().(*net.TCPAddr).AddrPort()
}

// postDNS answers DNS over HTTPS from a name server.
func postDNS(plain netip.AddrPort) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		wire, err := io.ReadAll(r.Body)
		q := new(dns.Msg)
		if err != nil || q.Unpack(wire) != nil || r.Header.Get("Content-Type") != "application/dns-message" || r.URL.Path != "/dns-query" {
			http.Error(w, "no query", http.StatusBadRequest)
			return
		}
		reply, _, err := new(dns.Client).Exchange(q, plain.String())
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		wire, _ = reply.Pack()
		w.Header().Set("Content-Type", "application/dns-message")
		w.Write(wire)
	})
}

// A server from before EDNS may answer what it can't read with a bare head, in which
// the question isn't repeated; then it is asked as such a server is.
func TestServerBeforeEDNS(t *testing.T) {
	for _, rcode := range []int{dns.RcodeFormatError, dns.RcodeNotImplemented} {
		pc, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer pc.Close()
		go func() {
			buf := make([]byte, 1500)
			for {
				n, from, err := pc.ReadFrom(buf)
				if err != nil {
					return
				}
				q := new(dns.Msg)
				if q.Unpack(buf[:n]) != nil {
					continue
				}
				m := new(dns.Msg).SetReply(q)
				switch {
				case q.IsEdns0() != nil:
					m.Rcode, m.Question = rcode, nil
				case q.Question[0].Qtype == dns.TypeA:
					m.Answer = []dns.RR{&dns.A{
						Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 60},
						A:   net.ParseIP("192.0.2.1"),
					}}
				}
				wire, _ := m.Pack()
				pc.WriteTo(wire, from)
			}
		}()
		r := New(Config{Servers: []Server{{Transport: UDP, Addr: pc.LocalAddr().(*net.UDPAddr).AddrPort()}}, Timeout: 3 * time.Second})
		got, err := r.Lookup(t.Context(), "a.test")
		if fmt.Sprint(got) != "[192.0.2.1]" || err != nil {
			t.Errorf("rcode %d: got %v, %v", rcode, got, err)
		}
	}
}

// Without a question only that one answer is one.
func TestAnswerWithoutQuestion(t *testing.T) {
	q := newQuery("a.test", dns.TypeA, true)
	for rcode, want := range map[int]bool{dns.RcodeSuccess: false, dns.RcodeNameError: false, dns.RcodeServerFailure: false, dns.RcodeFormatError: true} {
		m := new(dns.Msg).SetReply(q)
		m.Question, m.Rcode = nil, rcode
		if got := answers(q, m); got != want {
			t.Errorf("rcode %d: %v", rcode, got)
		}
		if m.Id++; answers(q, m) {
			t.Errorf("rcode %d: another ID is taken", rcode)
		}
	}
}
