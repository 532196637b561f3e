package gate

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// crlf makes a request of lines.
func crlf(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n" }

func TestParseHead(t *testing.T) {
	const host = "Host: a.test"
	tests := []struct {
		name string
		head string
		want string // target, path, length; or the status
	}{
		{"connect", crlf("CONNECT a.test:443 HTTP/1.1", host, ""), "a.test:443  0"},
		{"connect 1.0 without host", crlf("CONNECT a.test:443 HTTP/1.0", ""), "a.test:443  0"},
		{"connect with an empty body", crlf("CONNECT a.test:443 HTTP/1.1", host, "Content-Length: 0", ""), "a.test:443  0"},
		{"get", crlf("GET http://a.test/p?q=1 HTTP/1.1", host, ""), "a.test:80 /p?q=1 0"},
		{"get without path", crlf("GET http://a.test HTTP/1.1", host, ""), "a.test:80 / 0"},
		{"get with query alone", crlf("GET http://a.test?q HTTP/1.1", host, ""), "a.test:80 /?q 0"},
		{"get with port and case", crlf("GET HTTP://A.test:8080/ HTTP/1.1", host, ""), "a.test:8080 / 0"},
		{"get of an address", crlf("GET http://[2001:db8::1]/ HTTP/1.1", host, ""), "[2001:db8::1]:80 / 0"},
		{"odd bytes in the path", crlf("GET http://a.test/%zz//..%2f|{}'\" HTTP/1.1", host, ""), `a.test:80 /%zz//..%2f|{}'" 0`},
		{"post", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length: 3", ""), "a.test:80 / 3"},
		{"chunked", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: Chunked", ""), "a.test:80 / -1"},
		{"own method", crlf("M-SEARCH http://a.test/ HTTP/1.1", host, ""), "a.test:80 / 0"},
		{"utf-8 in a value", crlf("GET http://a.test/ HTTP/1.1", host, "X-Name: b\u00fccher", ""), "a.test:80 / 0"},

		{"path-form connect", crlf("CONNECT /x HTTP/1.1", host, ""), "400"},
		{"connect without port", crlf("CONNECT a.test HTTP/1.1", host, ""), "400"},
		{"connect with user", crlf("CONNECT u@a.test:443 HTTP/1.1", host, ""), "400"},
		{"connect with zone", crlf("CONNECT [fe80::1%25e]:443 HTTP/1.1", host, ""), "400"},
		{"connect with body", crlf("CONNECT a.test:443 HTTP/1.1", host, "Content-Length: 3", ""), "400"},
		{"connect chunked", crlf("CONNECT a.test:443 HTTP/1.1", host, "Transfer-Encoding: chunked", ""), "400"},
		{"https by get", crlf("GET https://a.test/ HTTP/1.1", host, ""), "400"},
		{"origin form", crlf("GET / HTTP/1.1", host, ""), "400"},
		{"asterisk", crlf("OPTIONS * HTTP/1.1", host, ""), "400"},
		{"other scheme", crlf("GET ftp://a.test/ HTTP/1.1", host, ""), "400"},
		{"fragment", crlf("GET http://a.test/#x HTTP/1.1", host, ""), "400"},
		{"empty port", crlf("GET http://a.test:/ HTTP/1.1", host, ""), "400"},
		{"user in url", crlf("GET http://b.test@a.test/ HTTP/1.1", host, ""), "400"},
		{"backslash", crlf("GET http://b.test\\@a.test/ HTTP/1.1", host, ""), "400"},
		{"non-ascii", crlf("GET http://\uff45vil.test/ HTTP/1.1", host, ""), "400"},
		{"non-ascii path", crlf("GET http://a.test/\u00fc HTTP/1.1", host, ""), "400"},
		{"tab in target", crlf("GET http://a.test/\tx HTTP/1.1", host, ""), "400"},
		{"http/2", crlf("PRI * HTTP/2.0", "", "SM", ""), "505"},
		{"http/0.9", "GET http://a.test/\r\n\r\n", "400"},
		{"lower version", crlf("GET http://a.test/ http/1.1", host, ""), "505"},
		{"http/1.2", crlf("GET http://a.test/ HTTP/1.2", host, ""), "505"},
		{"two spaces", crlf("GET  http://a.test/ HTTP/1.1", host, ""), "400"},
		{"space in method", crlf("GE T http://a.test/ HTTP/1.1", host, ""), "505"},
		{"trace", crlf("TRACE http://a.test/ HTTP/1.1", host, ""), "405"},
		{"bare lf", "GET http://a.test/ HTTP/1.1\nHost: a.test\n\n", "400"},
		{"bare cr", crlf("GET http://a.test/ HTTP/1.1", "Host: a.test", "X: a\rY: b", ""), "400"},
		{"obs-fold", crlf("GET http://a.test/ HTTP/1.1", host, "X: 1", " Y: 2", ""), "400"},
		{"space before colon", crlf("GET http://a.test/ HTTP/1.1", "Host : a.test", ""), "400"},
		{"empty name", crlf("GET http://a.test/ HTTP/1.1", host, ": x", ""), "400"},
		{"no colon", crlf("GET http://a.test/ HTTP/1.1", host, "X", ""), "400"},
		{"escape in a value", crlf("GET http://a.test/ HTTP/1.1", host, "X: \x1b]0;x\x07", ""), "400"},
		{"nul in a value", crlf("GET http://a.test/ HTTP/1.1", host, "X: a\x00", ""), "400"},
		{"no host", crlf("GET http://a.test/ HTTP/1.1", ""), "400"},
		{"two hosts", crlf("GET http://a.test/ HTTP/1.1", host, host, ""), "400"},
		{"list of hosts", crlf("GET http://a.test/ HTTP/1.1", "Host: a.test, b.test", ""), "400"},
		{"empty host", crlf("GET http://a.test/ HTTP/1.1", "Host:", ""), "400"},
		{"two lengths", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length: 3", "Content-Length: 3", ""), "400"},
		{"length list", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length: 3, 3", ""), "400"},
		{"signed length", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length: +3", ""), "400"},
		{"negative length", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length: -1", ""), "400"},
		{"empty length", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length:", ""), "400"},
		{"endless length", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length: 99999999999999999999", ""), "400"},
		{"both framings", crlf("POST http://a.test/ HTTP/1.1", host, "Content-Length: 3", "Transfer-Encoding: chunked", ""), "400"},
		{"gzip, chunked", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: gzip, chunked", ""), "501"},
		{"chunked comma", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: chunked,", ""), "501"},
		{"identity", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: identity", ""), "501"},
		{"two encodings", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: chunked", "Transfer-Encoding: identity", ""), "400"},
		{"chunked in 1.0", crlf("POST http://a.test/ HTTP/1.0", host, "Transfer-Encoding: chunked", ""), "400"},
		{"underscore framing", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer_Encoding: chunked", ""), "400"},
		{"kelvin in an encoding", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: chun\u212aed", ""), "501"},
		{"announced framing", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: chunked", "Trailer: X-Sum, content-length", ""), "400"},
		{"announced trailer", crlf("POST http://a.test/ HTTP/1.1", host, "Transfer-Encoding: chunked", "Trailer: X-Sum", ""), "a.test:80 / -1"},
		{"other expectation", crlf("POST http://a.test/ HTTP/1.1", host, "Expect: cake", ""), "417"},
		{"many fields", "GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n" + strings.Repeat("X: 1\r\n", 300) + "\r\n", "431"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := parseHead([]byte(tt.head))
			got := fmt.Sprintf("%s %s %d", h.target, h.path, h.length)
			if h.bad != nil {
				got = fmt.Sprint(h.bad.status)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q (%v)", got, tt.want, h.bad)
			}
			if h.bad == nil && h.method != http.MethodConnect {
				u, ok := h.url("h")
				if !ok || u.RequestURI() != h.path || strings.Contains(u.Host, "a.test") {
					t.Errorf("the URL would go out as %q, %v, want %q", u.RequestURI(), ok, h.path)
				}
			}
		})
	}
}

// play feeds the checker with pieces of size n and returns what net/http would
// read.
func play(k *checker, in string, n int) string {
	var out bytes.Buffer
	for len(in) > 0 {
		k.feed([]byte(in[:min(n, len(in))]))
		in = in[min(n, len(in)):]
		k.advance()
		out.Write(k.out)
		k.out = nil
	}
	return out.String()
}

func TestChecker(t *testing.T) {
	const post = "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n"
	const get = "GET http://b.test/ HTTP/1.1\r\nHost: b.test\r\n\r\n"
	tests := []struct {
		name, in string
		heads    int
		body     string // what follows the last head
		state    checkState
		frame    bool
	}{
		{"one request", get, 1, "", atHead, false},
		{"pipelined", get + get + get, 3, "", atHead, false},
		{"empty line before", "\r\n" + get, 1, "", atHead, false},
		{"unfinished", get[:20], 0, "", atHead, false},
		{"length", "POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 5\r\n\r\nhello", 1, "hello", atHead, false},
		{"chunks", post + "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n", 1, "5\r\nhello\r\nA\r\n0123456789\r\n0\r\n\r\n", atHead, false},
		{"trailers", post + "0\r\nX-Sum: 1\r\n\r\n", 1, "0\r\nX-Sum: 1\r\n\r\n", atHead, false},
		{"request after chunks", post + "1\r\nx\r\n0\r\n\r\n" + get, 2, "", atHead, false},
		{"bad second request", get + "GET /x HTTP/1.1\r\nHost: a\r\n\r\n" + get, 2, "", isEnd, false},
		{"connect", "CONNECT a.test:443 HTTP/1.1\r\nHost: a\r\n\r\n" + get, 1, get, isRaw, false},
		{"websocket", "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\r\nxyz", 1, "xyz", isRaw, false},
		{"upgrade without connection", "GET http://a.test/ HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\n\r\n", 1, "", atHead, false},
		{"bare lf", post + "3\nabc\r\n0\r\n\r\n", 1, "", isEnd, true},
		{"prefix", post + "0x3\r\nabc\r\n0\r\n\r\n", 1, "", isEnd, true},
		{"underscore", post + "0_0\r\n\r\n", 1, "", isEnd, true},
		{"overflow", post + "ffffffffffffffff\r\nabc", 1, "", isEnd, true},
		{"minus", post + "-3\r\nabc\r\n0\r\n\r\n", 1, "", isEnd, true},
		{"space", post + "3 \r\nabc\r\n0\r\n\r\n", 1, "", isEnd, true},
		{"extension", post + "3;x=y\r\nabc\r\n0\r\n\r\n", 1, "", isEnd, true},
		{"empty size", post + "\r\n\r\n", 1, "", isEnd, true},
		{"no end of chunk", post + "3\r\nabc\n0\r\n\r\n", 1, "3\r\nabc", isEnd, true},
		{"longer than it says", post + "3\r\nabcd\r\n0\r\n\r\n", 1, "3\r\nabc", isEnd, true},
		{"endless size", post + strings.Repeat("0", 40), 1, "", isEnd, true},
		{"framing in trailers", post + "0\r\nContent-Length: 3\r\n\r\n", 1, "0\r\n", isEnd, true},
		{"endless trailers", post + "0\r\n" + strings.Repeat("X: 0123456789\r\n", 1000), 1, "", isEnd, true},
		{"endless head", "GET http://a.test/ HTTP/1.1\r\nX: " + strings.Repeat("x", maxHead), 1, "", isEnd, false},
	}
	for _, tt := range tests {
		for _, size := range []int{1, 7, 1 << 20} {
			var k checker
			out := play(&k, tt.in, size)
			if len(k.heads) != tt.heads || k.state != tt.state || (k.frame != nil) != tt.frame {
				t.Errorf("%s by %d: %d heads, state %d, frame %v; want %d, %d, %v", tt.name, size, len(k.heads), k.state, k.frame, tt.heads, tt.state, tt.frame)
			}
			if i := strings.LastIndex(out, "\r\n\r\n"); tt.body != "" && !strings.HasSuffix(out, "\r\n\r\n"+tt.body) {
				t.Errorf("%s by %d: lets out %q, want %q at its end (%d)", tt.name, size, out, tt.body, i)
			}
		}
	}
}

// Whatever comes in: net/http reads as many requests as the checker let heads
// out, with the same methods and bodies, however the bytes were split.
func FuzzChecker(f *testing.F) {
	f.Add("GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n\r\n", 3)
	f.Add("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: y\r\n\r\nGET http://b/ HTTP/1.0\r\n\r\n", 1)
	f.Add("POST http://a.test/ HTTP/1.1\r\nHost: a.test\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\nabcdCONNECT a:1 HTTP/1.1\r\nHost: x\r\n\r\nraw", 9)
	f.Fuzz(func(t *testing.T, in string, size int) {
		var k, whole checker
		out := play(&k, in, min(max(size, 1), 1<<16))
		if again := play(&whole, in, len(in)+1); again != out || len(whole.heads) != len(k.heads) {
			t.Fatalf("split in %d: %q, whole: %q", size, out, again)
		}
		r := bufio.NewReader(strings.NewReader(out))
		for i, h := range k.heads {
			req, err := http.ReadRequest(r)
			if err != nil {
				t.Fatalf("head %d of %q: net/http refuses %q: %v", i, in, out, err)
			}
			method := h.method
			if h.bad != nil {
				method = "GET"
			}
			if req.Method != method || h.bad == nil && req.ContentLength != h.length && h.method != "CONNECT" {
				t.Fatalf("head %d of %q: %s %d, net/http reads %s %d", i, in, h.method, h.length, req.Method, req.ContentLength)
			}
			if i == len(k.heads)-1 {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				t.Fatalf("body %d of %q: %v", i, in, err)
			}
		}
		if len(k.heads) == 0 && out != "" {
			t.Fatalf("%q lets out %q without a head", in, out)
		}
	})
}

// A head that is taken means the same to net/http, and its target goes out as
// it was checked.
func FuzzParseHead(f *testing.F) {
	f.Add("GET http://a.test/p?q HTTP/1.1\r\nHost: a.test\r\nX: y\r\n\r\n")
	f.Add("CONNECT [::1]:443 HTTP/1.0\r\n\r\n")
	f.Fuzz(func(t *testing.T, in string) {
		end := headEnd([]byte(in), 0)
		if end == 0 {
			return
		}
		h := parseHead([]byte(in[:end]))
		if h.bad != nil {
			return
		}
		req, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(h.appendTo(nil))))
		if err != nil {
			t.Fatalf("%q: net/http refuses it: %v", in, err)
		}
		if len(req.TransferEncoding) > 0 != (h.length < 0) {
			t.Fatalf("%q: length %d, net/http has %v", in, h.length, req.TransferEncoding)
		}
		if u, ok := h.url("x"); ok && h.method != "CONNECT" && u.RequestURI() != h.path {
			t.Fatalf("%q: path %q goes out as %q", in, h.path, u.RequestURI())
		}
	})
}
