package nft

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/tests/need"
)

func TestCountersCountByName(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		ip(t, "link", "set", "lo", "up")
		ip(t, "link", "add", "one", "type", "veth", "peer", "name", "two")
		ip(t, "addr", "add", "192.0.2.1/24", "dev", "one")
		ip(t, "link", "set", "one", "up")
		ip(t, "link", "set", "two", "up")
		ip(t, "route", "add", "default", "via", "192.0.2.2")
		rs := render(t, specs()["one gate"])
		if err := Apply(rs); err != nil {
			t.Fatal(err)
		}
		before, err := Counters(rs)
		if err != nil {
			t.Fatal(err)
		}
		rules := 0
		for _, c := range rs.Chains {
			rules += len(c.Rules)
		}
		if len(before) != rules {
			t.Errorf("%d counters for %d rules", len(before), rules)
		}
		for range 3 {
			if _, err := net.DialTimeout("tcp", "203.0.113.1:443", 20*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("to the probe's target: %v", err)
			}
		}
		if _, err := net.DialTimeout("tcp", "203.0.113.1:80", 20*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("to another port: %v", err)
		}
		after, err := Counters(rs)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]uint64{"probe tcp": 3, "other tcp out": 1, "probe tcp6": 0, "gate 1 out": 0} {
			if got := after[name].Packets - before[name].Packets; got != want {
				t.Errorf("%q grew by %d, want %d", name, got, want)
			}
		}
		if got := after["probe tcp"].Bytes; got < 3*40 {
			t.Errorf("three SYN are %d bytes", got)
		}
	})
}

func TestApplyFailsWholly(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		rs := render(t, specs()["one gate"])
		bad := render(t, specs()["one gate"])
		bad.Chains[0].Rules[1].Name = strings.Repeat("x", 300) // over the kernel's bound of user data
		if err := Apply(bad); err == nil {
			t.Error("the kernel took a rule that it can't take")
		}
		if got := nft(t, "", "list", "ruleset"); got != "" {
			t.Errorf("after a failed transaction there is\n%s", got)
		}
		if err := Apply(rs); err != nil {
			t.Fatal(err)
		}
		// Without the capability nothing can be installed; the rest is as before.
		dropAll(t)
		if err := Apply(rs); !errors.Is(err, unix.EPERM) {
			t.Errorf("without a capability: got %v, want EPERM", err)
		}
	})
}

// dropAll gives up all capabilities of this goroutine's thread, for good.
func dropAll(t *testing.T) {
	t.Helper()
	var none [2]unix.CapUserData
	runtime.LockOSThread() // and not back: the thread is of no use any more
	if err := unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &none[0]); err != nil {
		t.Fatal(err)
	}
}

// dial opens a connection to this namespace's packet filter.
func dial(t *testing.T) *netlink.Conn {
	t.Helper()
	conn, err := netlink.Dial(unix.NETLINK_NETFILTER, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func TestUnknownHook(t *testing.T) {
	rs := netpolicy.Ruleset{Chains: []netpolicy.Chain{{Hook: "ingress"}}}
	if err := Apply(rs); err == nil || errors.Is(err, unix.EPERM) {
		t.Errorf("got %v", err)
	}
	if _, err := expected(rs); err == nil {
		t.Error("a ruleset of an unknown hook was made")
	}
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %q: %v: %s", args, err, out)
	}
}

// BenchmarkApplyAndVerify measures both as a start has them: once, in a process and a
// network namespace that are new; and the same again there. A thread with a namespace of its own would not do:
// netlink's goroutines change threads with it at each message.
func BenchmarkApplyAndVerify(b *testing.B) {
	rs, err := netpolicy.Render(specs()["both families and published"])
	if err != nil {
		b.Fatal(err)
	}
	const again = 100
	if result := os.Getenv(inside); result != "" {
		begin := time.Now()
		err := errors.Join(Apply(rs), Verify(rs))
		first := time.Since(begin)
		var others time.Duration
		for range again {
			removeTable(b)
			begin := time.Now()
			err = errors.Join(err, Apply(rs), Verify(rs))
			others += time.Since(begin)
		}
		if err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(result, fmt.Append(nil, first.Nanoseconds(), others.Nanoseconds()/again), 0o600); err != nil {
			b.Fatal(err)
		}
		return
	}
	need.Root(b)
	result := filepath.Join(b.TempDir(), "took")
	var firsts, others float64
	for b.Loop() {
		cmd := exec.Command("/proc/self/exe", "-test.run=^$", "-test.bench=^BenchmarkApplyAndVerify$", "-test.benchtime=1x")
		cmd.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
		cmd.Env = append(os.Environ(), inside+"="+result)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		text, err := os.ReadFile(result)
		if err != nil {
			b.Fatal(err)
		}
		var first, other float64
		if _, err := fmt.Sscan(string(text), &first, &other); err != nil {
			b.Fatal(err)
		}
		firsts += first
		others += other
	}
	b.ReportMetric(firsts/float64(b.N), "ns/op")
	b.ReportMetric(others/float64(b.N), "ns/again")
}
