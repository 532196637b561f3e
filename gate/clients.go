package gate

import (
	"net"
	"net/netip"
	"sync/atomic"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Clients says who may use a gate.
type Clients struct {
	// Allow are the networks whose clients may. A client on loopback needs
	// none: it is known by its owner.
	Allow []netip.Prefix

	// UID is whose processes may connect over loopback. Others share the
	// machine, but not the policy.
	UID int

	// Pasta is the process id that alone may connect over loopback; while it is
	// 0, nobody may. nil leaves it at the uid. Several sandboxes' pastas run as
	// one user, so the uid can't tell them apart.
	Pasta *atomic.Int64
}

// Check returns why a client may not use the gate, or "".
func (c *Clients) Check(conn net.Conn) policy.Reason {
	from := addrOf(conn)
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !from.IsValid() {
		return "" // a unix socket: who can open it is the file system's business
	}
	if from.Addr().IsLoopback() {
		to := local.AddrPort()
		return c.checkOwner(from, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	}
	for _, p := range c.Allow {
		if p.Contains(from.Addr()) {
			return ""
		}
	}
	return policy.ClientNotAllowed
}

// checkOwner looks at the process behind a loopback connection.
func (c *Clients) checkOwner(from, to netip.AddrPort) policy.Reason {
	owner, err := ownerOf(from, to)
	if err != nil || owner.uid != c.UID {
		return policy.ForeignClient
	}
	if c.Pasta == nil {
		return ""
	}
	if pid := c.Pasta.Load(); pid > 0 && holdsSocket(int(pid), owner.inode) {
		return ""
	}
	return policy.ForeignClient
}
