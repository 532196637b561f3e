//go:build linux

package attack

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/miekg/dns"
)

// allowed is the one service that may be reached. It answers whatever comes, and
// says what of it it saw.
func (c *Canaries) allowed() error {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.Plan.Allowed = fmt.Sprintf("host.containers.internal:%d", l.Addr().(*net.TCPAddr).Port)
	c.closer = append(c.closer, l)
	c.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			c.wg.Go(func() { c.serve(conn) })
		}
	})
	return nil
}

// allowedPatience is how long the allowed service waits for the next request.
const allowedPatience = 2 * time.Second

func (c *Canaries) serve(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	for {
		conn.SetDeadline(time.Now().Add(allowedPatience))
		if _, err := r.Peek(1); err != nil {
			return
		}
		seen, _ := r.Peek(r.Buffered())
		if bytes.Contains(bytes.ToLower(seen), []byte(token(""))) {
			c.visit("the allowed service", seen)
		}
		req, err := http.ReadRequest(r)
		if err != nil { // not HTTP: an answer all the same, so that the other side sees that it came through
			_, _ = io.WriteString(conn, "HTTP/1.1 400 seen\r\nConnection: close\r\n\r\n")
			return
		}
		_, _ = io.Copy(io.Discard, io.LimitReader(req.Body, 1<<20))
		body := fmt.Sprintf("host=%s\nupgrade=%s\n", req.Host, req.Header.Get("Upgrade"))
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
}

// nameServer is the only one that the session's gate asks. It answers the names
// of the rebindings, and notes any other that it is asked for.
func (c *Canaries) nameServer() error {
	u, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	c.names = u.LocalAddr().String()
	ready := make(chan struct{})
	srv := &dns.Server{PacketConn: u, NotifyStartedFunc: func() { close(ready) }, Handler: dns.HandlerFunc(c.answerName)}
	c.wg.Go(func() { _ = srv.ActivateAndServe() })
	<-ready
	c.closer = append(c.closer, closeFunc(func() error { return srv.ShutdownContext(context.Background()) }))
	return nil
}

type closeFunc func() error

// Close implements io.Closer.
func (f closeFunc) Close() error { return f() }

func (c *Canaries) answerName(w dns.ResponseWriter, q *dns.Msg) {
	m := new(dns.Msg).SetReply(q)
	defer func() { _ = w.WriteMsg(m) }()
	if len(q.Question) != 1 {
		return
	}
	name := strings.TrimSuffix(strings.ToLower(q.Question[0].Name), ".")
	for _, r := range rebindings {
		if name == rebindName(r.id) {
			m.Answer = records(q.Question[0], r.addrs)
			return
		}
	}
	m.Rcode = dns.RcodeNameError
	if name != rebindName("may-resolve-listed") {
		c.visit("the canary name server", []byte(name))
	}
}

func records(q dns.Question, addrs []string) []dns.RR {
	var list []dns.RR
	for _, a := range addrs {
		ip := net.ParseIP(a)
		head := dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 1}
		switch v6 := strings.Contains(a, ":"); {
		case v6 && q.Qtype == dns.TypeAAAA:
			list = append(list, &dns.AAAA{Hdr: head, AAAA: ip})
		case !v6 && q.Qtype == dns.TypeA:
			list = append(list, &dns.A{Hdr: head, A: ip})
		}
	}
	return list
}
