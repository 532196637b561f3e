package gate

import (
	"maps"
	"net/http"
	"net/textproto"
	"strings"
)

// stripHopByHop removes what concerns one connection alone (RFC 9110, section
// 7.6.1), also the fields that Connection names.
func stripHopByHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = textproto.TrimString(name); name != "" {
				h.Del(name)
			}
		}
	}
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authentication-Info",
		"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings",
	} {
		h.Del(name)
	}
}

// stripOwn removes what only answers of the gate's own bear.
func stripOwn(h http.Header) {
	h.Del(reasonHeader)
	h.Del(ProofHeader)
}

// stripTrailer removes from an answer's trailer what must not come at the end: a
// client that reads it like the head would take the message for another one (RFC
// 9110, section 6.5.1).
func stripTrailer(h http.Header) {
	maps.DeleteFunc(h, func(name string, _ []string) bool { return isFraming(strings.ToLower(name)) })
	stripHopByHop(h)
	stripOwn(h)
}
