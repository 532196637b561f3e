package entry

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Bounds of connections that pid 1 makes for published ports. A server of the
// agent's may let them hang.
const (
	maxDials    = 64 // at once: aisb asks for no more
	dialTimeout = 5 * time.Second
)

// dials are the connections from outside to servers in the sandbox (--publish).
// pid 1, which has given everything up, connects in here, and hands the socket out:
// so nothing has to be opened in the fence, and no port of the container's exists
// anywhere else.
type dials struct{ open atomic.Int32 }

// serve makes one connection. f is the socket for the answer.
func (d *dials) serve(f *os.File, port uint16) {
	conn, err := fdmsg.FromFile(f)
	if err != nil {
		return // the end of file tells
	}
	defer conn.Close()
	to, err := d.connect(port)
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second)) // an error is one of Send
	if err != nil {
		_ = conn.Send(handshake.Stage{Stage: handshake.Dialed, Error: err.Error(), Status: handshake.ExitRefused})
		return
	}
	_ = conn.Send(handshake.Stage{Stage: handshake.Dialed}, to) // an error means that nobody waits any more
	to.Close()
}

// connect makes a connection unless too many are being made. It is counted no more when
// aisb hears of it, which may ask for the next one then.
func (d *dials) connect(port uint16) (*os.File, error) {
	defer d.open.Add(-1)
	if d.open.Add(1) > maxDials {
		return nil, fmt.Errorf("%d connections are being made already", maxDials)
	}
	return dialLoopback(port)
}

// dialLoopback connects to a port of this namespace's loopback. What listens at
// "localhost" may have got either family's.
func dialLoopback(port uint16) (*os.File, error) {
	var errs error
	for _, addr := range []string{"127.0.0.1", "::1"} {
		c, err := net.DialTimeout("tcp", net.JoinHostPort(addr, strconv.Itoa(int(port))), dialTimeout)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		defer c.Close()
		return c.(*net.TCPConn).File()
	}
	return nil, errs
}
