package sandbox

import (
	"errors"
	"fmt"
	"net"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// dialInside has pid 1 connect to a port of the sandbox's loopback. It waits for as
// long as the sandbox stands still or p isn't closed: so no more than maxDials
// requests are ever before pid 1, which has to hear of signals too.
func (s *Session) dialInside(p *published, port uint16) (*net.TCPConn, error) {
	select {
	case p.dials <- struct{}{}:
		defer func() { <-p.dials }()
	default:
		return nil, fmt.Errorf("%d connections are being made already", maxDials)
	}
	conn, theirs, err := fdmsg.Pair()
	if err != nil {
		return nil, err
	}
	err = s.entry.SendNow(handshake.Control{Dial: port}, theirs)
	theirs.Close()
	if err != nil || !p.track(conn) {
		conn.Close()
		return nil, errors.Join(errEnded, err)
	}
	defer p.drop(conn)
	var st handshake.Stage
	m, err := conn.Recv(&st)
	if err != nil {
		return nil, err
	}
	defer m.Close()
	switch {
	case st.Error != "":
		return nil, errors.New(st.Error)
	case st.Stage != handshake.Dialed || len(m.Files) != 1:
		return nil, fmt.Errorf("the entrypoint answered with %q and %d descriptors", st.Stage, len(m.Files))
	}
	c, err := net.FileConn(m.Files[0])
	if err != nil {
		return nil, fmt.Errorf("take over a connection: %w", err)
	}
	server, ok := c.(*net.TCPConn)
	if !ok {
		c.Close()
		return nil, errors.New("the entrypoint's connection is not TCP's")
	}
	return server, nil
}
