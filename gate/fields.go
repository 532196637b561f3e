package gate

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
)

// checkFields checks the header fields on which the framing of the message and
// its addressee depend, and notes what follows from them.
func (h *head) checkFields() *badRequest {
	var length, encoding, host []string
	upgrade, expects := false, false
	for _, f := range h.fields {
		name := strings.ToLower(f.name)
		switch name {
		case "content-length":
			length = append(length, f.value)
		case "transfer-encoding":
			encoding = append(encoding, f.value)
		case "host":
			host = append(host, f.value)
		case "expect":
			if !equalFold(f.value, "100-continue") {
				return &badRequest{http.StatusExpectationFailed, "the only expectation is 100-continue"}
			}
			expects = true
		case "upgrade":
			h.websocket = equalFold(f.value, "websocket")
		case "trailer":
			for one := range strings.SplitSeq(f.value, ",") {
				if isFraming(strings.ToLower(strings.Trim(one, " \t"))) {
					return bad("the Trailer field announces one that is not allowed there")
				}
			}
		case "connection":
			upgrade = upgrade || hasToken(f.value, "upgrade")
		default:
			if isFraming(name) {
				return bad("a header field looks like " + strings.ReplaceAll(name, "_", "-"))
			}
		}
	}
	if err := h.checkHost(host); err != nil {
		return err
	}
	h.websocket = h.websocket && upgrade && h.method == http.MethodGet && !h.http10
	if err := h.checkFraming(length, encoding); err != nil {
		return err
	}
	h.expects = expects && h.length != 0 && !h.http10
	if h.websocket && h.length != 0 {
		// What follows is not HTTP any more once the origin agrees (RFC 6455,
		// section 4.1): a body would be frames that nobody has checked.
		return bad("a request for a websocket has no body")
	}
	return nil
}

// checkHost demands one Host field that names a host (RFC 9112, section 3.2).
// Which one it names doesn't matter: the target decides, and the origin gets a
// Host field made of the target (section 3.2.2).
func (h *head) checkHost(host []string) *badRequest {
	if len(host) == 0 && h.http10 {
		return nil
	}
	if len(host) != 1 {
		return bad("there must be one Host field")
	}
	if _, err := policy.ParseHost(host[0], 80); err != nil {
		return bad("the Host field: " + err.Error())
	}
	return nil
}

// checkFraming finds the one length of the body (RFC 9112, section 6).
func (h *head) checkFraming(length, encoding []string) *badRequest {
	switch {
	case len(length) > 1:
		return bad("there is more than one Content-Length")
	case len(encoding) > 1:
		return bad("there is more than one Transfer-Encoding")
	case len(length) == 1 && len(encoding) == 1:
		return bad("there are both Content-Length and Transfer-Encoding")
	case len(encoding) == 1:
		if h.http10 {
			return bad("HTTP/1.0 has no Transfer-Encoding")
		}
		if !equalFold(encoding[0], "chunked") {
			return &badRequest{http.StatusNotImplemented, "the only transfer encoding is chunked"}
		}
		h.length = -1
	case len(length) == 1:
		n, ok := parseLength(length[0])
		if !ok {
			return bad("the Content-Length is not a number")
		}
		h.length = n
	}
	if h.method == http.MethodConnect && h.length != 0 {
		return bad("CONNECT has no body") // RFC 9110, section 9.3.6
	}
	return nil
}

// hasToken reports whether a comma list has a token, in any case of letters.
func hasToken(list, token string) bool {
	for one := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(one, " \t"), token) {
			return true
		}
	}
	return false
}

// parseLength takes digits alone, and no more of them than an int64 has room for.
func parseLength(s string) (int64, bool) {
	if s == "" || len(s) > 18 {
		return 0, false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// isFraming reports fields that say where a message ends or goes. They are
// refused in trailers (RFC 9110, section 6.5.1). Some servers read an underscore as a
// hyphen.
func isFraming(lower string) bool {
	if strings.IndexByte(lower, '_') >= 0 {
		lower = strings.ReplaceAll(lower, "_", "-")
	}
	switch lower {
	case "content-length", "transfer-encoding", "host", "trailer", "connection", "upgrade":
		return true
	}
	return false
}

// appendTo writes the head for net/http: a fixed request line, since the
// handler takes the target from the head itself, and the fields as checked.
func (h *head) appendTo(b []byte) []byte {
	version := " HTTP/1.1\r\n"
	if h.http10 {
		version = " HTTP/1.0\r\n"
	}
	if h.bad != nil {
		return append(b, "GET http://bad.aisb.invalid/ HTTP/1.1\r\nHost: bad.aisb.invalid\r\nConnection: close\r\n\r\n"...)
	}
	b = append(b, h.method...)
	if h.method == http.MethodConnect {
		b = append(b, " checked.aisb.invalid:443"...)
	} else {
		b = append(b, " http://checked.aisb.invalid/"...)
	}
	b = append(b, version...)
	b = append(b, "Host: checked.aisb.invalid\r\n"...)
	for _, f := range h.fields {
		if strings.EqualFold(f.name, "host") {
			continue
		}
		b = append(b, f.name...)
		b = append(b, ": "...)
		b = append(b, f.value...)
		b = append(b, "\r\n"...)
	}
	return append(b, "\r\n"...)
}
