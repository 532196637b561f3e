package gate

import (
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/resolve"
	"github.com/aisb-dev/aisb/tests/fakes"
	"github.com/aisb-dev/aisb/tests/need"
)

// A fault of the gate's own ends the request that it is in, and no other: not
// the tunnel beside it, and not the process.
func TestPanicIsContained(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	// Without a resolver decide panics for a name, not for the host's services.
	l := startTweaked(t, service(o.Addr)+"+tcp a.test", nil, nil, func(g *Gate) { g.resolver = nil })
	beside := l.connect(service(o.Addr))
	for _, request := range []string{
		"CONNECT a.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://a.test/ HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET http://control.aisb.invalid/healthz HTTP/1.1\r\nHost: x\r\n\r\nCONNECT a.test:443 HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		c := l.dial()
		c.send(request)
		if got := c.rest(); strings.Contains(got, "200") {
			t.Errorf("%q: got %q", request, got)
		}
		c.Close()
	}
	l.waitLog(event("error"))
	beside.send("still here")
	if _, err := io.ReadFull(beside.r, make([]byte, 10)); err != nil {
		t.Errorf("the tunnel beside: %v", err)
	}
	beside.CloseWrite()
	beside.rest()
	l.noneLeft()
	c := l.connect(service(o.Addr))
	c.Close()
}

// Who sends a head, or the first bytes in a tunnel, a byte at a time or not at
// all, is cut; who is silent in a tunnel whose other direction has ended, too.
func TestSlowPeers(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	silent := tcpOrigin(t, fakes.HalfClosed("all\n"))
	const short = 150 * time.Millisecond
	l := startTweaked(t, "", nil, nil, func(g *Gate) { g.times.head = short })
	heads := []*raw{l.dial(), l.dial(), l.dial()}
	heads[1].send("CONNECT a.test")
	go func() { // a byte each now and then is no progress
		for range 100 {
			if _, err := io.WriteString(heads[2], "G"); err != nil {
				return
			}
			time.Sleep(short / 10)
		}
	}()
	for i, c := range heads {
		if got := c.rest(); strings.HasPrefix(got, "HTTP") {
			t.Errorf("head %d: got %q", i, got)
		}
	}
	l.noneLeft()

	// With all the time for its head: who is to say the first bytes has said that.
	l = startTweaked(t, service(o.Addr)+" "+service(silent.Addr)+"+tcp", nil, nil, func(g *Gate) { g.times.hello, g.times.halfOpen = short, short })
	first := l.connect(service(o.Addr))
	first.send("\x16\x03\x01") // the beginning of a ClientHello
	first.rest()
	if m := l.waitLog(event("deny")); m["reason"] != "not-tls" {
		t.Errorf("deny line %v", m)
	}
	half := l.connect(service(silent.Addr))
	half.rest() // the server has said all; the client says nothing
	l.waitLog(event("close"))
	l.noneLeft()
}

// Both ends of a tunnel ask for a peer that is gone, and one that is only silent
// is left alone for good.
func TestKeepAlive(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	l := startLab(t, service(o.Addr)+"+tcp", nil, nil)
	l.gate.idle.rest = 5 * time.Millisecond
	l.connect(service(o.Addr))
	l.waitParked(2) // until then the bytes under way find out
	l.gate.flows.mu.Lock()
	defer l.gate.flows.mu.Unlock()
	for f := range l.gate.flows.set {
		tunnel := f.(*tunnel)
		for name, conn := range map[string]stream{"client": tunnel.client.stream, "server": tunnel.server.stream} {
			raw, err := conn.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			raw.Control(func(fd uintptr) {
				on, _ := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE)
				idle, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE)
				every, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL)
				times, _ := unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT)
				if dead := idle + every*times; on != 1 || dead < 30 || dead > 600 {
					t.Errorf("%s: keep-alive %d, %d s and %d times %d s", name, on, idle, times, every)
				}
			})
		}
	}
	if len(l.gate.flows.set) != 1 {
		t.Errorf("%d tunnels", len(l.gate.flows.set))
	}
}

// An address that comes up, or that a local route makes the host's own, is known
// within a second.
func TestOwnAddressesAreCurrent(t *testing.T) {
	need.Root(t)
	ns, err := fakes.NewNetns()
	if err != nil {
		t.Fatal(err)
	}
	defer ns.Close()
	beyond, err := fakes.NewNetns()
	if err != nil {
		t.Fatal(err)
	}
	defer beyond.Close()
	if err := ns.Join("out", "198.20.0.1/24", beyond, "in", "198.20.0.2/24"); err != nil {
		t.Fatal(err)
	}
	if err := ns.IP("route add default via 198.20.0.2"); err != nil {
		t.Fatal(err)
	}
	g, err := New(Config{Resolver: resolve.New(resolve.Config{}), Log: NewLog(io.Discard, "")})
	if err != nil {
		t.Fatal(err)
	}
	p := (&lab{t: t}).policy("a.test")
	d := p.Decide(policy.Target{Host: "a.test", Port: 443})
	judge := func(addr string) (reason policy.Reason) {
		ns.Do(func() error {
			reason, _ = g.judge(p, d, []netip.Addr{netip.MustParseAddr(addr)}, 443)
			return nil
		})
		return reason
	}
	become := func(addr string, want policy.Reason) {
		t.Helper()
		for end := time.Now().Add(patience); judge(addr) != want; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is %s, want %s", addr, judge(addr), want)
			}
		}
	}
	for _, addr := range []string{"9.9.9.9", "198.20.0.77", "198.21.5.5"} {
		if got := judge(addr); got != policy.Listed {
			t.Errorf("%s is %s", addr, got)
		}
	}
	if got := judge("198.20.0.1"); got != policy.OwnAddress {
		t.Errorf("the interface's address is %s", got)
	}
	if err := ns.IP("addr add 198.20.0.77/24 dev out", "route add local 198.21.0.0/16 dev lo"); err != nil {
		t.Fatal(err)
	}
	become("198.20.0.77", policy.OwnAddress)
	become("198.21.5.5", policy.OwnAddress)
	if err := ns.IP("addr del 198.20.0.77/24 dev out"); err != nil {
		t.Fatal(err)
	}
	become("198.20.0.77", policy.Listed)
}
