package fakes

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
)

func testZone() Zone {
	zone := Hosts(map[string][]string{
		"allowed.test": {"198.51.100.10", "2001:db8::10"},
		"*.wild.test":  {"198.51.100.11"},
		"Upper.Test.":  {"198.51.100.12"},
	})
	zone["alias.test"] = Answer{CNAME: "allowed.test"}
	zone["loop.test"] = Answer{CNAME: "loop.test"}
	zone["broken.test"] = Answer{Rcode: dns.RcodeServerFailure}
	zone["large.test"] = Answer{Addrs: []netip.Addr{netip.MustParseAddr("198.51.100.13")}, Truncate: true}
	return zone
}

func TestDNS(t *testing.T) {
	d, err := StartDNS("127.0.0.1:0", testZone(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, tt := range []struct {
		name  string
		qtype uint16
		net   string
		rcode int
		want  string // last field of each record
	}{
		{"allowed.test.", dns.TypeA, "udp", 0, "198.51.100.10"},
		{"allowed.test.", dns.TypeAAAA, "tcp", 0, "2001:db8::10"},
		{"ALLOWED.test.", dns.TypeA, "udp", 0, "198.51.100.10"},
		{"upper.test.", dns.TypeA, "udp", 0, "198.51.100.12"},
		{"upper.test.", dns.TypeAAAA, "udp", 0, ""},
		{"a.b.wild.test.", dns.TypeA, "udp", 0, "198.51.100.11"},
		{"wild.test.", dns.TypeA, "udp", dns.RcodeNameError, ""},
		{"alias.test.", dns.TypeA, "udp", 0, "allowed.test. 198.51.100.10"},
		{"loop.test.", dns.TypeA, "tcp", 0, strings.TrimSpace(strings.Repeat("loop.test. ", 32))},
		{"broken.test.", dns.TypeA, "udp", dns.RcodeServerFailure, ""},
		{"large.test.", dns.TypeA, "udp", 0, "truncated"},
		{"large.test.", dns.TypeA, "tcp", 0, "198.51.100.13"},
		{"unknown.test.", dns.TypeA, "tcp", dns.RcodeNameError, ""},
	} {
		t.Run(tt.name+dns.TypeToString[tt.qtype]+tt.net, func(t *testing.T) {
			q := new(dns.Msg).SetQuestion(tt.name, tt.qtype)
			c := dns.Client{Net: tt.net, Timeout: 10 * time.Second}
			reply, _, err := c.Exchange(q, d.Addr.String())
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, rr := range reply.Answer {
				f := strings.Fields(rr.String())
				got = append(got, f[len(f)-1])
			}
			if reply.Truncated {
				got = append(got, "truncated")
			}
			if reply.Rcode != tt.rcode || strings.Join(got, " ") != tt.want {
				t.Errorf("got %s %q, want %s %q", dns.RcodeToString[reply.Rcode], got, dns.RcodeToString[tt.rcode], tt.want)
			}
			events := d.Log.Events("dns")
			last := events[len(events)-1]
			if last.Name != canonical(tt.name) || last.Proto != tt.net || last.Type != dns.TypeToString[tt.qtype] {
				t.Errorf("logged %+v", last)
			}
		})
	}
}

func TestDNSSilentMangled(t *testing.T) {
	d, err := StartDNS("127.0.0.1:0", Zone{
		"silent.test":  {Silent: true},
		"mangled.test": {Mangle: func(m *dns.Msg) { m.Question[0].Name = "other.test." }},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	c := dns.Client{Timeout: 100 * time.Millisecond}
	if reply, _, err := c.Exchange(new(dns.Msg).SetQuestion("silent.test.", dns.TypeA), d.Addr.String()); err == nil {
		t.Errorf("the silent name answered: %v", reply)
	}
	if _, ok := d.Log.Wait(10*time.Second, func(e Event) bool { return e.Name == "silent.test" }); !ok {
		t.Error("the silent name was not logged")
	}
	c.Timeout = 10 * time.Second
	reply, _, err := c.Exchange(new(dns.Msg).SetQuestion("mangled.test.", dns.TypeA), d.Addr.String())
	if err != nil || reply.Question[0].Name != "other.test." {
		t.Errorf("got %v, %v, want the question of other.test.", reply, err)
	}
	if got := fmt.Sprint(d.Log.Names()); got != "[silent.test mangled.test]" {
		t.Errorf("logged names %s", got)
	}
}

// client trusts ca and connects to addr, whatever the URL's host.
func client(t *testing.T, ca *CA, addr netip.AddrPort) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: ca.Pool()}}
	var d net.Dialer
	tr.DialContext = (&rebound{d, addr.String()}).dial
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 10 * time.Second}
}

// exchange is a request to an origin and what must come of it.
type exchange struct {
	method, path string
	body         func() io.Reader
	status       int
	want         string // the body of the answer
}

func (tt exchange) check(t *testing.T, c *http.Client, scheme string, log *Log) {
	t.Helper()
	var send io.Reader
	if tt.body != nil {
		send = tt.body()
	}
	req, err := http.NewRequest(tt.method, scheme+"://allowed.test"+tt.path, send)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != tt.status || string(body) != tt.want {
		t.Errorf("got %d %q %v, want %d %q", resp.StatusCode, body, err, tt.status, tt.want)
	}
	e, ok := log.Wait(5*time.Second, func(e Event) bool {
		return e.Fake == scheme && e.Path == tt.path && e.Method == tt.method
	})
	if !ok || e.Host != "allowed.test" || e.Status != tt.status {
		t.Errorf("logged %+v", e)
	}
	if scheme == "https" && e.SNI != "allowed.test" {
		t.Errorf("logged SNI %q", e.SNI)
	}
}

func TestOrigins(t *testing.T) {
	ca, err := NewCA()
	if err != nil {
		t.Fatal(err)
	}
	log := &Log{}
	plain, err := StartHTTP("127.0.0.1:0", nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	secure, err := StartHTTPS("127.0.0.1:0", ca, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	defer secure.Close()
	sum := func(n int64) string {
		h := sha256.New()
		io.Copy(h, Pattern(n))
		return hex.EncodeToString(h.Sum(nil))
	}
	for _, tt := range []exchange{
		{"GET", "/some/where", nil, 200, "origin GET allowed.test /some/where\n"},
		{"POST", "/upload", func() io.Reader { return Pattern(300_000) }, 200, `{"bytes":300000,"sha256":"` + sum(300_000) + `"}` + "\n"},
		{"POST", "/echo", func() io.Reader { return strings.NewReader("say it") }, 200, "say it"},
		{"GET", "/status/204", nil, 204, ""},
		{"GET", "/trailers", nil, 200, "body\n"},
		{"GET", "/early", nil, 200, "late\n"},
		{"GET", "/switch", nil, 426, "no upgrade asked for\n"},
		{"HEAD", "/bytes/100", nil, 200, ""},
	} {
		for scheme, o := range map[string]*Origin{"http": plain, "https": secure} {
			t.Run(tt.method+scheme+tt.path, func(t *testing.T) {
				tt.check(t, client(t, ca, o.Addr), scheme, log)
			})
		}
	}
}

func TestTCP(t *testing.T) {
	for name, tt := range map[string]struct {
		talk Talk
		send string
		want string
	}{
		"echo":        {Echo, "abc", "abc"},
		"count":       {Count, "12345", "5 bytes\n"},
		"banner":      {Banner("220 hello\r\n"), "x", "220 hello\r\nx"},
		"half-closed": {HalfClosed("bye\n"), "more", "bye\n"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := StartTCP("127.0.0.1:0", tt.talk, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			conn, err := net.DialTCP("tcp", nil, net.TCPAddrFromAddrPort(o.Addr))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(10 * time.Second))
			io.WriteString(conn, tt.send)
			conn.CloseWrite()
			got, err := io.ReadAll(conn)
			if err != nil || string(got) != tt.want {
				t.Errorf("got %q, %v, want %q", got, err, tt.want)
			}
			if e, ok := o.Log.Wait(5*time.Second, func(Event) bool { return true }); !ok || e.Bytes != int64(len(tt.send)) {
				t.Errorf("logged %+v, want %d bytes", e, len(tt.send))
			}
		})
	}
}

func TestWorld(t *testing.T) {
	doc := `{"dns":["127.0.0.1:0"],"hosts":{"allowed.test":["198.51.100.10"]},
	  "origins":[{"listen":"127.0.0.1:0","kind":"http"},{"listen":"127.0.0.1:0","kind":"model"}],
	  "script":[{"text":"hello"}],"every":"1ms"}`
	w, err := ParseWorld(strings.NewReader(doc))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	run, err := w.Start(NewLog(&out))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: &http.Transport{}}).Get("http://" + run.Addrs[1] + "/")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if _, ok := run.Log.Wait(5*time.Second, func(e Event) bool { return e.Fake == "http" }); !ok {
		t.Error("the request was not logged")
	}
	if err := run.Close(); err != nil {
		t.Error(err)
	}
	var kinds []string
	for dec := json.NewDecoder(&out); dec.More(); {
		var e Event
		if err := dec.Decode(&e); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, e.Fake+e.Type)
	}
	if got := strings.Join(kinds, " "); got != "readydns readyhttp readymodel http" {
		t.Errorf("wrote %s", got)
	}
	if c, err := net.Dial("tcp", run.Addrs[1]); err == nil {
		c.Close()
		t.Error("the origin still listens after Close")
	}
}

func TestWorldBad(t *testing.T) {
	if _, err := ParseWorld(strings.NewReader(`{"orgins":[]}`)); err == nil {
		t.Error("an unknown key was accepted")
	}
	w := World{Origins: []OriginSpec{{Listen: "127.0.0.1:0", Kind: "gopher"}}}
	if run, err := w.Start(&Log{}); err == nil || !strings.Contains(err.Error(), `"gopher"`) {
		t.Errorf("got %v, %v, want an error that names the kind", run, err)
	}
}
