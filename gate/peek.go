package gate

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
)

// maxMethod is the longest method of a plain request in a tunnel.
const maxMethod = 24

// peek reads until the client has shown whom it means: a TLS ClientHello or, on
// port 80, an HTTP request, for the very name of CONNECT. It returns all it read.
func (t *tunnel) peek(first []byte) ([]byte, error) {
	conn := t.client.stream
	conn.SetReadDeadline(time.Now().Add(t.g.times.hello))
	defer conn.SetReadDeadline(time.Time{})
	room := place{places: t.g.large} // it is a head as any other
	defer room.leave()
	want := 1
	for {
		for len(first) < want {
			if len(first) == cap(first) {
				size := max(firstRead, 2*cap(first))
				if !room.take(size) {
					return nil, refusalError{policy.Limit}
				}
				first = append(make([]byte, 0, size), first...)
			}
			n, err := conn.Read(first[len(first):cap(first)])
			first = first[:len(first)+n]
			switch {
			case n > 0:
			case errors.Is(err, io.EOF) && len(first) == 0:
				return nil, nil // the client has changed its mind
			case err != nil:
				return nil, refusalError{policy.NotTLS}
			}
		}
		more, err := t.firstBytes(first)
		if err != nil || more == 0 {
			return first, err
		}
		if more > maxHello+maxRecords*recordHeader || len(first) > maxHello+maxRecords*recordHeader {
			return nil, refusalError{policy.NotTLS}
		}
		want = more
	}
}

// firstBytes judges what came so far: more is 0 when it is enough.
func (t *tunnel) firstBytes(b []byte) (more int, err error) {
	target := t.x.target
	h, want, err := parseHello(b)
	switch {
	case errors.Is(err, errMoreHello):
		return want, nil
	case err == nil:
		t.x.hello.Store(&h)
		if h.sni == "" {
			return 0, refusalError{policy.NoSNI}
		}
		if !equalFold(h.sni, target.Host) {
			return 0, refusalError{policy.SNIMismatch}
		}
		return 0, nil
	case target.Port != 80:
		return 0, refusalError{policy.NotTLS}
	}
	// Clients of ws:// tunnel their plain HTTP request.
	return plainRequest(b, target)
}

// plainRequest judges a plain HTTP/1.1 request in a tunnel to port 80.
func plainRequest(b []byte, target policy.Target) (more int, err error) {
	// What is no request line is refused as soon as that can be seen.
	if !bytes.Contains(b, []byte{'\n'}) {
		method, _, found := bytes.Cut(b[:min(len(b), maxMethod)], []byte(" "))
		if len(b) > maxHead || !found && len(b) >= maxMethod || !isToken(string(method)) {
			return 0, refusalError{policy.NotTLS}
		}
		return len(b) + 1, nil
	}
	h := head{}
	line, rest, ok := cutLine(b)
	if !ok {
		return 0, refusalError{policy.NotTLS}
	}
	// A URL in place of the path would name another host than Host does, and
	// servers go by the URL (RFC 9112, section 3.2.2).
	path, bad := h.parseRequestLine(line)
	if bad != nil || h.http10 || h.method == http.MethodConnect || path[0] != '/' || !isVisible(path) {
		return 0, refusalError{policy.NotTLS}
	}
	end := headEnd(b, 0)
	if end == 0 {
		if len(b) > maxHead {
			return 0, refusalError{policy.NotTLS}
		}
		return len(b) + 1, nil
	}
	rest = rest[:end-(len(b)-len(rest))]
	if h.parseFields(rest) != nil || h.checkFields() != nil {
		return 0, refusalError{policy.NotTLS}
	}
	for _, f := range h.fields {
		if strings.EqualFold(f.name, "host") {
			if t, err := policy.ParseHost(f.value, 80); err != nil || t != target {
				return 0, refusalError{policy.SNIMismatch}
			}
		}
	}
	return 0, nil
}

// equalFold compares names in ASCII alone: other letters have case mappings
// that lead into ASCII (the Kelvin sign is one).
func equalFold(a, b string) bool {
	for i := range len(a) {
		if a[i] >= 0x80 {
			return false
		}
	}
	return strings.EqualFold(a, b)
}
