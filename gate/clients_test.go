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

// Over loopback only the one process may connect, and nobody when that can't be
// known.
func TestForeignClient(t *testing.T) {
	var held atomic.Bool
	var broken atomic.Pointer[error]
	l := startLab(t, "", nil, func(c *Config) {
		c.Clients.Holds = func(inode uint32) (bool, error) {
			if inode == 0 {
				t.Error("asked for no socket")
			}
			if err := broken.Load(); err != nil {
				return true, *err
			}
			return held.Load(), nil
		}
	})
	ask := func() string {
		c := l.dial()
		c.send(crlf("GET http://control.aisb.invalid/healthz HTTP/1.1", "Host: x", "Connection: close", ""))
		return c.head()
	}
	for is, want := range map[bool]string{false: "403", true: "204"} {
		held.Store(is)
		if got := ask(); !strings.Contains(got, want) {
			t.Errorf("held: %v: %s, want %s", is, got, want)
		}
	}
	err := errors.New("nobody answers")
	broken.Store(&err)
	if got := ask(); !strings.Contains(got, "503") {
		t.Errorf("nobody knows whose it is: %s", got)
	}
	m := l.waitLog(event("foreign-client"))
	if m["reason"] != "foreign-client" || m["client"] == "" || l.gate.Report().Foreign != 1 {
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
