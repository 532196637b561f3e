package gate

import (
	"bytes"
	"strings"
)

// checker judges the client's side of a connection byte by byte before net/http
// sees any of it. It is pure: bytes go in by feed, judged bytes come out by
// next. Every head and every chunk frame is whole and checked before its first
// byte comes out, so what net/http reads has one meaning only.
type checker struct {
	in    []byte // received and not judged
	out   []byte // judged and not delivered
	state checkState
	left  int64 // of the body or the chunk
	trail int   // bytes of trailer fields so far
	seen  int   // bytes of in that hold no end of a head
	blank bool  // an empty line before the head was skipped

	// heads are the heads that came out and were not taken by a handler, in
	// their order.
	heads []*head
	frame *badRequest // set by a bad chunk frame: nothing more comes out
}

type checkState int

const (
	atHead  checkState = iota // a head or its beginning
	inBody                    // left bytes of a body with a length
	atChunk                   // a chunk's size line
	inChunk                   // left bytes of a chunk
	atCRLF                    // the end of a chunk
	atTrail                   // trailer fields, or the final empty line
	isRaw                     // no HTTP any more: a tunnel or an upgrade
	isEnd                     // nothing more is read
)

// Bounds of the frames of a chunked body.
const (
	maxChunkLine = 16      // hexadecimal digits and CR LF
	maxTrailers  = 4 << 10 // with the empty line; net/http reads no more
)

func (k *checker) feed(p []byte) { k.in = append(k.in, p...) }

// unfinished judges what is there and returns the size of a head whose end has
// not come.
func (k *checker) unfinished() int {
	k.advance()
	if k.state == atHead {
		return len(k.in)
	}
	return 0
}

// advance judges as much as it can of what came in.
func (k *checker) advance() {
	for k.step() {
	}
	if len(k.in) == 0 && cap(k.in) > smallHead {
		k.in = nil // a connection that is kept open keeps nothing else
	}
}

// step judges one piece and reports whether there was one.
func (k *checker) step() bool {
	switch k.state {
	case atHead:
		return k.stepHead()
	case inBody, inChunk:
		return k.stepData()
	case atChunk:
		return k.stepSize()
	case atCRLF:
		return k.stepCRLF()
	case atTrail:
		return k.stepTrailer()
	case isRaw:
		k.out = append(k.out, k.in...)
		k.in = nil
	}
	return false
}

func (k *checker) stepHead() bool {
	// One empty line before a request is skipped (RFC 9112, section 2.2).
	if k.seen == 0 && !k.blank && bytes.HasPrefix(k.in, []byte("\r\n")) {
		k.in, k.blank = k.in[2:], true
	}
	end := headEnd(k.in, k.seen)
	if k.seen = len(k.in); end == 0 && len(k.in) < maxHead {
		if k.seen < 2 {
			k.seen = 0 // the empty line may not be whole
		}
		return false
	}
	k.seen, k.blank = 0, false
	h := &head{bad: errLargeHead}
	if end > 0 && end <= maxHead {
		h = parseHead(k.in[:end])
	}
	k.in = k.in[min(max(end, 0), len(k.in)):]
	k.take(h)
	return true
}

// take lets a head out and sets what follows it.
func (k *checker) take(h *head) {
	k.heads = append(k.heads, h)
	k.out = h.appendTo(k.out)
	k.trail = 0
	switch {
	case h.bad != nil:
		k.state = isEnd
	case h.method == "CONNECT", h.websocket:
		// Whatever the answer is, no request follows on this connection: the
		// handler sees to that.
		k.state = isRaw
	case h.length < 0:
		k.state = atChunk
	case h.length > 0:
		k.state, k.left = inBody, h.length
	default:
		k.state = atHead
	}
}

func (k *checker) stepData() bool {
	n := int(min(k.left, int64(len(k.in))))
	if n == 0 {
		return false
	}
	k.out = append(k.out, k.in[:n]...)
	k.in = k.in[n:]
	k.pass(int64(n))
	return true
}

// pass notes that n bytes of data went through.
func (k *checker) pass(n int64) {
	if k.left -= n; k.left > 0 {
		return
	}
	if k.state == inBody {
		k.state = atHead
	} else {
		k.state = atCRLF
	}
}

// frameLine takes a line of the chunk framing, or sets frame. A nil line
// without frame means that more bytes are needed.
func (k *checker) frameLine(limit int, long string) []byte {
	i := bytes.IndexByte(k.in, '\n')
	switch {
	case i < 0 && len(k.in) < limit:
		return nil
	case i < 0 || i >= limit:
		return k.fail(long)
	}
	line, rest, ok := cutLine(k.in)
	if !ok {
		return k.fail("a chunk has a line that does not end in CR LF")
	}
	k.in = rest
	if line == nil {
		line = []byte{}
	}
	return line
}

func (k *checker) fail(text string) []byte {
	k.frame, k.state = bad(text), isEnd
	return nil
}

func (k *checker) stepSize() bool {
	line := k.frameLine(maxChunkLine+2, "a chunk's size is too long or has an extension")
	if line == nil {
		return false
	}
	size, ok := parseChunkSize(line)
	if !ok {
		k.fail("a chunk's size is not a hexadecimal number")
		return false
	}
	k.out = append(append(k.out, line...), "\r\n"...)
	if k.left = size; size == 0 {
		k.state = atTrail
	} else {
		k.state = inChunk
	}
	return true
}

// parseChunkSize takes hexadecimal digits alone: no sign, no prefix, no space,
// no extension (RFC 9112, section 7.1.1, lets a recipient ignore those; what is
// ignored can be understood differently elsewhere).
func parseChunkSize(line []byte) (int64, bool) {
	if len(line) == 0 || len(line) > 15 {
		return 0, false
	}
	var n int64
	for _, c := range line {
		d := bytes.IndexByte([]byte("0123456789abcdef"), c|0x20)
		if d < 0 || c < '0' {
			return 0, false
		}
		n = n<<4 | int64(d)
	}
	return n, true
}

func (k *checker) stepCRLF() bool {
	if len(k.in) < 2 {
		if len(k.in) == 1 && k.in[0] != '\r' {
			k.fail("a chunk does not end where its size says")
		}
		return false
	}
	if k.in[0] != '\r' || k.in[1] != '\n' {
		k.fail("a chunk does not end where its size says")
		return false
	}
	k.out = append(k.out, "\r\n"...)
	k.in = k.in[2:]
	k.state = atChunk
	return true
}

func (k *checker) stepTrailer() bool {
	line := k.frameLine(maxTrailers-k.trail, "the trailer fields are longer than 4 KiB")
	if line == nil {
		return false
	}
	if len(line) > 0 {
		f, err := parseField(line)
		if err != nil || isFraming(strings.ToLower(f.name)) {
			k.fail("a trailer field is malformed or not allowed there")
			return false
		}
		k.trail += len(line) + 2
	} else {
		k.state = atHead
	}
	k.out = append(append(k.out, line...), "\r\n"...)
	return true
}
