package gate

import (
	"encoding/binary"
	"errors"
	"slices"
)

// hello is what matters of a TLS ClientHello (RFC 8446, section 4.1.2).
type hello struct {
	sni  string // "" when there is none
	alpn string // protocols offered, with commas
}

// Results of parsing a ClientHello that may not be whole yet.
var (
	errNotTLS    = errors.New("not a TLS ClientHello")
	errMoreHello = errors.New("more bytes are needed")
)

// Sizes of TLS records and of the ClientHello.
const (
	recordHeader = 5
	maxRecord    = 1<<14 + 256
	maxHello     = 64 << 10
	maxRecords   = 4096 // that a ClientHello may be spread over: some clients put a byte into each
)

// recordHandshake is the type of a session's first record.
const recordHandshake = 22

// parseHello reads a ClientHello at the beginning of b, in however many records
// it came. Until all of it is there it returns errMoreHello, and in want how
// long b must be before it is worth another try.
func parseHello(b []byte) (h hello, want int, err error) {
	var message []byte
	at := 0
	for range maxRecords {
		if len(b) < at+recordHeader+1 {
			if !plausible(b[at:], at == 0) {
				return hello{}, 0, errNotTLS
			}
			return hello{}, at + recordHeader + 1, errMoreHello
		}
		size := int(binary.BigEndian.Uint16(b[at+3:]))
		if !plausible(b[at:], at == 0) || size == 0 || size > maxRecord {
			return hello{}, 0, errNotTLS
		}
		end := at + recordHeader + size
		message = append(message, b[at+recordHeader:min(len(b), end)]...)
		if len(message) >= 4 {
			need := 4 + (int(message[1])<<16 | int(message[2])<<8 | int(message[3]))
			if need > maxHello {
				return hello{}, 0, errNotTLS
			}
			if len(message) >= need {
				h, err = parseHelloBody(message[4:need])
				return h, 0, err
			}
		}
		if len(b) < end {
			return hello{}, end, errMoreHello
		}
		at = end
	}
	return hello{}, 0, errNotTLS
}

// plausible looks at the beginning of a record: a handshake, of which the first
// message is a ClientHello, in a version 3.x (RFC 8446, section 5.1). It says
// no as early as it can, since what speaks another protocol may wait for an
// answer after a few bytes.
func plausible(b []byte, first bool) bool {
	return !(len(b) > 0 && b[0] != recordHandshake || len(b) > 1 && b[1] != 3 || first && len(b) > 5 && b[5] != 1)
}

// reader takes length-prefixed parts off a message. Any shortage sets failed.
type reader struct {
	b      []byte
	failed bool
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.failed, r.b = true, nil
		return nil
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

func (r *reader) number(size int) int {
	n := 0
	for _, c := range r.take(size) {
		n = n<<8 | int(c)
	}
	return n
}

// vector takes a part whose length is in the size bytes before it.
func (r *reader) vector(size int) reader { return reader{b: r.take(r.number(size))} }

// Extensions of a ClientHello that are looked at.
const (
	extSNI  = 0
	extALPN = 16
)

func parseHelloBody(b []byte) (hello, error) {
	r := reader{b: b}
	r.take(2 + 32) // version, random
	r.vector(1)    // session id
	r.vector(2)    // cipher suites
	r.vector(1)    // compression
	if r.failed {
		return hello{}, errNotTLS
	}
	if len(r.b) == 0 {
		return hello{}, nil // no extensions at all
	}
	extensions := r.vector(2)
	if r.failed || len(r.b) > 0 {
		return hello{}, errNotTLS
	}
	var h hello
	seen := map[int]bool{}
	for len(extensions.b) > 0 {
		kind := extensions.number(2)
		data := extensions.vector(2)
		if extensions.failed || seen[kind] {
			// Twice the same: which one counts? (RFC 8446, section 4.2)
			return hello{}, errNotTLS
		}
		seen[kind] = true
		switch kind {
		case extSNI:
			name, err := parseSNI(data)
			if err != nil {
				return hello{}, err
			}
			h.sni = name
		case extALPN:
			h.alpn = parseALPN(data)
		}
	}
	return h, nil
}

// parseSNI takes the one host name (RFC 6066, section 3). A list of several is
// refused: the server may take another one.
func parseSNI(data reader) (string, error) {
	list := data.vector(2)
	if data.failed || len(data.b) > 0 {
		return "", errNotTLS
	}
	kind := list.number(1)
	name := list.vector(2)
	if list.failed || kind != 0 || len(list.b) > 0 || len(name.b) == 0 {
		return "", errNotTLS
	}
	return string(name.b), nil
}

// parseALPN joins the protocol names for the log; nothing is decided by them.
func parseALPN(data reader) string {
	list := data.vector(2)
	var all []byte
	for !list.failed && len(list.b) > 0 && len(all) < maxText {
		name := list.vector(1)
		if len(all) > 0 {
			all = append(all, ',')
		}
		all = append(all, slices.Clone(name.b)...)
	}
	return string(all)
}
