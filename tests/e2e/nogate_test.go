//go:build e2e

package e2e

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/aisb-dev/aisb/tests/fakes"
)

var noGate = []string{"--no-gate", "--allow", "allowed.test"}

// tryPy is a program that knows no proxy: it says how each connection fares.
const tryPy = `import errno, socket, sys, time
for word in sys.argv[1:]:
    kind, host, port = word.split(",")
    began = time.time()
    try:
        if kind == "name":
            got = " ".join(sorted({a[4][0] for a in socket.getaddrinfo(host, int(port), type=socket.SOCK_STREAM)}))
        elif kind == "tcp":
            socket.create_connection((host, int(port)), 3).close()
            got = "open"
        else:
            s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            s.settimeout(3)
            s.connect((host, int(port)))
            s.send(b"\x1b\x0b\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x04evil\x04test\x00\x00\x01\x00\x01")
            got = "answer of %d bytes" % len(s.recv(512))
    except socket.gaierror:
        got = "no address"
    except OSError as e:
        got = errno.errorcode.get(e.errno, repr(e))
    if time.time() - began > 1:
        got += " (late)"
    print(word, got, flush=True)
`

// TestNoGate: without a gate the addresses of allowed names are open, and nothing else.
func TestNoGate(t *testing.T) {
	gone := wantNothingLeft(t)
	c := withCA(t)
	write(t, c.dir, "try.py", tryPy)
	mark := internet.mark()
	o := c.aisb(t, noGate, sh(`env | grep -i proxy
		curl -sS http://allowed.test/by/http && curl -sS --cacert ca.pem https://allowed.test/by/https
		python3 try.py name,allowed.test,80 name,evil.test,80 tcp,allowed.test,80 tcp,allowed.test,443 tcp,allowed.test,8080 \
			tcp,`+originAddr+`,443 tcp,`+originAddr+`,8080 tcp,`+evilAddr+`,80 tcp,`+evilAddr6+`,80 \
			tcp,`+hostAddr+`,22 udp,169.254.1.1,53 tcp,169.254.1.1,53 udp,`+routerAddr+`,53 tcp,169.254.1.3,80
		/usr/sbin/nft add element inet aisb open4 '{ `+evilAddr+` . 80 }' 2>/dev/null || echo no rights
		echo 1.2.3.4 x >>/etc/hosts || echo read-only`)...)
	o.wantStatus(t, 0)
	wantIn(t, "what was seen", o.stdout,
		"origin GET allowed.test /by/http\n", "origin GET allowed.test /by/https\n",
		"name,allowed.test,80 "+originAddr+"\n", "name,evil.test,80 no address\n",
		"tcp,allowed.test,80 open\n", "tcp,allowed.test,443 open\n", "tcp,"+originAddr+",443 open\n",
		"tcp,allowed.test,8080 ECONNREFUSED\n", "tcp,"+originAddr+",8080 ECONNREFUSED\n",
		"tcp,"+evilAddr+",80 ECONNREFUSED\n", "tcp,"+evilAddr6+",80 ECONNREFUSED\n", "tcp,"+hostAddr+",22 ECONNREFUSED\n",
		"udp,169.254.1.1,53 EPERM\n", "tcp,169.254.1.1,53 ECONNREFUSED\n", "udp,"+routerAddr+",53 EPERM\n",
		"tcp,169.254.1.3,80 ECONNREFUSED\n", "no rights\n", "read-only\n")
	wantNot(t, "environment", o.stdout, "proxy=", "PROXY=")
	wantIn(t, "receipt", o.stderr, "aisb: warning: --no-gate: addresses are open", "fence proved by 9 of 9 probes",
		"no gate: 2 addresses and ports of 1 name were open", "the fence refused")
	for _, e := range internet.since(t, mark) {
		if e.Name != "allowed.test" && e.Host != "allowed.test" && !strings.HasPrefix(e.Addr, originAddr+":") {
			t.Errorf("reached the internet: %+v", e)
		}
	}
	gone()
}

// What a name leads to is judged as by the gate; the rest of the list is open.
func TestNoGateJudges(t *testing.T) {
	o := call{dir: project(t)}.aisb(t, []string{"--no-gate", "--allow", "allowed.test,inside.test,own.test,loop.test,mixed.test,gone.test"},
		sh("cat /etc/hosts")...)
	o.wantStatus(t, 0)
	wantIn(t, "hosts", o.stdout, originAddr+"\tallowed.test\n", "localhost")
	wantNot(t, "hosts", o.stdout, "inside.test", "own.test", "loop.test", "mixed.test", "gone.test")
	wantIn(t, "warnings", o.stderr, "inside.test:80 is not open", "(special-address)", "own.test:443 is not open", "(own-address)",
		"loop.test:80 is not open", "mixed.test:443 is not open", "(mixed-answer)", "gone.test:80 is not open", "(nxdomain)",
		"2 addresses and ports of 1 name")

	gone := wantNothingLeft(t)
	o = call{dir: project(t)}.aisb(t, []string{"--no-gate", "--allow", "own.test"}, "true")
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "aisb: error: no name of the allowlist has an address to open: own.test:80 is not open", "aisb: hint: ")
	gone()
}

// A service of the host's loopback that a rule names is reached, and no other.
func TestNoGateHostService(t *testing.T) {
	named, other := listen(t, "127.0.0.1:0"), listen(t, "127.0.0.1:0")
	dir := project(t)
	write(t, dir, "try.py", tryPy)
	service := fmt.Sprintf("host.containers.internal:%d", named.port)
	o := call{dir: dir}.aisb(t, []string{"--no-gate", "--allow", service}, sh(fmt.Sprintf(
		"python3 try.py tcp,host.containers.internal,%d tcp,host.containers.internal,%d", named.port, other.port))...)
	o.wantStatus(t, 0)
	wantIn(t, "what was seen", o.stdout, fmt.Sprintf("%d open\n", named.port), fmt.Sprintf("%d ECONNREFUSED\n", other.port))
	other.wantNone(t)
}

// A name that moves is followed while the sandbox runs; its old address is shut after
// its time. A name server that is dead changes nothing, and is told of.
func TestNoGateFollows(t *testing.T) {
	gone := wantNothingLeft(t)
	at := func(addr string) fakes.Answer {
		return fakes.Answer{Addrs: []netip.Addr{netip.MustParseAddr(addr)}, TTL: 1}
	}
	names, err := fakes.StartDNS("127.0.0.1:0", fakes.Zone{"move.test": at(originAddr)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	dir := faultyProject(t, "hurry", "300 2500")
	l := call{dir: dir, bin: faulty}.start(t, []string{"--no-gate", "--allow", "move.test:80", "--resolver", names.Addr.String()},
		sh(`echo ready; while read u; do curl -s -m 5 -o /dev/null -w "<%{http_code} %{remote_ip}>\n" $u; done`)...)
	l.waitOut("ready\n")
	asked := 0
	ask := func(url string) string {
		l.say(url)
		asked++
		waitUntil(t, runTimeout, "an answer from inside", func() bool { return strings.Count(l.stdout.String(), ">\n") >= asked })
		lines := strings.Split(strings.TrimSpace(l.stdout.String()), "\n")
		return lines[len(lines)-1]
	}
	until := func(url, want string) {
		t.Helper()
		waitUntil(t, runTimeout, url+" is "+want, func() bool { return ask(url) == want })
	}
	if got := ask("http://move.test/"); got != "<200 "+originAddr+">" {
		t.Fatalf("at first: %s", got)
	}
	if got := ask("http://" + evilAddr + "/"); got != "<000 >" {
		t.Fatalf("not there yet: %s", got)
	}
	names.Set("move.test", at(evilAddr))
	until("http://move.test/", "<200 "+evilAddr+">")
	until("http://"+originAddr+"/", "<000 >")

	names.Set("move.test", fakes.Answer{Rcode: dns.RcodeServerFailure})
	const told = "warning: move.test:80 is not open"
	waitUntil(t, runTimeout, "the dead name server is told of", func() bool { return strings.Contains(l.stderr.String(), told) })
	time.Sleep(3 * time.Second) // longer than an address would stay that its name has lost
	if got := ask("http://move.test/"); got != "<200 "+evilAddr+">" {
		t.Errorf("with a dead name server: %s", got)
	}
	if n := strings.Count(l.stderr.String(), told); n != 1 {
		t.Errorf("told %d times", n)
	}
	l.stdin.Close()
	o := l.wait(dogLimit)
	o.wantStatus(t, 0)
	wantIn(t, "log", newestLog(t), `"event":"open"`, `"addr":"`+originAddr+`:80"`, `"event":"shut"`, `"addr":"`+evilAddr+`:80"`,
		`"event":"error"`, `"reason":"dns-failure"`, `"event":"exit"`)
	gone()
}

func newestLog(t *testing.T) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/*/log.jsonl"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("%q, %v", logs, err)
	}
	newest := logs[0]
	for _, log := range logs {
		if modified(t, log).After(modified(t, newest)) {
			newest = log
		}
	}
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A change of the sets that isn't aisb's own is seen between its own.
func TestNoGateForeignElement(t *testing.T) {
	gone := wantNothingLeft(t)
	dir := faultyProject(t, "hurry", "200 1000")
	l := call{dir: dir, bin: faulty}.start(t, noGate, sh("echo ready; sleep 1000")...)
	l.waitOut("ready\n")
	time.Sleep(time.Second) // some look-ups of its own
	call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, "exec", containerName(t),
		"/usr/sbin/nft", "add", "element", "inet", "aisb", "open4", "{ "+evilAddr+" . 80 }")
	o := l.wait(dogLimit)
	o.wantStatus(t, 78)
	wantIn(t, "error", o.stderr, "aisb: error: the sandbox was stopped: its fence was changed from outside", `set "open4" holds `+evilAddr+":80")
	gone()
}

// An address over IPv6 is opened as well.
func TestNoGateIPv6(t *testing.T) {
	names, err := fakes.StartDNS("127.0.0.1:0", fakes.Hosts(map[string][]string{"six.test": {evilAddr6}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer names.Close()
	dir := project(t)
	write(t, dir, "try.py", tryPy)
	o := call{dir: dir}.aisb(t, []string{"--no-gate", "--allow", "six.test", "--resolver", names.Addr.String()}, sh(
		"curl -sS http://six.test/ && python3 try.py name,six.test,80 tcp,six.test,80 tcp,six.test,8080 tcp,"+evilAddr+",80")...)
	o.wantStatus(t, 0)
	wantIn(t, "what was seen", o.stdout, "origin GET six.test /\n", "name,six.test,80 "+evilAddr6+"\n", "tcp,six.test,80 open\n",
		"tcp,six.test,8080 ECONNREFUSED\n", "tcp,"+evilAddr+",80 ECONNREFUSED\n")
}

// A host without IPv4 proves its fence over IPv6.
func TestNoGateIPv6OnlyHost(t *testing.T) {
	_, enter := anotherHost(t, ipv6Only)
	o := call{dir: project(t), enter: enter}.aisb(t, []string{"--no-gate", "--allow", "six.test", "--resolver", router6}, sh(
		"curl -sS http://six.test/; curl -s -g 'http://["+evilAddr6+"]/'; echo $?")...)
	o.wantStatus(t, 0)
	if want := "origin GET six.test /\n7\n"; o.stdout != want {
		t.Errorf("got %q, want %q", o.stdout, want)
	}
	if saw := newestProof(t); saw["tcp-public"] != "absent" || saw["tcp-public-ipv6"] != "refused" || saw["control"] != "answered" {
		t.Errorf("the proof saw %v", saw)
	}
}

// Nothing is left of a run whose aisb was killed: there is no gate to clean up.
func TestNoGateKilled(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, noGate, sh("echo ready; sleep 1000")...)
	l.waitOut("ready\n")
	if err := l.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-l.ended
	forgetDead(t)
	gone()
}

// With =dns the host's name server answers any question, and nothing else is open that
// wasn't before.
func TestNoGateDNS(t *testing.T) {
	resolveLikeTheHost(t)
	dir := project(t)
	write(t, dir, "try.py", tryPy)
	o := call{dir: dir}.aisb(t, []string{"--no-gate=dns", "--allow", "allowed.test"}, sh(
		`cat /etc/resolv.conf
		python3 try.py name,evil.test,80 udp,169.254.1.1,53 tcp,169.254.1.1,53 tcp,allowed.test,80 tcp,evil.test,80 udp,`+routerAddr+`,53 tcp,169.254.1.1,80`)...)
	o.wantStatus(t, 0)
	wantIn(t, "what was seen", o.stdout, "nameserver 169.254.1.1\n", "name,evil.test,80 "+evilAddr+"\n", "udp,169.254.1.1,53 answer of ",
		"tcp,169.254.1.1,53 open\n", "tcp,allowed.test,80 open\n", "tcp,evil.test,80 ECONNREFUSED\n", "udp,"+routerAddr+",53 EPERM\n",
		"tcp,169.254.1.1,80 ECONNREFUSED\n")
	wantIn(t, "warnings", o.stderr, "aisb: warning: --no-gate=dns: the sandbox can ask", "fence proved by 7 of 7 probes")
}

// resolveLikeTheHost makes the fake internet's name server that of pasta, which reads
// resolv.conf in the mount namespace of the user's podman.
func resolveLikeTheHost(t *testing.T) {
	t.Helper()
	conf := filepath.Join(t.TempDir(), "resolv.conf")
	for _, dir := range []string{filepath.Dir(filepath.Dir(conf)), filepath.Dir(conf)} {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(conf, []byte("nameserver "+routerAddr+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	asUser(t, "podman", "ps") // its namespace exists then
	text, err := os.ReadFile(filepath.Join(agent.runtime, "libpod/tmp/pause.pid"))
	if err != nil {
		t.Fatal(err)
	}
	in := func(args ...string) {
		t.Helper()
		out, err := exec.Command("nsenter", append([]string{"--mount=/proc/" + strings.TrimSpace(string(text)) + "/ns/mnt"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%q: %v: %s", args, err, out)
		}
	}
	in("mount", "--bind", conf, "/etc/resolv.conf")
	t.Cleanup(func() { in("umount", "/etc/resolv.conf") })
}
