package gate

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
)

// Bounds of a request head.
const (
	maxHead   = 64 << 10
	maxFields = 256
)

// head is a request head that was checked on the raw connection. What net/http
// gets to see is written anew from it, see appendTo.
type head struct {
	method string
	target policy.Target
	path   string // path and query as sent; "" of CONNECT
	size   int    // of the head as sent
	http10 bool
	fields []field

	length    int64 // of the body, -1 when chunked
	websocket bool  // asks for Upgrade: websocket
	expects   bool  // the client keeps the body back until it is asked for it

	bad *badRequest // everything else is unset then
}

type field struct{ name, value string }

// badRequest is why a head is refused, with the status to say so.
type badRequest struct {
	status int
	text   string
}

// Error implements error.
func (b *badRequest) Error() string { return b.text }

// errLargeHead refuses a head that has more than a head may have.
var errLargeHead = &badRequest{http.StatusRequestHeaderFieldsTooLarge, "the head is longer than 64 KiB"}

func bad(text string) *badRequest { return &badRequest{http.StatusBadRequest, text} }

// headEnd returns the length of the head at the beginning of b, with its final
// empty line, or 0 when there is no end yet. The first from bytes were searched
// before. It finds the end of sloppy heads too (bare LF), so that these are
// refused at once and not by a time-out.
func headEnd(b []byte, from int) int {
	for i := max(from-2, 0); i < len(b); {
		j := bytes.IndexByte(b[i:], '\n')
		if j < 0 {
			return 0
		}
		i += j + 1
		rest := b[i:]
		switch {
		case len(rest) > 0 && rest[0] == '\n':
			return i + 1
		case len(rest) > 1 && rest[0] == '\r' && rest[1] == '\n':
			return i + 2
		}
	}
	return 0
}

// parseHead reads a whole head. It takes less than RFC 9112 lets a server take:
// wherever two readers may understand differently, the head is refused.
func parseHead(b []byte) *head {
	line, rest, ok := cutLine(b)
	if !ok {
		return &head{bad: bad("the head has a line that does not end in CR LF")}
	}
	h := &head{size: len(b)}
	target, err := h.parseRequestLine(line)
	if err == nil {
		err = h.parseFields(rest)
	}
	if err == nil {
		err = h.parseTarget(target)
	}
	if err == nil {
		err = h.checkFields()
	}
	if err != nil {
		return &head{bad: err}
	}
	return h
}

// cutLine splits off a line that ends in CR LF and has no other CR or LF.
func cutLine(b []byte) (line, rest []byte, ok bool) {
	i := bytes.IndexByte(b, '\n')
	if i < 1 || b[i-1] != '\r' {
		return nil, nil, false
	}
	line = b[:i-1]
	if bytes.IndexByte(line, '\r') >= 0 {
		return nil, nil, false
	}
	return line, b[i+1:], true
}

func (h *head) parseRequestLine(line []byte) (target string, _ *badRequest) {
	method, rest, ok1 := strings.Cut(string(line), " ")
	target, version, ok2 := strings.Cut(rest, " ")
	if !ok1 || !ok2 || target == "" || !isToken(method) {
		return "", bad("the request line is not METHOD TARGET VERSION")
	}
	switch version {
	case "HTTP/1.1":
	case "HTTP/1.0":
		h.http10 = true
	default:
		return "", &badRequest{http.StatusHTTPVersionNotSupported, "only HTTP/1.1 and HTTP/1.0 are spoken here"}
	}
	if method == http.MethodTrace {
		// It would show the client what the gate added (RFC 9110, section 9.3.8).
		return "", &badRequest{http.StatusMethodNotAllowed, "TRACE is not forwarded"}
	}
	h.method = method
	return target, nil
}

func (h *head) parseTarget(target string) *badRequest {
	if !isVisible(target) {
		return bad("the target has a control or non-ASCII character")
	}
	if h.method == http.MethodConnect {
		t, err := policy.ParseAuthority(target)
		if err != nil {
			return bad("CONNECT needs HOST:PORT: " + err.Error())
		}
		h.target = t
		return nil
	}
	const scheme = "http://"
	if len(target) < len(scheme) || !strings.EqualFold(target[:len(scheme)], scheme) {
		if strings.HasPrefix(strings.ToLower(target), "https://") {
			return bad("for https use CONNECT HOST:443, as every client does when it is told of the proxy by https_proxy")
		}
		return bad("this is a proxy: it takes CONNECT HOST:PORT and requests for http:// URLs")
	}
	authority := target[len(scheme):]
	path := "/"
	if i := strings.IndexAny(authority, "/?#"); i >= 0 {
		authority, path = authority[:i], authority[i:]
	}
	if strings.IndexByte(path, '#') >= 0 {
		return bad("the target has a fragment")
	}
	if path[0] == '?' {
		path = "/" + path // RFC 9112, section 3.2.1
	}
	t, err := policy.ParseHost(authority, 80)
	if err != nil {
		return bad("the host of the URL: " + err.Error())
	}
	h.target, h.path = t, path
	return nil
}

// parseFields reads the field lines up to the empty one.
func (h *head) parseFields(b []byte) *badRequest {
	for {
		line, rest, ok := cutLine(b)
		if !ok {
			return bad("the head has a line that does not end in CR LF")
		}
		if len(line) == 0 {
			return nil
		}
		f, err := parseField(line)
		if err != nil {
			return err
		}
		if len(h.fields) == maxFields {
			return &badRequest{http.StatusRequestHeaderFieldsTooLarge, "more than 256 header fields"}
		}
		h.fields = append(h.fields, f)
		b = rest
	}
}

func parseField(line []byte) (field, *badRequest) {
	if line[0] == ' ' || line[0] == '\t' {
		return field{}, bad("a header field is folded over two lines") // obs-fold
	}
	name, value, ok := strings.Cut(string(line), ":")
	if !ok || !isToken(name) {
		return field{}, bad("a header field is not NAME: VALUE")
	}
	value = strings.Trim(value, " \t")
	for i := range len(value) {
		if c := value[i]; c < ' ' && c != '\t' || c == 0x7f {
			return field{}, bad("a header field has a control character")
		}
	}
	return field{name, value}, nil
}

// url is the target as net/url has it, with the path byte for byte as the
// client sent it.
func (h *head) url(host string) (*url.URL, bool) {
	if h.method == http.MethodConnect {
		return &url.URL{Host: host}, true
	}
	path, query, hasQuery := strings.Cut(h.path, "?")
	u := &url.URL{Scheme: "http", Host: host, RawQuery: query, ForceQuery: hasQuery && query == ""}
	if unescaped, err := url.PathUnescape(path); err == nil {
		u.Path, u.RawPath = unescaped, path
	}
	if u.RequestURI() == h.path {
		return u, true
	}
	// net/url would write the path another way. Opaque is written as it is,
	// but "//" at its beginning means something else there.
	u.Opaque = path
	return u, !strings.HasPrefix(path, "//") && u.RequestURI() == h.path
}

// isVisible reports whether s has visible ASCII characters alone.
func isVisible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return false
		}
	}
	return true
}

// isToken reports whether s is a token of RFC 9110, section 5.6.2.
func isToken(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' {
			continue
		}
		if strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}
