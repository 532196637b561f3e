//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// root runs a script as root in this network namespace, the tests' host.
func root(t *testing.T, script string) {
	t.Helper()
	if out, err := exec.Command("/bin/sh", "-ec", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// online gives the tests' host what it had: addresses of IPv6 and all routes go
// with their link.
const online = "ip link set up0 up\n" +
	"ip -6 addr replace " + hostAddr6 + "/64 dev up0 nodad\n" +
	"ip route replace default via " + routerAddr + "\n" +
	"ip -6 route replace default via " + router6 + "\n"

// TestNetworkGone: while the host has no network, the gate says so soon, and
// when it is back, work goes on without a new start. The fence stands all the while.
func TestNetworkGone(t *testing.T) {
	for name, script := range map[string]string{
		"link down": "ip link set up0 down",
		"no route":  "ip route del default; ip -6 route del default",
		// As after a change from one network to another: packets are lost.
		"no answers": "ip neigh replace " + routerAddr + " lladdr 02:00:00:00:00:01 nud permanent dev up0",
	} {
		t.Run(name, func(t *testing.T) {
			t.Cleanup(func() { root(t, "ip neigh del "+routerAddr+" dev up0 || true\n"+online) })
			gone := wantNothingLeft(t)
			mark := internet.mark()
			l := call{dir: project(t)}.start(t, allowed, sh(restless)...)
			l.waitOut("ready\n")
			l.say("tunnel-before")
			l.waitOut("tunnel-before 200\n")
			root(t, script)
			begin := time.Now()
			l.say("tunnel-meanwhile")
			l.waitOut("tunnel-meanwhile 50") // 502 or 504
			took := time.Since(begin)
			t.Logf("refused after %v", took)
			if took > 15*time.Second {
				t.Errorf("it took %v to say that there is no network", took)
			}
			root(t, "ip neigh del "+routerAddr+" dev up0 || true\n"+online)
			for _, what := range []string{"tunnel-after", "after"} {
				l.say(what)
				l.waitOut(what + " 200\n")
			}
			l.stdin.Close()
			o := l.wait(runTimeout)
			o.wantStatus(t, 5)
			wantNot(t, "stderr", o.stderr, "aisb: error", "the gate had ended")
			wantOnlyGate(t, mark)
			gone()
		})
	}
}

// TestResolvConfChanges: another network has other name servers. The gate asks
// these, also for names whose old addresses it still knows.
func TestResolvConfChanges(t *testing.T) {
	const other = "127.0.0.99"
	server, err := fakes.StartDNS(other+":53", fakes.Hosts(map[string][]string{"allowed.test": {evilAddr}}), &fakes.Log{})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conf := write(t, project(t), "resolv.conf", "nameserver "+routerAddr+"\n")
	// A mount namespace of its own: the machine's file stays as it is.
	c := call{dir: project(t), enter: []string{"unshare", "--mount", "--", "/bin/sh", "-ec",
		`mount --bind "$0" "$(readlink -f /etc/resolv.conf)"; exec "$@"`, conf}}
	mark := internet.mark()
	l := c.startAny(t, "run", "--image", testImage, "--ephemeral-home", "--net-backend", backend, "--allow", "allowed.test", "--",
		"/bin/sh", "-c", "echo ready\n"+`while read -r path; do curl -s -o /dev/null -w "$path %{http_code}\n" http://allowed.test/$path; done`)
	l.waitOut("ready\n")
	l.say("before")
	l.waitOut("before 200\n")
	if err := os.WriteFile(conf, []byte("# another network\nnameserver "+other+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	time.Sleep(1100 * time.Millisecond) // the gate looks at the file once a second
	l.say("after")
	l.waitOut("after 200\n")
	l.stdin.Close()
	l.wait(runTimeout).wantStatus(t, 0)
	for path, addr := range map[string]string{"/before": originAddr, "/after": evilAddr} {
		e := internet.waitFor(t, mark, "http", func(e fakes.Event) bool { return e.Path == path })
		if !strings.HasPrefix(e.Addr, addr+":") {
			t.Errorf("%s came to %s, want %s", path, e.Addr, addr)
		}
	}
}

// TestPodmanByHand: what a user does to the container with podman ends the run,
// or nothing; never is there a second start, which would be one without a fence.
func TestPodmanByHand(t *testing.T) {
	for _, tt := range []struct {
		name   string
		do     [][]string // %s is the container's name
		status int
		says   string
	}{
		{"stop", [][]string{{"stop"}}, 143, "status 143"},
		{"stop and start", [][]string{{"stop"}, {"start"}}, 143, "status 143"},
		{"restart", [][]string{{"restart"}}, 143, "status 143"},
		{"kill", [][]string{{"kill"}}, 137, "aisb: error: the container's pid 1 ended without handing over a status"},
		{"kill and start", [][]string{{"kill"}, {"start"}}, 137, "aisb: error: the container's pid 1 ended without handing over a status"},
		{"remove", [][]string{{"rm", "--force", "--time=0"}}, 137, "aisb: error: the container's pid 1 ended without handing over a status"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			mark := internet.mark()
			dir := project(t)
			l := call{dir: dir}.start(t, allowed, sh("echo start >>/project/starts\n"+restless)...)
			l.waitOut("ready\n")
			name := containerName(t)
			for _, args := range tt.do {
				// What podman makes of a container that goes is its business.
				o := call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, append(args, name)...)
				t.Logf("podman %s: status %d %s", args[0], o.status, strings.TrimSpace(o.stderr))
			}
			o := l.wait(runTimeout)
			t.Logf("aisb: status %d\n%s", o.status, o.stderr)
			o.wantStatus(t, tt.status)
			wantIn(t, "stderr", o.stderr, tt.says)
			gone()
			starts, err := os.ReadFile(filepath.Join(dir, "starts"))
			if err != nil || string(starts) != "start\n" {
				t.Errorf("starts of the command: %q, %v", starts, err)
			}
			wantOnlyGate(t, mark)
		})
	}
}
