package gate

import (
	"net"
	"net/netip"
	"slices"

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

	// Users are others whose processes may.
	Users []int

	// Holds reports whether the one process that may connect over loopback has a
	// socket, known by its inode, among its descriptors. nil leaves it at the uid.
	// Several sandboxes' pastas run as one user, so the uid can't tell them apart.
	Holds func(inode uint32) (bool, error)

	// Enclosed says that the listener is in the network namespace of a sandbox:
	// whoever reaches it is in there. The zero value serves nobody in that way.
	Enclosed bool
}

// CheckClient returns why a client may not use the gate, or "". The error says
// that it can't be known, which is no reason to let it.
func (g *Gate) CheckClient(conn net.Conn) (policy.Reason, error) {
	if g.clients.Enclosed {
		return "", nil
	}
	from := addrOf(conn)
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	if !ok || !from.IsValid() {
		return "", nil // a unix socket: who can open it is the file system's business
	}
	if from.Addr().IsLoopback() {
		to := local.AddrPort()
		return g.checkOwner(from, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	}
	for _, p := range g.clients.Allow {
		if p.Contains(from.Addr().WithZone("")) { // a network has no interface
			return "", nil
		}
	}
	return policy.ClientNotAllowed, nil
}

// checkOwner looks at the process behind a loopback connection.
func (g *Gate) checkOwner(from, to netip.AddrPort) (policy.Reason, error) {
	owner, err := g.diag.ownerOf(from, to)
	if err != nil {
		return policy.ForeignClient, err
	}
	if owner.uid != g.clients.UID && !slices.Contains(g.clients.Users, owner.uid) {
		return policy.ForeignClient, nil
	}
	if g.clients.Holds == nil {
		return "", nil
	}
	if held, err := g.clients.Holds(owner.inode); err != nil || !held {
		return policy.ForeignClient, err
	}
	return "", nil
}
