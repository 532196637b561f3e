package gate

import (
	"bytes"
	"io"
)

// firstRead is what a connection that has said nothing yet costs.
const firstRead = 2 << 10

// readHead reads until a head is there, or more than a head may have. The error
// is a *badRequest where what came can't become a head, or has no room.
func readHead(c io.Reader, room *place) ([]byte, error) {
	b := make([]byte, 0, firstRead)
	for {
		if len(b) == cap(b) {
			if !room.take(2 * cap(b)) {
				return b, errCrowd
			}
			b = append(b, make([]byte, cap(b))...)[:len(b)]
		}
		seen := len(b)
		n, err := c.Read(b[seen:cap(b)])
		b = b[:seen+n]
		if fault := opening(b, seen); fault != nil {
			return b, fault
		}
		if seen < 2 && len(b) > 1 && b[0] == '\r' && b[1] == '\n' {
			seen = 2 // an empty line may precede the head
		}
		if headEnd(b, seen) > 0 || len(b) > maxHead {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

// opening judges the first bytes of a connection as soon as it can: who speaks
// TLS, SOCKS or SSH to the gate is to hear at once that it is the wrong door, and
// not to wait until the time for a head is over. The first seen bytes were judged
// before.
func opening(b []byte, seen int) *badRequest {
	if len(b) > 1 && b[0] == '\r' && b[1] == '\n' {
		b, seen = b[2:], max(seen-2, 0)
	}
	switch {
	case len(b) == 0, b[0] == '\r' && len(b) == 1:
		return nil
	case b[0] == recordHandshake:
		return bad("this proxy is spoken to without TLS: its URL begins with http://, for https targets too")
	case !isToken(string(b[:1])):
		return bad("this is no HTTP request")
	case bytes.IndexByte(b[:seen], '\n') >= 0:
		return nil
	}
	end := bytes.IndexByte(b[seen:], '\n')
	if end < 0 {
		return nil
	}
	line, _, ok := cutLine(b[:seen+end+1])
	if !ok {
		return bad("the head has a line that does not end in CR LF")
	}
	_, fault := (&head{}).parseRequestLine(line)
	return fault
}
