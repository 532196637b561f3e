package gate

import (
	"fmt"
	"net"
	"net/netip"
)

// SocketOwners tells whose processes connect over loopback, as a gate knows its
// clients. The zero value is ready; it is safe for concurrent use.
type SocketOwners struct{ diag diag }

// UID is the uid of the socket at the other end of an accepted connection.
func (o *SocketOwners) UID(conn *net.TCPConn) (int, error) {
	local, ok := conn.LocalAddr().(*net.TCPAddr)
	from := addrOf(conn)
	if !ok || !from.IsValid() {
		return 0, fmt.Errorf("a connection without addresses: %v", conn.RemoteAddr())
	}
	to := local.AddrPort()
	owner, err := o.diag.ownerOf(from, netip.AddrPortFrom(to.Addr().Unmap(), to.Port()))
	return owner.uid, err
}
