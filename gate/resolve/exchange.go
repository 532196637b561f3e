package resolve

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/miekg/dns"
)

// udpSize is the largest answer over UDP that is not split on the way
// (DNS flag day 2020).
const udpSize = 1232

// newQuery makes a question with a random ID.
func newQuery(name string, qtype uint16, edns bool) *dns.Msg {
	q := new(dns.Msg)
	q.SetQuestion(dns.Fqdn(name), qtype)
	q.RecursionDesired = true
	q.Id = dns.Id() // from crypto/rand
	if edns {
		q.SetEdns0(udpSize, false)
	}
	return q
}

// ask puts one question to one server and returns its answer.
func (r *Resolver) ask(ctx context.Context, s Server, name string, qtype uint16) (*dns.Msg, error) {
	reply, err := r.exchange(ctx, s, newQuery(name, qtype, true))
	if err == nil && unread(reply) {
		return r.exchange(ctx, s, newQuery(name, qtype, false))
	}
	return reply, err
}

func (r *Resolver) exchange(ctx context.Context, s Server, q *dns.Msg) (*dns.Msg, error) {
	switch s.Transport {
	case UDP:
		reply, err := r.overUDP(ctx, s, q)
		if err != nil || !reply.Truncated {
			return reply, err
		}
		return r.overStream(ctx, s, q)
	case TCP, TLS:
		return r.overStream(ctx, s, q)
	case DoH:
		return r.overHTTPS(ctx, s, q)
	}
	return nil, fmt.Errorf("unknown transport %q", s.Transport)
}

// overUDP sends one datagram from a socket of its own, so from a random port,
// and reads until the answer comes: what does not answer the question is
// ignored, as an attacker's guess would be. The socket is connected, so the
// kernel drops what comes from elsewhere.
func (r *Resolver) overUDP(ctx context.Context, s Server, q *dns.Msg) (*dns.Msg, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "udp", s.Addr.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		c.SetDeadline(deadline)
	}
	wire, err := q.Pack()
	if err != nil {
		return nil, err
	}
	if _, err := c.Write(wire); err != nil {
		return nil, err
	}
	buf := make([]byte, dns.MaxMsgSize)
	for {
		n, err := c.Read(buf)
		if err != nil {
			return nil, err
		}
		reply := new(dns.Msg)
		if err := reply.Unpack(buf[:n]); err != nil && !reply.Truncated {
			continue
		}
		if answers(q, reply) {
			return reply, nil
		}
	}
}

// overStream asks over TCP or TLS, on a connection of its own.
func (r *Resolver) overStream(ctx context.Context, s Server, q *dns.Msg) (*dns.Msg, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", s.Addr.String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		c.SetDeadline(deadline)
	}
	if s.Transport == TLS {
		secure := tls.Client(c, r.tlsConfig(s))
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, err
		}
		c = secure
	}
	conn := &dns.Conn{Conn: c}
	if err := conn.WriteMsg(q); err != nil {
		return nil, err
	}
	reply, err := conn.ReadMsg()
	if err != nil {
		return nil, err
	}
	if !answers(q, reply) {
		return nil, errors.New("answer to another question")
	}
	return reply, nil
}

// overHTTPS posts the message. The client keeps connections.
func (r *Resolver) overHTTPS(ctx context.Context, s Server, q *dns.Msg) (*dns.Msg, error) {
	q.Id = 0 // RFC 8484, section 4.1
	wire, err := q.Pack()
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.Addr.String()+s.Path, bytes.NewReader(wire))
	if err != nil {
		return nil, err
	}
	if s.Name != "" {
		req.Host = s.Name
	}
	req.Header.Set("Content-Type", "application/dns-message")
	req.Header.Set("Accept", "application/dns-message")
	resp, err := r.httpClient(s).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("name server answers status %d", resp.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, dns.MaxMsgSize))
	if err != nil {
		return nil, err
	}
	reply := new(dns.Msg)
	if err := reply.Unpack(body); err != nil {
		return nil, err
	}
	if !answers(q, reply) {
		return nil, errors.New("answer to another question")
	}
	return reply, nil
}

func (r *Resolver) tlsConfig(s Server) *tls.Config {
	name := s.Name
	if name == "" {
		name = s.Addr.Addr().String()
	}
	return &tls.Config{ServerName: name, RootCAs: r.roots, MinVersion: tls.VersionTLS12}
}

// httpClient makes the one client of DoH, without the environment's proxies,
// which would lead the question elsewhere.
func (r *Resolver) httpClient(s Server) *http.Client {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, found := r.clients[s]; found {
		return c
	}
	c := &http.Client{
		Transport: &http.Transport{
			Proxy: nil, TLSClientConfig: r.tlsConfig(s), ForceAttemptHTTP2: true,
			MaxIdleConnsPerHost: 2, IdleConnTimeout: time.Minute,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	r.clients[s] = c
	return c
}
