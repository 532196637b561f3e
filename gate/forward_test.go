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
	"time"

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

// A websocket goes both ways, also what is sent before the answer, and both
// ends see each other's end.
func TestWebsocket(t *testing.T) {
	l, base := webLab(t, nil)
	for _, early := range []string{"", "early "} {
		c := l.dial()
		c.send(crlf("GET "+base+"/switch HTTP/1.1", "Host: x", "Connection: Upgrade", "Upgrade: websocket", "") + early)
		if line := c.head(); line != "HTTP/1.1 101 Switching Protocols" {
			t.Fatalf("got %q", line)
		}
		c.send("over here")
		buf := make([]byte, len(early)+9)
		if _, err := io.ReadFull(c.r, buf); err != nil || string(buf) != early+"over here" {
			t.Fatalf("got %q, %v", buf, err)
		}
		c.CloseWrite()
		if rest := c.rest(); rest != "" {
			t.Errorf("after the end: %q", rest)
		}
	}
	for _, n := range []float64{9, 15} {
		l.waitLog(func(m map[string]any) bool { return m["event"] == "close" && m["up"] == n && m["down"] == n })
	}
}

// Only websockets are let through; an answer that switches all the same is a
// fault, and after a refused upgrade the connection ends.
func TestOtherUpgrades(t *testing.T) {
	l, base := webLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/plain" {
			fmt.Fprintf(w, "upgrade %q", r.Header.Get("Upgrade"))
			return
		}
		conn, _, _ := http.NewResponseController(w).Hijack()
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: rot13\r\n\r\nxyz")
	}))
	ask := func(path, upgrade string) string {
		c := l.dial()
		c.send(crlf("GET "+base+path+" HTTP/1.1", "Host: x", "Connection: Upgrade, close", "Upgrade: "+upgrade, ""))
		return c.rest()
	}
	if got := ask("/plain", "h2c"); !strings.Contains(got, `upgrade ""`) {
		t.Errorf("h2c: %q", got)
	}
	for _, upgrade := range []string{"rot13", "websocket"} {
		if got := ask("/switch", upgrade); !strings.HasPrefix(got, "HTTP/1.1 502") || !strings.Contains(got, "upstream-failure") {
			t.Errorf("%s: %q", upgrade, got)
		}
	}
	if got := ask("/plain", "websocket"); !strings.Contains(got, "Connection: close") {
		t.Errorf("a declined upgrade: %q", got)
	}
}

// Each request of a connection is decided anew, also a CONNECT after others.
func TestKeptConnection(t *testing.T) {
	l, base := webLab(t, nil)
	c := l.dial()
	c.send(crlf("GET "+base+"/1 HTTP/1.1", "Host: x", "") + crlf("GET http://evil.test/2 HTTP/1.1", "Host: x", "") + crlf("GET "+base+"/3 HTTP/1.1", "Host: x", ""))
	answer := c.rest()
	if !strings.Contains(answer, "/1\n") || !strings.Contains(answer, "HTTP/1.1 403 Blocked by aisb: not-listed\r\n") || strings.Contains(answer, "/3\n") {
		t.Errorf("got %q", answer)
	}
	if names := l.dns.Log.Names(); len(names) > 0 {
		t.Errorf("queries for %q", names)
	}

	echo := tcpOrigin(t, fakes.Echo)
	l.gate.SetPolicy(l.policy(strings.TrimPrefix(base, "http://") + " " + service(echo.Addr) + "+tcp"))
	c = l.dial()
	c.send(crlf("GET "+base+"/bytes/5 HTTP/1.1", "Host: x", "") + crlf("CONNECT "+service(echo.Addr)+" HTTP/1.1", "Host: x", "") + "early")
	if line := c.head(); line != "HTTP/1.1 200 OK" {
		t.Fatalf("got %q", line)
	}
	io.CopyN(io.Discard, c.r, 5)
	if line := c.head(); line != "HTTP/1.1 200 Connection established" {
		t.Fatalf("got %q", line)
	}
	c.send(" and late")
	c.CloseWrite()
	if got := c.rest(); got != "early and late" {
		t.Errorf("the tunnel brings %q", got)
	}
}

// A bad frame in the middle of a body ends the request without the origin
// having seen a whole one.
func TestBadFrame(t *testing.T) {
	done := make(chan error, 1)
	l, base := webLab(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, err := io.Copy(io.Discard, r.Body)
		done <- err
	}))
	c := l.dial()
	c.send(crlf("POST "+base+"/ HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", "") + "3\r\nabc\r\n0x3\r\nabc\r\n0\r\n\r\n")
	if answer := c.rest(); !strings.HasPrefix(answer, "HTTP/1.1 400 ") || !strings.Contains(answer, "bad-request") {
		t.Errorf("got %q", answer)
	}
	if err := <-done; err == nil {
		t.Error("the origin saw a whole body")
	}
}

// A client that leaves takes its request to the origin with it.
func TestClientLeaves(t *testing.T) {
	left := make(chan struct{})
	begun := make(chan struct{})
	l, base := webLab(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(begun)
		<-r.Context().Done()
		close(left)
	}))
	c := l.dial()
	c.send(crlf("GET "+base+"/ HTTP/1.1", "Host: x", ""))
	<-begun
	c.Close()
	select {
	case <-left:
	case <-time.After(10 * time.Second):
		t.Error("the origin still waits")
	}
}

func TestDialFailures(t *testing.T) {
	gone := tcpOrigin(t, fakes.Echo)
	gone.Close()
	reset := tcpOrigin(t, fakes.Reset)
	l := startLab(t, service(gone.Addr)+" "+service(reset.Addr), nil, nil)
	for _, tt := range []struct {
		addr   netip.AddrPort
		reason string
	}{{gone.Addr, "dial-failure"}, {reset.Addr, "upstream-failure"}} {
		resp, body := get(t, l.client(), "http://"+service(tt.addr))
		if resp.StatusCode != http.StatusBadGateway || resp.Header.Get("X-Aisb-Reason") != tt.reason {
			t.Errorf("got %s %v, want 502 %s", resp.Status, resp.Header, tt.reason)
		}
		if strings.Contains(body, "127.0.0.1") || strings.Contains(body, "refused") && strings.Contains(body, "dial") {
			t.Errorf("the answer says too much: %q", body)
		}
	}
	c := l.dial()
	c.send(crlf("CONNECT "+service(gone.Addr)+" HTTP/1.1", "Host: x", ""))
	if got := c.rest(); !strings.HasPrefix(got, "HTTP/1.1 502 Bad Gateway\r\n") || strings.Contains(got, "127.0.0.1") {
		t.Errorf("got %q", got)
	}
	l.waitLog(func(m map[string]any) bool {
		return m["event"] == "error" && m["reason"] == "dial-failure" && m["method"] == "CONNECT"
	})
}
