package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Upstream is another HTTP proxy, through which a gate connects. What may be
// connected to is decided as without it.
type Upstream struct {
	Addr          string // HOST:PORT; a name is resolved as any other, but not judged
	Authorization string // of Proxy-Authorization, "" sends none
	Resolves      bool   // names are passed on: their addresses are not known here, and not judged
}

// takes reports whether a decision's connections go through the proxy. The
// host's own services and the private network are not the proxy's business.
func (u *Upstream) takes(d *decision) bool {
	if u == nil || d.Reason == policy.HostService {
		return false
	}
	return !slices.ContainsFunc(d.addrs, func(a netip.AddrPort) bool { return policy.Classify(a.Addr()) == policy.Private })
}

// resolves reports whether the proxy is to find a target's addresses. A rule
// with +private is about names that only this machine's network knows.
func (u *Upstream) resolves(t policy.Target, d policy.Decision) bool {
	return u != nil && u.Resolves && !t.IsAddr() && d.Reason != policy.HostService && !d.Private
}

// upstreamDelay is how long the proxy may take for one address before it is asked
// for the next as well. It is far away, and what it is asked for is farther.
const upstreamDelay = 2 * time.Second

// dialUpstream connects through the proxy, to one of the addresses that were
// judged, or to the name if the proxy resolves.
func (g *Gate) dialUpstream(ctx context.Context, d *decision) (*net.TCPConn, netip.AddrPort, error) {
	if d.byName {
		conn, err := g.tunnelTo(ctx, d.target.String())
		return conn, netip.AddrPort{}, err
	}
	return anyOf(ctx, order(d.addrs), upstreamDelay, func(ctx context.Context, to netip.AddrPort) (*net.TCPConn, error) {
		return g.tunnelTo(ctx, to.String())
	})
}

// tunnelTo asks the proxy for a tunnel.
func (g *Gate) tunnelTo(ctx context.Context, target string) (*net.TCPConn, error) {
	conn, err := g.dialProxy(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the upstream proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	err = g.upstream.ask(conn, target)
	if !stop() && err == nil {
		err = ctx.Err() // the deadline may have been set a moment ago
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("ask the upstream proxy: %w", err)
	}
	return conn, nil
}

// dialProxy connects to the proxy itself.
func (g *Gate) dialProxy(ctx context.Context) (*net.TCPConn, error) {
	host, port, err := net.SplitHostPort(g.upstream.Addr)
	if err != nil {
		return nil, err
	}
	if a, err := netip.ParseAddrPort(g.upstream.Addr); err == nil {
		return dialOne(ctx, a)
	}
	found, err := g.resolver.Lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	var addrs []netip.AddrPort
	for _, a := range found {
		ap, err := netip.ParseAddrPort(net.JoinHostPort(a.String(), port))
		if err != nil {
			return nil, err
		}
		addrs = append(addrs, ap)
	}
	conn, _, err := anyOf(ctx, order(addrs), attemptDelay, dialOne)
	return conn, err
}

// ask sends a CONNECT and reads the answer's head.
func (u *Upstream) ask(conn net.Conn, target string) error {
	head := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n"
	if u.Authorization != "" {
		head += "Proxy-Authorization: " + u.Authorization + "\r\n"
	}
	if _, err := conn.Write([]byte(head + "\r\n")); err != nil {
		return err
	}
	answer, err := readAnswer(conn)
	if err != nil {
		return err
	}
	// A 2xx ends with its head, whatever it says of a body (RFC 9110, section
	// 9.3.6).
	line, _, _ := strings.Cut(answer, "\r\n")
	if len(line) < 12 || !strings.HasPrefix(line, "HTTP/1.") || line[8:10] != " 2" {
		return fmt.Errorf("it answers %.60q", line)
	}
	return nil
}

// maxAnswer bounds the head of the proxy's answer.
const maxAnswer = 16 << 10

// readAnswer reads a head and not a byte more: what follows may be the server's
// first words. There is no way to give bytes back to a connection that the
// kernel is to relay, so it reads them one by one; a head has some hundred.
func readAnswer(conn net.Conn) (string, error) {
	var b []byte
	one := make([]byte, 1)
	for len(b) < maxAnswer {
		if _, err := conn.Read(one); err != nil {
			return "", err
		}
		b = append(b, one[0])
		if strings.HasSuffix(string(b[max(0, len(b)-4):]), "\r\n\r\n") {
			return string(b), nil
		}
	}
	return "", errors.New("its answer does not end")
}
