//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenedToAnother: two sandboxes of one user, with each one's fence opened
// to the other's gate from outside. Whose connection it is tells the gate, and
// not what the fence lets through.
func TestOpenedToAnother(t *testing.T) {
	// The watchdog would end a sandbox whose fence is changed.
	blind := func() string { return faultyProject(t, "blind", "") }
	mark := internet.mark()
	var runs []*live
	var ports, names []string
	for _, host := range []string{"n0.test", "n1.test"} {
		before := strings.Fields(podman(t, "ps", "--format={{.Names}}"))
		c := call{dir: blind(), bin: faulty}
		l := c.start(t, []string{"--net-backend", "pasta", "--allow", host}, sh(`echo "$http_proxy ready"
			while read -r proxy; do
				curl -sS --max-time 5 http://`+host+`/own
				for h in n0.test n1.test; do
					code=$(curl -s -o /dev/null -w '%{http_code}' --max-time 5 --proxy "$proxy" "http://$h/stolen"); echo "stolen $code $?"
				done
				echo done
			done`)...)
		l.waitOut(" ready\n")
		m := regexp.MustCompile(`:(\d+) ready`).FindStringSubmatch(l.stdout.String())
		if m == nil {
			t.Fatalf("no proxy in %q", l.stdout)
		}
		after := slices.DeleteFunc(strings.Fields(podman(t, "ps", "--format={{.Names}}")), func(n string) bool { return slices.Contains(before, n) })
		runs, ports, names = append(runs, l), append(ports, m[1]), append(names, after[0])
	}
	for i, l := range runs {
		other := ports[1-i]
		opened := fmt.Sprintf("ip daddr 169.254.1.3 tcp dport %s", other)
		podman(t, "exec", names[i], "/usr/sbin/nft", "insert rule inet aisb output "+opened+" counter accept")
		podman(t, "exec", names[i], "/usr/sbin/nft", "insert rule inet aisb input "+strings.NewReplacer("daddr", "saddr", "dport", "sport").Replace(opened)+" accept")
		l.say("http://169.254.1.3:" + other)
		l.waitOut("done\n")
		if strings.Count(l.stdout.String(), "stolen 000") != 2 && strings.Count(l.stdout.String(), "stolen 403") != 2 {
			t.Errorf("by the other's gate: %s", l.stdout)
		}
		wantIn(t, "its own gate", l.stdout.String(), fmt.Sprintf("origin GET n%d.test /own\n", i))
		// The control: what was asked went past this fence.
		rules := podman(t, "exec", names[i], "/usr/sbin/nft", "list", "chain", "inet", "aisb", "output")
		if m := regexp.MustCompile(`dport ` + other + ` counter packets (\d+)`).FindStringSubmatch(rules); m == nil || m[1] == "0" {
			t.Errorf("nothing came through the opened fence:\n%s", rules)
		}
	}
	for _, l := range runs {
		l.stdin.Close()
		o := l.wait(runTimeout)
		wantIn(t, "receipt", o.stderr, "outside this sandbox")
	}
	for _, e := range internet.since(t, mark, "http") {
		if strings.Contains(e.Path, "stolen") {
			t.Errorf("reached: %+v", e)
		}
	}
}

// TestOpenedInner: with the backend inner there is nothing to open the fence to.
func TestOpenedInner(t *testing.T) {
	other := call{dir: project(t)}.start(t, []string{"--net-backend", "pasta", "--allow", "n1.test"}, sh(`echo "$http_proxy ready"; read x`)...)
	other.waitOut(" ready\n")
	proxy, _, _ := strings.Cut(other.stdout.String(), " ")
	names := containerName(t)
	l := call{dir: faultyProject(t, "blind", ""), bin: faulty}.start(t, []string{"--net-backend", "inner", "--allow", "n0.test"}, sh(`echo ready
		read x
		curl -sS --max-time 5 http://n0.test/own
		curl -s --max-time 5 --proxy `+proxy+` http://n1.test/stolen; echo "stolen $?"
		curl -s --max-time 5 --noproxy '*' http://`+originAddr+`/stolen; echo "direct $?"
		curl -s --max-time 5 http://n1.test/stolen -o /dev/null -w '%{http_code}\n'`)...)
	l.waitOut("ready\n")
	name := strings.TrimSpace(strings.Replace(podman(t, "ps", "--format={{.Names}}"), names, "", 1))
	mark := internet.mark()
	podman(t, "exec", name, "/usr/sbin/nft", "flush", "ruleset")
	l.say("")
	o := l.wait(runTimeout)
	if want := "ready\norigin GET n0.test /own\nstolen 7\ndirect 7\n403\n"; o.stdout != want {
		t.Errorf("got %q, want %q\n%s", o.stdout, want, o.stderr)
	}
	for _, e := range internet.since(t, mark, "http") {
		if strings.Contains(e.Path, "stolen") {
			t.Errorf("reached: %+v", e)
		}
	}
	other.stdin.Close()
	other.wait(runTimeout)
}

// TestPortOfADeadGate: nobody gets the port of a gate that has died, neither
// another process of the user's on the host nor, with the backend inner, the agent.
func TestPortOfADeadGate(t *testing.T) {
	t.Run("pasta", func(t *testing.T) {
		l := call{dir: project(t)}.start(t, append([]string{"--net-backend", "pasta"}, allowed...), sh(`echo "$http_proxy ready"; read x
			curl -s --max-time 5 http://allowed.test/; echo "status $?"`)...)
		l.waitOut(" ready\n")
		m := regexp.MustCompile(`:(\d+) ready`).FindStringSubmatch(l.stdout.String())
		killGate(t, l)
		for _, addr := range []string{"127.0.0.1:", "0.0.0.0:", "[::]:"} {
			if err := takeOver("tcp", addr+m[1]); !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("the port is free at %s: %v", addr, err)
			}
		}
		// The same for the listener of IPv6, which nothing tells the port of.
		for _, port := range portsOf(t, l.cmd.Process.Pid) {
			if err := takeOver("tcp6", fmt.Sprintf("[::1]:%d", port)); !errors.Is(err, unix.EADDRINUSE) {
				t.Errorf("port %d of ::1 is free: %v", port, err)
			}
		}
		l.say("")
		l.waitOut("status ")
		wantNot(t, "output", l.stdout.String(), "status 0")
	})
	t.Run("inner", func(t *testing.T) {
		l := call{dir: project(t)}.start(t, append([]string{"--net-backend", "inner"}, allowed...), sh(`echo ready; read x
			for addr in 127.0.0.1 0.0.0.0; do python3 -c '
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
try: s.bind((sys.argv[1], 3128)); s.listen(); print("taken over")
except OSError as e: print(e.strerror)' $addr; done
			curl -s --max-time 5 http://allowed.test/; echo "status $?"`)...)
		l.waitOut("ready\n")
		killGate(t, l)
		l.say("")
		l.waitOut("status ")
		if text := l.stdout.String(); strings.Count(text, "Address already in use") != 2 || strings.Contains(text, "status 0") {
			t.Errorf("got %s", text)
		}
	})
}

func killGate(t *testing.T, l *live) {
	t.Helper()
	if err := syscall.Kill(l.gate(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.waitErr("aisb: error: the gate has ended")
}

// takeOver tries to listen where another process may have listened, with all
// that the kernel offers for it.
func takeOver(network, addr string) error {
	var set error
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			set = errors.Join(unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
				unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1))
		})
	}}
	ln, err := lc.Listen(context.Background(), network, addr)
	if err == nil {
		ln.Close()
	}
	return errors.Join(set, err)
}

// portsOf are those of ::1 that a process listens on.
func portsOf(t *testing.T, pid int) []int {
	t.Helper()
	held := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil {
			held[to] = true
		}
	}
	table, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/tcp6", pid))
	if err != nil {
		t.Fatal(err)
	}
	var ports []int
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || !held["socket:["+f[9]+"]"] { // 0A is TCP_LISTEN
			continue
		}
		var port int
		if _, err := fmt.Sscanf(f[1][strings.LastIndexByte(f[1], ':')+1:], "%X", &port); err != nil {
			t.Fatal(err)
		}
		ports = append(ports, port)
	}
	if len(ports) != 2 {
		t.Errorf("ports of ::1: %v, want the gate's and the canary's", ports)
	}
	return ports
}
