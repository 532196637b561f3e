//go:build e2e

package e2e

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
)

// TestRunsGateServesItsRunAlone: another process of the same user, outside the
// sandbox, can't use a run's gate.
func TestRunsGateServesItsRunAlone(t *testing.T) {
	// With the backend inner nothing outside can reach the gate's listener at all.
	l := call{dir: project(t)}.start(t, append([]string{"--net-backend", "pasta"}, allowed...), sh(`echo "$http_proxy"; echo ready; read x; curl -sS http://allowed.test/`)...)
	l.waitOut("ready\n")
	proxy, _, _ := strings.Cut(l.stdout.String(), "\n")
	at, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	mark := internet.mark()
	o := call{dir: agent.home, bin: "/usr/bin/curl"}.do(t, "-sS", "-i", "--max-time", "5",
		"--proxy", "http://127.0.0.1:"+at.Port(), "http://allowed.test/")
	wantNot(t, "answer", o.stdout, "200 OK", "origin GET")
	internet.wantSilence(t, mark)
	l.say("")
	l.waitOut("origin GET allowed.test /") // the run itself is served
	o = l.wait(runTimeout)
	wantIn(t, "receipt", o.stderr, "outside this sandbox")
}

// TestStreamsAndUploads: what comes through the gate is byte for byte what was
// sent, both ways, and a stream comes as it is sent.
func TestStreamsAndUploads(t *testing.T) {
	c := withCA(t)
	o := c.aisb(t, allowed, sh(`set -e
		for s in http https; do
			curl -sS --cacert ca.pem $s://allowed.test/bytes/5000000 >down; sha256sum <down
			curl -sS --cacert ca.pem --data-binary @down $s://allowed.test/upload
		done
		curl -sS --cacert ca.pem -N "https://allowed.test/stream/3?every=1ms" | grep -c ^data`)...)
	o.wantStatus(t, 0)
	lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
	if len(lines) != 5 || lines[4] != "3" {
		t.Fatalf("got %q", lines)
	}
	sum, _, _ := strings.Cut(lines[0], " ")
	want := fmt.Sprintf(`{"bytes":5000000,"sha256":"%s"}`, sum)
	if lines[1] != want || lines[3] != want || lines[2] != lines[0] {
		t.Errorf("got %q", lines)
	}
}

// tlsTo dials an origin of the fake internet from the host: a control that it
// is there.
func tlsTo(t *testing.T, addr, name string) {
	t.Helper()
	pem, err := os.ReadFile(internet.ca)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(pem)
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: pool, ServerName: name})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET / HTTP/1.0\r\nHost: %s\r\n\r\n", name)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
}

// TestOriginsAreThere is the control of all tests that find nothing reached.
func TestOriginsAreThere(t *testing.T) {
	mark := internet.mark()
	tlsTo(t, evilAddr+":443", "evil.test")
	if len(internet.since(t, mark, "https")) != 1 {
		t.Error("the request was not logged")
	}
}
