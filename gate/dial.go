package gate

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"time"
)

// Times of connecting.
const (
	dialTimeout  = 10 * time.Second
	attemptDelay = 250 * time.Millisecond // RFC 8305, section 5
	maxAttempts  = 8                      // addresses that are tried
)

// dial connects to one of a decision's addresses. It is the only place from
// which the gate connects to anything that a client asked for.
//
// It returns the address that was judged, which is the connection's peer only
// where there is no upstream proxy. It is none where that proxy resolves.
func (g *Gate) dial(ctx context.Context, d *decision) (conn *net.TCPConn, to netip.AddrPort, err error) {
	if d == nil || !d.Allow || len(d.addrs) == 0 && (!d.byName || g.upstream == nil) {
		return nil, to, errUndecided
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	begin := time.Now()
	defer func() { g.metrics.Dialled(time.Since(begin), err == nil) }()
	if g.upstream.takes(d) {
		return g.dialUpstream(ctx, d)
	}
	return anyOf(ctx, order(d.addrs), attemptDelay, dialOne)
}

func dialOne(ctx context.Context, addr netip.AddrPort) (*net.TCPConn, error) {
	// Who gets the connection sets keep-alive, a tunnel only when it is silent.
	dialer := net.Dialer{KeepAlive: -1}
	// Not Dialer.DialTCP: with no local address it binds to port 0, and the
	// kernel then searches a free port among all (Go 1.26).
	conn, err := dialer.DialContext(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

// order alternates the families, IPv6 first (RFC 8305, section 4).
func order(addrs []netip.AddrPort) []netip.AddrPort {
	var six, four []netip.AddrPort
	for _, a := range addrs {
		if a.Addr().Is6() {
			six = append(six, a)
		} else {
			four = append(four, a)
		}
	}
	out := make([]netip.AddrPort, 0, len(addrs))
	for i := range max(len(six), len(four)) {
		if i < len(six) {
			out = append(out, six[i])
		}
		if i < len(four) {
			out = append(out, four[i])
		}
	}
	return out[:min(len(out), maxAttempts)]
}

// dialer connects to an address, in some way.
type dialer func(context.Context, netip.AddrPort) (*net.TCPConn, error)

// anyOf connects to one of the addresses.
func anyOf(ctx context.Context, addrs []netip.AddrPort, delay time.Duration, dial dialer) (*net.TCPConn, netip.AddrPort, error) {
	if len(addrs) == 1 { // nearly always, and then without goroutines
		conn, err := dial(ctx, addrs[0])
		return conn, addrs[0], err
	}
	return race(ctx, addrs, delay, dial)
}

// race starts an attempt at each address when the one before has failed or has
// taken the delay, and keeps the first connection.
func race(ctx context.Context, addrs []netip.AddrPort, delay time.Duration, dial dialer) (*net.TCPConn, netip.AddrPort, error) {
	type result struct {
		conn *net.TCPConn
		to   netip.AddrPort
		err  error
	}
	ctx, cancel := context.WithCancel(ctx)
	results := make(chan result)
	running, started := 0, 0
	start := func() {
		addr := addrs[started]
		started++
		running++
		go func() {
			conn, err := dial(ctx, addr)
			results <- result{conn, addr, err}
		}()
	}
	// The losers end at once when cancel is called; their connections, if any
	// came about, are closed.
	defer func() {
		cancel()
		go func() {
			for range running {
				if r := <-results; r.conn != nil {
					r.conn.Close()
				}
			}
		}()
	}()
	start()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	var errs error
	for running > 0 || started < len(addrs) {
		next := timer.C
		if started == len(addrs) {
			next = nil
		}
		select {
		case <-next:
			start()
			timer.Reset(delay)
		case r := <-results:
			running--
			if r.err == nil {
				return r.conn, r.to, nil
			}
			errs = errors.Join(errs, r.err)
			if ctx.Err() != nil {
				return nil, netip.AddrPort{}, errs
			}
			if started < len(addrs) {
				start()
				timer.Reset(delay)
			}
		}
	}
	return nil, netip.AddrPort{}, errs
}

// isTimeout tells a time-out from a refusal, for the status.
func isTimeout(err error) bool {
	var t net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &t) && t.Timeout()
}
