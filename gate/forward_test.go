package gate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/textproto"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// webLab is a gate with one origin.
func webLab(t *testing.T, h http.Handler) (*lab, string) {
	o := site(t, h)
	return startLab(t, service(o.Addr), nil, nil), "http://" + service(o.Addr)
}

// get returns status, header and body.
func get(t *testing.T, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	resp, err := c.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(body)
}

func TestForward(t *testing.T) {
	l, base := webLab(t, nil)
	c := l.client()
	host := strings.TrimPrefix(base, "http://")
	if _, body := get(t, c, base+"/x"); body != "origin GET "+host+" /x\n" {
		t.Errorf("got %q", body)
	}
	m := l.waitLog(event("close"))
	if m["host"] != "host.containers.internal" || m["method"] != "GET" || m["run"] != "run-1" || m["down"].(float64) == 0 {
		t.Errorf("close line %v", m)
	}
	m = l.waitLog(event("allow"))
	if m["reason"] != "host-service" || m["rule"] != host || m["addr"] == "" {
		t.Errorf("allow line %v", m)
	}
	for _, tt := range []struct {
		path string
		want int
	}{{"/status/304", 304}, {"/status/204", 204}, {"/status/500", 500}} {
		if resp, _ := get(t, c, base+tt.path); resp.StatusCode != tt.want {
			t.Errorf("%s: got %d", tt.path, resp.StatusCode)
		}
	}
	resp, err := c.Head(base + "/bytes/12345")
	if err != nil || resp.ContentLength != 12345 {
		t.Errorf("HEAD: length %d, %v", resp.ContentLength, err)
	}
	resp, body := get(t, c, base+"/trailers")
	if resp.Trailer.Get("X-Sum") != "42" || body != "body\n" {
		t.Errorf("trailers %v after %q", resp.Trailer, body)
	}
}

// Bodies arrive byte for byte, compressed or not, in both directions and
// framings.
func TestBodies(t *testing.T) {
	l, base := webLab(t, nil)
	c := l.client()
	resp, body := get(t, c, base+"/gzip")
	if resp.Header.Get("Content-Encoding") != "gzip" || int64(len(body)) != resp.ContentLength {
		t.Errorf("gzip: %v, %d bytes of %d", resp.Header, len(body), resp.ContentLength)
	}
	const size = 3<<20 + 17
	want := sha256.New()
	io.Copy(want, fakes.Pattern(size))
	resp, err := c.Get(base + fmt.Sprintf("/bytes/%d", size))
	if err != nil {
		t.Fatal(err)
	}
	got := sha256.New()
	io.Copy(got, resp.Body)
	resp.Body.Close()
	if !bytes.Equal(got.Sum(nil), want.Sum(nil)) {
		t.Error("a download changed on its way")
	}
	for _, chunked := range []bool{false, true} {
		var length int64 = size
		if chunked {
			length = -1
		}
		req, _ := http.NewRequest(http.MethodPost, base+"/upload", io.NopCloser(fakes.Pattern(size)))
		req.ContentLength = length
		resp, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		var sum struct {
			Bytes  int64
			SHA256 string
		}
		json.NewDecoder(resp.Body).Decode(&sum)
		resp.Body.Close()
		if sum.Bytes != size || sum.SHA256 != hex.EncodeToString(want.Sum(nil)) {
			t.Errorf("chunked %v: an upload changed on its way: %+v", chunked, sum)
		}
	}
}

// What is streamed arrives while the origin is still writing.
func TestStreams(t *testing.T) {
	next := make(chan struct{})
	l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		for range 3 {
			fmt.Fprintln(w, `{"n":1}`)
			http.NewResponseController(w).Flush()
			<-next // the client has it
		}
	}))
	resp, err := l.client().Get(base)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	buf := make([]byte, 8)
	for i := range 3 {
		if _, err := io.ReadFull(resp.Body, buf); err != nil {
			t.Fatalf("line %d: %v", i, err)
		}
		next <- struct{}{}
	}
}

// Fields that concern one connection don't cross the gate, in either
// direction, and nothing is added.
func TestHopByHop(t *testing.T) {
	var got http.Header
	l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.Header().Set("Connection", "X-Private")
		w.Header().Set("X-Private", "1")
		w.Header().Set("Proxy-Authenticate", "Basic")
		w.Header().Set("X-Public", "1")
		w.Header()["Content-Type"] = nil
		w.Write([]byte("<html>"))
	}))
	host := strings.TrimPrefix(base, "http://")
	c := l.dial()
	c.send(crlf("GET "+base+"/ HTTP/1.1", "Host: other.test", "Connection: X-Secret, close", "X-Secret: 1", "Proxy-Authorization: Basic eDp5",
		"Proxy-Connection: keep-alive", "Keep-Alive: 1", "TE: trailers", "Upgrade: h2c", "HTTP2-Settings: AAMAAABk", "X-Keep: 1", ""))
	answer := c.rest()
	for _, name := range []string{"Connection", "X-Secret", "Proxy-Authorization", "Proxy-Connection", "Keep-Alive", "Te", "Upgrade", "Http2-Settings", "Accept-Encoding", "User-Agent", "Via", "X-Forwarded-For"} {
		if _, found := got[name]; found {
			t.Errorf("the origin got %s: %q", name, got[name])
		}
	}
	if got.Get("X-Keep") != "1" {
		t.Error("a field of the client's was lost")
	}
	if strings.Contains(answer, "X-Private") || strings.Contains(answer, "Proxy-Authenticate") || !strings.Contains(answer, "X-Public: 1") || strings.Contains(answer, "Content-Type") {
		t.Errorf("the client got %q", answer)
	}
	if line := l.waitLog(event("allow")); line["host"] != "host.containers.internal" || strings.Contains(l.log.String(), "other.test") {
		t.Errorf("the Host field counted: %v, %s", line, host)
	}
}

func TestInterimAnswers(t *testing.T) {
	l, base := webLab(t, nil)
	var hints []string
	trace := &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		hints = append(hints, fmt.Sprint(code, h.Get("Link")))
		return nil
	}}
	req, _ := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, base+"/early", nil)
	resp, err := l.client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	resp.Body.Close()
	if fmt.Sprint(hints) != "[103</style.css>; rel=preload]" || string(body) != "late\n" {
		t.Errorf("hints %q, then %q", hints, body)
	}

	// The client's body is asked for by the origin, not by the gate.
	c := l.dial()
	c.send(crlf("POST "+base+"/upload HTTP/1.1", "Host: x", "Content-Length: 3", "Expect: 100-continue", "Connection: close", ""))
	if line := c.head(); line != "HTTP/1.1 100 Continue" {
		t.Fatalf("got %q", line)
	}
	c.send("abc")
	if answer := c.rest(); !strings.Contains(answer, `"bytes":3`) {
		t.Errorf("got %q", answer)
	}
}

func TestDialFailures(t *testing.T) {
	gone := deadPort(t)
	reset := tcpOrigin(t, fakes.Reset)
	l := startLab(t, service(gone)+" "+service(reset.Addr), nil, nil)
	for _, tt := range []struct {
		addr   netip.AddrPort
		reason string
	}{{gone, "dial-failure"}, {reset.Addr, "upstream-failure"}} {
		resp, body := get(t, l.client(), "http://"+service(tt.addr))
		if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("X-Aisb-Reason") != tt.reason {
			t.Errorf("got %s %v, want 502 %s", resp.Status, resp.Header, tt.reason)
		}
		if strings.Contains(body, "127.0.0.1") || strings.Contains(body, "refused") && strings.Contains(body, "dial") {
			t.Errorf("the answer says too much: %q", body)
		}
	}
	c := l.dial()
	c.send(crlf("CONNECT "+service(gone)+" HTTP/1.1", "Host: x", ""))
	if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.1 502 Bad Gateway\r\n") || strings.Contains(got, "127.0.0.1") {
		t.Errorf("got %q", got)
	}
	l.waitLog(func(m map[string]any) bool {
		return m["event"] == "error" && m["reason"] == "dial-failure" && m["method"] == "CONNECT"
	})
}
