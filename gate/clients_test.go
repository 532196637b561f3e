package gate

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Over loopback only the named process may connect, and before it is named
// nobody.
func TestForeignClient(t *testing.T) {
	var pasta atomic.Int64
	l := startLab(t, "", nil, func(c *Config) { c.Clients.Pasta = &pasta })
	ask := func() string {
		c := l.dial()
		c.send(crlf("GET http://control.aisb.invalid/healthz HTTP/1.1", "Host: x", "Connection: close", ""))
		return c.head()
	}
	for pid, want := range map[int]string{0: "403", os.Getppid(): "403", os.Getpid(): "204"} {
		pasta.Store(int64(pid))
		if got := ask(); !strings.Contains(got, want) {
			t.Errorf("pid %d: %s, want %s", pid, got, want)
		}
	}
	m := l.waitLog(event("foreign-client"))
	if m["reason"] != "foreign-client" || m["client"] == "" || l.gate.Report().Foreign != 2 {
		t.Errorf("line %v, report %+v", m, l.gate.Report())
	}
	l = startLab(t, "", nil, func(c *Config) { c.Clients.UID++ })
	if got := ask(); !strings.Contains(got, "403 Blocked by aisb: foreign-client") {
		t.Errorf("another user: %s", got)
	}
}

func TestClientNetworks(t *testing.T) {
	g := Gate{clients: Clients{Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fe80::/10")}}}
	for from, want := range map[string]policy.Reason{
		"192.0.2.9:1": "", "198.51.100.1:1": policy.ClientNotAllowed, "[::ffff:192.0.2.9]:1": "",
		"[fe80::1%eth0]:1": "", "[2001:db8::1]:1": policy.ClientNotAllowed,
	} {
		conn := fakeConn{local: "203.0.113.1:3128", remote: from}
		if got, err := g.CheckClient(conn); got != want || err != nil {
			t.Errorf("%s: %q, want %q", from, got, want)
		}
	}
}

// fakeConn has addresses that need no network.
type fakeConn struct {
	net.Conn
	local, remote string
}

func (c fakeConn) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.local))
}
func (c fakeConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.remote))
}

func TestOwner(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0"} {
		ln, err := net.Listen("tcp", addr)
		if err != nil {
			t.Logf("%s: %v", addr, err)
			continue
		}
		defer ln.Close()
		c, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		from, to := c.LocalAddr().(*net.TCPAddr).AddrPort(), ln.Addr().(*net.TCPAddr).AddrPort()
		var d diag
		o, err := d.ownerOf(from, to)
		if err != nil || o.uid != os.Getuid() {
			t.Errorf("%s: %+v, %v", addr, o, err)
		}
		for _, pid := range []int{os.Getpid(), os.Getppid(), os.Getpid()} {
			held, err := d.holdsSocket(pid, o.inode)
			if held != (pid == os.Getpid()) || err != nil {
				t.Errorf("%s: process %d holds it: %v, %v", addr, pid, held, err)
			}
		}
		if held, err := d.holdsSocket(os.Getpid(), o.inode+1_000_000); held || err != nil {
			t.Errorf("%s: another socket is held: %v", addr, err)
		}
		if _, err := d.ownerOf(netip.AddrPortFrom(from.Addr(), 1), to); !errors.Is(err, errGone) {
			t.Errorf("%s: a socket that does not exist: %v", addr, err)
		}
		c.Close()
		if o, err := d.ownerOf(from, to); !errors.Is(err, errGone) {
			t.Errorf("%s: a closed socket: %+v, %v", addr, o, err)
		}
	}
}

func BenchmarkOwner(b *testing.B) {
	ln, _ := net.Listen("tcp", "127.0.0.1:0")
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	from, to := c.LocalAddr().(*net.TCPAddr).AddrPort(), ln.Addr().(*net.TCPAddr).AddrPort()
	var d diag
	for b.Loop() {
		if _, err := d.ownerOf(from, to); err != nil {
			b.Fatal(err)
		}
	}
}
