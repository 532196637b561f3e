//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// The addresses of a host with IPv6 alone, and of the router's side.
const (
	sixHost   = "fd77:78::1"
	sixRouter = "fd77:78::2"
)

// anotherHost is a network namespace of another kind of host. The script runs
// in it, with the internet's process as $1.
func anotherHost(t *testing.T, script string) (pid int, enter []string) {
	t.Helper()
	holder := exec.Command("sleep", "infinity")
	holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		holder.Process.Kill()
		holder.Wait() // killed, as it should be
	})
	enter = []string{"nsenter", "--net=/proc/" + strconv.Itoa(holder.Process.Pid) + "/ns/net", "--"}
	args := append(slices.Clone(enter[1:]), "/bin/sh", "-ec", "ip link set lo up\n"+script, "sh", strconv.Itoa(internet.cmd.Process.Pid))
	if out, err := exec.Command(enter[0], args...).CombinedOutput(); err != nil {
		t.Fatalf("make another host: %v: %s", err, out)
	}
	return holder.Process.Pid, enter
}

// ipv6Only joins a host without IPv4 with the internet, in the place of an earlier one:
// the kernel takes that one's link away when it comes to it (cleanup_net in
// net/core/net_namespace.c).
const ipv6Only = `nsenter --net=/proc/$1/ns/net ip link del down6 2>/dev/null || true
	ip link add up6 type veth peer name down6 netns $1
	ip -6 addr add ` + sixHost + `/64 dev up6 nodad
	ip link set up6 up
	nsenter --net=/proc/$1/ns/net ip -6 addr add ` + sixRouter + `/64 dev down6 nodad
	nsenter --net=/proc/$1/ns/net ip link set down6 up
	ip -6 route add default via ` + sixRouter

// backends are all that there are: hosts of every kind must work with each.
func backends(t *testing.T, do func(t *testing.T, flags []string)) {
	for _, b := range []string{"pasta", "inner"} {
		t.Run(b, func(t *testing.T) { do(t, []string{"--net-backend", b}) })
	}
}

// TestIPv6OnlyHost: on a host without IPv4 the allowed host is reached, and no
// other, by either backend.
func TestIPv6OnlyHost(t *testing.T) {
	_, enter := anotherHost(t, ipv6Only)
	backends(t, func(t *testing.T, flags []string) {
		gone := wantNothingLeft(t)
		mark := internet.mark()
		c := withCA(t)
		c.enter = enter
		o := c.aisb(t, append(flags, "--resolver", router6, "--allow", "six.test"), sh(`
			curl -sS http://six.test/plain
			curl -sS --cacert ca.pem https://six.test/tls
			curl -s -o /dev/null -w '%{http_code}\n' http://evil.test/
			curl -s --max-time 2 --noproxy '*' -g 'http://[`+evilAddr6+`]/direct'; echo "direct $?"
			curl -s --max-time 2 --noproxy '*' -g 'http://[`+sixHost+`]/direct'; echo "host $?"
			ip -br -4 addr show scope global`)...)
		o.wantStatus(t, 0)
		if want := "origin GET six.test /plain\norigin GET six.test /tls\n403\ndirect 7\nhost 7\n"; o.stdout != want {
			t.Errorf("got %q, want %q", o.stdout, want)
		}
		for _, e := range internet.since(t, mark) {
			if e.Host != "six.test" && e.Name != "six.test" {
				t.Errorf("reached the internet: %+v", e)
			}
		}
		saw := newestProof(t)
		if flags[1] == "pasta" && (saw["tcp-public-ipv6"] != "refused" || saw["udp-dns-ipv6"] != "refused" || saw["host-loopback-ipv6"] != "refused") {
			t.Errorf("IPv6 was not refused: %v", saw)
		}
		if saw["tcp-public"] != "absent" || saw["udp-dns"] != "absent" || saw["control"] != "answered" {
			t.Errorf("the proof saw %v", saw)
		}
		gone()
	})
}

// newestProof is what the probes of the newest run saw.
func newestProof(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/*/fence.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	newest := slices.MaxFunc(files, func(a, b string) int { return modified(t, a).Compare(modified(t, b)) })
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	var proof struct {
		Probes []struct{ Name, Saw string }
	}
	if err := json.Unmarshal(text, &proof); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	saw := map[string]string{}
	for _, p := range proof.Probes {
		saw[p.Name] = p.Saw
	}
	return saw
}

// listenIn opens a listener in the network namespace of a process.
func listenIn(t *testing.T, pid int, addr string) net.Listener {
	t.Helper()
	var ln net.Listener
	var err error
	fakes.OnThread(func() {
		var ns *os.File
		if ns, err = os.Open("/proc/" + strconv.Itoa(pid) + "/ns/net"); err != nil {
			return
		}
		defer ns.Close()
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err == nil {
			ln, err = net.Listen("tcp", addr)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return ln
}

// TestHostWithoutNetwork: with nothing but its own loopback a host still has
// services there, and a sandbox that may reaches them.
func TestHostWithoutNetwork(t *testing.T) {
	pid, enter := anotherHost(t, "")
	ln := listenIn(t, pid, "127.0.0.1:0")
	srv := &http.Server{Handler: fakes.Site()}
	go srv.Serve(ln)
	defer srv.Close()
	port := ln.Addr().(*net.TCPAddr).Port
	backends(t, func(t *testing.T, flags []string) {
		gone := wantNothingLeft(t)
		c := call{dir: project(t), enter: enter}
		o := c.aisb(t, append(flags, "--allow", fmt.Sprintf("host.containers.internal:%d", port)), sh(fmt.Sprintf(`
			curl -sS http://host.containers.internal:%d/own
			curl -s -o /dev/null -w '%%{http_code}\n' http://evil.test/`, port))...)
		o.wantStatus(t, 0)
		if want := fmt.Sprintf("origin GET host.containers.internal:%d /own\n403\n", port); o.stdout != want {
			t.Errorf("got %q, want %q\n%s", o.stdout, want, o.stderr)
		}
		wantIn(t, "receipt", o.stderr, "fence proved")
		gone()
	})
}

// TestPoint4WithoutNetwork: where nothing could get out anyway, a ruleset that
// accepts everything is no fence all the same.
func TestPoint4WithoutNetwork(t *testing.T) {
	_, enter := anotherHost(t, "")
	for _, tt := range []struct{ name, point, script, part string }{
		{"everything accepted", "applied", "nft insert rule inet aisb output accept", "packet filter"},
		{"nothing but accepting chains", "applied", `nft flush ruleset; nft add table inet aisb
			for hook in output input forward; do nft add chain inet aisb $hook "{ type filter hook $hook priority 0; policy accept; }"; done`, "packet filter"},
		{"accepted after the read-back", "verified", "nft insert rule inet aisb output accept", "proof of the fence"},
		{"deleted after the read-back", "verified", "nft flush ruleset", "proof of the fence"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			backends(t, func(t *testing.T, flags []string) {
				gone := wantNothingLeft(t)
				dir := faultyProject(t, tt.point, tt.script)
				o := call{dir: dir, bin: faulty, enter: enter}.aisb(t, append(flags, allowed...), sh("touch /project/ran")...)
				wantRefusedStart(t, dir, o, 78, tt.part)
				gone()
			})
		})
	}
	// With --net none too, and the control: without a fault it starts.
	dir := faultyProject(t, "applied", "nft insert rule inet aisb output accept")
	o := call{dir: dir, bin: faulty, enter: enter}.aisb(t, []string{"--net", "none"}, sh("touch /project/ran")...)
	wantRefusedStart(t, dir, o, 78, "packet filter")
	backends(t, func(t *testing.T, flags []string) {
		call{dir: faultyProject(t, "applied", "true"), bin: faulty, enter: enter}.aisb(t, append(flags, allowed...), "true").wantStatus(t, 0)
	})
}
