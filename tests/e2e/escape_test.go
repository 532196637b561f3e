//go:build e2e

package e2e

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

//go:embed testdata/escape.py
var escapePy string

// attempt is a line of escape.py.
type attempt struct {
	Name   string `json:"name"`
	Got    string `json:"got"` // "reached", or why not
	Millis int    `json:"ms"`
}

// escape runs escape.py in a sandbox.
func escape(t *testing.T, flags []string, targets ...string) (map[string]attempt, outcome) {
	t.Helper()
	dir := project(t)
	write(t, dir, "escape.py", escapePy)
	o := call{dir: dir}.aisb(t, flags, append([]string{"python3", "escape.py"}, targets...)...)
	o.wantStatus(t, 0)
	got := map[string]attempt{}
	for line := range strings.Lines(o.stdout) {
		var a attempt
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		got[a.Name] = a
	}
	return got, o
}

// outsideTargets are what an open network reaches. Each is KIND ADDRESS PORT.
func outsideTargets() []string {
	return []string{
		"tcp " + originAddr + " 80", "tcp " + originAddr + " 443", "tcp " + evilAddr + " 8080",
		"tcp6 " + evilAddr6 + " 80",
		"udp " + routerAddr + " 53", "udp6 " + router6 + " 53", "tcp " + routerAddr + " 53",
		"curl http://" + originAddr + "/ 0",
	}
}

// Point 2: everything but the gate fails inside within a second, and nothing
// reaches the internet or the host.
func TestPoint2NoWayPastTheGate(t *testing.T) {
	loop, own := listen(t, "127.0.0.1:0"), listen(t, "0.0.0.0:0")
	targets := append(outsideTargets(),
		// another port of the mapped loopback, podman's own addresses, the host's
		fmt.Sprintf("tcp 169.254.1.3 %d", loop.port), fmt.Sprintf("tcp 169.254.1.2 %d", loop.port),
		fmt.Sprintf("tcp 169.254.1.1 %d", loop.port), fmt.Sprintf("tcp 127.0.0.1 %d", loop.port),
		fmt.Sprintf("tcp %s %d", hostAddr, own.port), fmt.Sprintf("tcp6 %s %d", hostAddr6, own.port),
		fmt.Sprintf("tcp %s %d", routerAddr, own.port),
		"tcp 169.254.1.1 53", "udp 169.254.1.1 53", "udp 169.254.1.3 53", "udp 8.8.8.8 53", "udp 127.0.0.53 53",
		"udp6 fe80::1 53", "udp "+evilAddr+" 8080", "udp 224.0.0.251 5353", "udp 255.255.255.255 67",
		"tcp 169.254.169.254 80", "icmp "+originAddr+" 0", "packet - 0", "raw "+originAddr+" 0", "sctp "+evilAddr+" 8080",
		"resolve allowed.test 0", "resolve evil.test 0", "resolve x.local 0",
		"curl http://allowed.test/ 0", "curl https://evil.test/ 0",
		"curlresolve allowed.test:80:"+originAddr+" 0",
	)
	mark := internet.mark()
	got, o := escape(t, allowed, targets...)
	if len(got) != len(targets) {
		t.Fatalf("%d of %d attempts were made:\n%s", len(got), len(targets), o.stdout)
	}
	for name, a := range got {
		if a.Got == "reached" {
			t.Errorf("%s: reached", name)
		}
		if a.Millis >= 1000 {
			t.Errorf("%s: failed with %q only after %d ms", name, a.Got, a.Millis)
		}
	}
	internet.wantSilence(t, mark)
	loop.wantNone(t)
	own.wantNone(t)
	wantIn(t, "receipt", o.stderr, "fence proved")
}

// TestEscapeControl shows that the attempts of the test above would succeed
// without a fence: they fail for no reason of their own.
func TestEscapeControl(t *testing.T) {
	got, o := escape(t, []string{"--net", "full"}, outsideTargets()...)
	for _, target := range outsideTargets() {
		if a := got[target]; a.Got != "reached" {
			t.Errorf("%s: %q, even without a fence", target, a.Got)
		}
	}
	wantIn(t, "warning", o.stderr, "aisb: warning: --net full", "no fence")
}

// Point 2: names inside resolve or fail at once.
func TestPoint2NamesInside(t *testing.T) {
	o := aisb(t, allowed, sh(`getent hosts localhost >/dev/null && echo local
		getent hosts "$(hostname)" >/dev/null && echo own
		start=$(date +%s%N); getent hosts evil.test; end=$(date +%s%N)
		[ $(( (end - start) / 1000000 )) -lt 3000 ] && echo fast`)...) // who waits for a name server waits for 5 s (resolv.conf(5))
	if o.stdout != "local\nown\nfast\n" {
		t.Errorf("got %q\n%s", o.stdout, o.stderr)
	}
}
