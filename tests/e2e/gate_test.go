//go:build e2e

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// standalone is a gate on its own, started by the user.
type standalone struct {
	*live
	addr string
}

// gateLine is what the tests read of a line of the gate's log.
type gateLine struct {
	TS, Event, Addr, Method, Host, Reason, Rule string
	Port                                        int
	Up, Down                                    int64
}

func startGate(t *testing.T, args ...string) *standalone {
	t.Helper()
	args = append([]string{"gate", "--listen", "127.0.0.1:0", "--resolver", routerAddr}, args...)
	g := &standalone{live: call{dir: agent.home}.startAny(t, args...)}
	g.waitOut("\n")
	first := g.lines(t)[0]
	if first.Event != "listening" || !strings.HasPrefix(first.Addr, "127.0.0.1:") {
		t.Fatalf("the first line is no ready line: %s", g.stdout)
	}
	g.addr = first.Addr
	return g
}

// lines are all whole lines of the log so far.
func (g *standalone) lines(t *testing.T) []gateLine {
	t.Helper()
	text := g.stdout.String()
	var out []gateLine
	for line := range strings.Lines(text[:strings.LastIndexByte(text, '\n')+1]) {
		var l gateLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("log line %q: %v", line, err)
		}
		if _, err := time.Parse("2006-01-02T15:04:05.000Z", l.TS); err != nil {
			t.Errorf("time of %q: %v", line, err)
		}
		out = append(out, l)
	}
	return out
}

// waitLine waits for a line of the log.
func (g *standalone) waitLine(t *testing.T, what string, ok func(gateLine) bool) gateLine {
	t.Helper()
	var found gateLine
	waitUntil(t, goneLimit, what+" in the log:\n"+g.stdout.String(), func() bool {
		for _, l := range g.lines(t) {
			if ok(l) {
				found = l
				return true
			}
		}
		return false
	})
	return found
}

// curl is a client whose sockets belong to the gate's user, as the gate asks of
// clients on loopback.
func (g *standalone) curl(t *testing.T, args ...string) outcome {
	t.Helper()
	return call{dir: agent.home, bin: "/usr/bin/curl"}.do(t,
		append([]string{"-sS", "--proxy", "http://" + g.addr, "--cacert", internet.ca}, args...)...)
}

// Point 9: the gate alone: ready line, allow and deny lines, nothing of the
// request's path in them.
func TestPoint9GateAlone(t *testing.T) {
	g := startGate(t, "--allow", "allowed.test")
	mark := internet.mark()
	for _, target := range []string{"http://allowed.test/secret-path", "https://allowed.test/secret-path"} {
		o := g.curl(t, target)
		o.wantStatus(t, 0)
		if o.stdout != "origin GET allowed.test /secret-path\n" {
			t.Errorf("%s: %q", target, o.stdout)
		}
	}
	o := g.curl(t, "-i", "http://evil.test/")
	wantIn(t, "answer", o.stdout, "403 Blocked by aisb: not-listed", "aisb gate --allow 'evil.test'")
	g.curl(t, "https://evil.test/").wantStatus(t, 56)
	for _, want := range []gateLine{
		{Event: "allow", Method: "GET", Host: "allowed.test", Port: 80, Reason: "listed"},
		{Event: "allow", Method: "CONNECT", Host: "allowed.test", Port: 443, Reason: "listed"},
		{Event: "deny", Method: "GET", Host: "evil.test", Port: 80, Reason: "not-listed"},
		{Event: "deny", Method: "CONNECT", Host: "evil.test", Port: 443, Reason: "not-listed"},
	} {
		g.waitLine(t, fmt.Sprintf("%+v", want), func(l gateLine) bool {
			return l.Event == want.Event && l.Method == want.Method && l.Host == want.Host && l.Port == want.Port && l.Reason == want.Reason
		})
	}
	wantNot(t, "log", g.stdout.String(), "secret-path")
	for _, e := range internet.since(t, mark, "dns") {
		if e.Name != "allowed.test" {
			t.Errorf("a query for %q left", e.Name)
		}
	}
}

// tunnel opens a tunnel to the echo server, by a socket of the user's.
func (g *standalone) tunnel(t *testing.T) (net.Conn, *bufio.ReadWriter) {
	t.Helper()
	conn := dialAsUser(t, g.addr)
	rw := bufio.NewReadWriter(bufio.NewReader(conn), bufio.NewWriter(conn))
	fmt.Fprint(conn, "CONNECT evil.test:8080 HTTP/1.1\r\nHost: evil.test:8080\r\n\r\n")
	if line, err := rw.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 200 ") {
		t.Fatalf("CONNECT: %q, %v", line, err)
	}
	for line := ""; line != "\r\n"; {
		var err error
		if line, err = rw.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return conn, rw
}

// echo sends a line through a tunnel and wants it back.
func echo(rw *bufio.ReadWriter, line string) error {
	rw.WriteString(line + "\n")
	if err := rw.Flush(); err != nil {
		return err
	}
	got, err := rw.ReadString('\n')
	if err == nil && got != line+"\n" {
		err = fmt.Errorf("got %q back, want %q", got, line)
	}
	return err
}

// dialAsUser connects by a socket that belongs to the user: the kernel takes
// the file system uid of the thread that makes it (socket_alloc, net/socket.c).
func dialAsUser(t *testing.T, addr string) net.Conn {
	t.Helper()
	var conn net.Conn
	var err error
	fakes.OnThread(func() {
		unix.SetfsuidRetUid(agent.uid)
		conn, err = net.Dial("tcp", addr)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(runTimeout))
	return conn
}

// waitClosed waits until the gate takes no connection any more.
func (g *standalone) waitClosed(t *testing.T) {
	t.Helper()
	waitUntil(t, goneLimit, "no new connection is taken", func() bool {
		conn, err := net.Dial("tcp", g.addr)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	select {
	case <-g.ended:
		t.Fatal("the gate ended before its tunnel did")
	default:
	}
}

// drain is how long a gate of these tests waits for a tunnel that doesn't end. A test
// has long failed then.
const drain = runTimeout

// Point 9: SIGTERM lets an open tunnel end and then ends the gate.
func TestPoint9TermDrains(t *testing.T) {
	g := startGate(t, "--allow", "evil.test:8080+tcp", "--drain", drain.String())
	dialAsUser(t, g.addr).Close() // one that came and went is nothing to wait for
	conn, rw := g.tunnel(t)
	if err := echo(rw, "first"); err != nil {
		t.Fatal(err)
	}
	g.signal(syscall.SIGTERM)
	g.waitClosed(t)
	if err := echo(rw, "second"); err != nil {
		t.Errorf("the tunnel while the gate drains: %v", err)
	}
	conn.Close()
	o := g.wait(goneLimit)
	o.wantStatus(t, 0)
	if lines := g.lines(t); lines[len(lines)-1].Event != "exit" {
		t.Errorf("the last line is %+v", lines[len(lines)-1])
	}
}

// Point 9: a second SIGTERM ends it at once, tunnel or not.
func TestPoint9SecondTerm(t *testing.T) {
	g := startGate(t, "--allow", "evil.test:8080+tcp", "--drain", drain.String())
	_, rw := g.tunnel(t)
	if err := echo(rw, "first"); err != nil {
		t.Fatal(err)
	}
	g.signal(syscall.SIGTERM)
	g.waitClosed(t)
	g.signal(syscall.SIGTERM)
	g.wait(stopLimit).wantStatus(t, 0)
	if err := echo(rw, "second"); err == nil {
		t.Error("the tunnel outlived its gate")
	}
}

// TestGateReload reads its rules again at SIGHUP; invalid ones change nothing.
func TestGateReload(t *testing.T) {
	dir := project(t)
	rules := write(t, dir, "rules", "allowed.test\n")
	g := startGate(t, "--allow-file", rules)
	code := func(host string) string {
		return g.curl(t, "-o", "/dev/null", "-w", "%{http_code}", "http://"+host+"/").stdout
	}
	if a, b := code("allowed.test"), code("evil.test"); a != "200" || b != "403" {
		t.Errorf("before: %s, %s", a, b)
	}
	write(t, dir, "rules", "evil.test\n")
	g.signal(syscall.SIGHUP)
	g.waitLine(t, "reload", func(l gateLine) bool { return l.Event == "reload" })
	if a, b := code("allowed.test"), code("evil.test"); a != "403" || b != "200" {
		t.Errorf("after: %s, %s", a, b)
	}
	write(t, dir, "rules", "http://not/a/rule\n")
	g.signal(syscall.SIGHUP)
	g.waitErr("not reloaded")
	if a, b := code("allowed.test"), code("evil.test"); a != "403" || b != "200" {
		t.Errorf("after an invalid file: %s, %s", a, b)
	}
}

// TestGateBadStart: wrong flags are 2, a wrong file is 78, and no rule at all
// starts, warns and refuses.
func TestGateBadStart(t *testing.T) {
	dir := project(t)
	bad := write(t, dir, "rules", "allowed.test\n*.*\n")
	for _, tt := range []struct {
		args   []string
		status int
		part   string
	}{
		{[]string{"--listen", "nonsense"}, 2, `"nonsense"`},
		{[]string{"--listen", "0.0.0.0:0", "--allow", "x.test"}, 2, "--allow-client"},
		{[]string{"--no-such-flag"}, 2, "no-such-flag"},
		{[]string{"--allow", "http://x.test/"}, 2, "http://x.test/"},
		{[]string{"--listen", "127.0.0.1:0", "--allow-file", bad}, 78, ":2"},
		{[]string{"--listen", "127.0.0.1:0", "--allow-file", bad + ".missing"}, 78, "missing"},
	} {
		o := call{dir: dir}.do(t, append([]string{"gate"}, tt.args...)...)
		if o.status != tt.status {
			t.Errorf("%q: status %d, want %d: %s", tt.args, o.status, tt.status, o.stderr)
		}
		wantIn(t, "error", o.stderr, "aisb: error: ", tt.part, "aisb: hint: ")
	}
	g := startGate(t)
	g.waitErr("aisb: warning: there is no rule")
	wantIn(t, "answer", g.curl(t, "-i", "http://allowed.test/").stdout, "403 Blocked by aisb: not-listed")
}

// TestGateServesItsUserAlone: a client of another user, here root, is refused.
func TestGateServesItsUserAlone(t *testing.T) {
	g := startGate(t, "--allow", "allowed.test")
	mark := internet.mark()
	via := &url.URL{Scheme: "http", Host: g.addr}
	client := http.Client{Timeout: goneLimit, Transport: &http.Transport{Proxy: http.ProxyURL(via), DisableKeepAlives: true}}
	resp, err := client.Get("http://allowed.test/")
	if err == nil {
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("root was served: %s %s", resp.Status, body)
		}
	}
	g.waitLine(t, "foreign-client", func(l gateLine) bool { return l.Event == "foreign-client" })
	internet.wantSilence(t, mark)
}
