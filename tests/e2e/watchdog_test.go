//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// dogLimit bounds how long the watchdog may take in these tests: it looks every
// second, and the end of a container takes its time on a busy machine.
const dogLimit = 20 * time.Second

// lookTwice lets the watchdog look twice: nothing tells that it did.
func lookTwice() { time.Sleep(2500 * time.Millisecond) }

// unmount takes a mount of a process away, as root of the host can.
func unmount(pid int, point string) error {
	var err error
	fakes.OnThread(func() {
		var ns *os.File
		if ns, err = os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid)); err != nil {
			return
		}
		defer ns.Close()
		if err = unix.Unshare(unix.CLONE_FS); err != nil { // setns(2) wants it
			return
		}
		if err = unix.Setns(int(ns.Fd()), unix.CLONE_NEWNS); err == nil {
			err = unix.Unmount(point, 0)
		}
	})
	return err
}

// podman runs the user's own podman.
func podman(t *testing.T, args ...string) string {
	t.Helper()
	o := call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, args...)
	o.wantStatus(t, 0)
	return strings.TrimSpace(o.stdout)
}

// Root of the container by another door can change the ruleset. The watchdog
// sees it from the host and ends the sandbox.
func TestWatchdogFence(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, allowed, sh("echo ready; sleep 1000")...)
	l.waitOut("ready\n")
	// Its status is nobody's business: the container may be gone before it has one.
	call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, "exec", containerName(t),
		"/usr/sbin/nft", "add", "rule", "inet", "aisb", "output", "accept")
	o := l.wait(dogLimit)
	o.wantStatus(t, 78)
	wantIn(t, "error", o.stderr, "aisb: error: the sandbox was stopped: its fence was changed from outside", "aisb: hint: ")
	gone()
}

// What is changed right before the end, when the watchdog may not look any more, is no
// better.
func TestFenceChangedAtTheEnd(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, allowed, sh("echo ready; read x; exit 5")...)
	l.waitOut("ready\n")
	// The watchdog may be faster, and then podman has no status of it.
	call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, "exec", containerName(t), "/usr/sbin/nft", "add", "rule", "inet", "aisb", "output", "accept")
	l.say("")
	o := l.wait(dogLimit)
	o.wantStatus(t, 78)
	wantIn(t, "error", o.stderr, "its fence was changed from outside")
	gone()
}

// A change that is undone before anyone looked leaves the fence as it must be.
func TestWatchdogSameAgain(t *testing.T) {
	l := call{dir: project(t)}.start(t, allowed, sh("echo ready; read x; exit 5")...)
	l.waitOut("ready\n")
	podman(t, "exec", containerName(t), "/usr/sbin/nft", "add table ip x; delete table ip x")
	lookTwice()
	l.say("")
	l.wait(dogLimit).wantStatus(t, 5)
}

// A mount inside the project whose mount point the host removes is lost: the
// kernel takes it away (detach_mounts in fs/namespace.c). What it protected is open.
func TestWatchdogMount(t *testing.T) {
	gone := wantNothingLeft(t)
	dir, other := project(t), project(t)
	point := filepath.Join(dir, "protected")
	if err := os.Mkdir(point, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(point, agent.uid, agent.gid); err != nil {
		t.Fatal(err)
	}
	flags := append([]string{"-v", other + ":/project/protected:ro"}, allowed...)
	l := call{dir: dir}.start(t, flags, sh("echo ready; sleep 1000")...)
	l.waitOut("ready\n")
	if err := os.Remove(point); err != nil {
		t.Fatal(err)
	}
	o := l.wait(dogLimit)
	o.wantStatus(t, 78)
	wantIn(t, "error", o.stderr, `the mount on "/project/protected" is gone`, "aisb: hint: ")
	gone()
}

// A disk without the room that was asked for is a refusal before anything runs.
func TestMinFree(t *testing.T) {
	gone := wantNothingLeft(t)
	dir := project(t)
	o := call{dir: dir}.aisb(t, append([]string{"--min-free", "900t"}, allowed...), sh("touch /project/ran")...)
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "the disk is nearly full", "--min-free")
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command ran")
	}
	gone()
}

// The receipt tells of attempts that went past the gate.
func TestDirectAttempts(t *testing.T) {
	o := call{dir: project(t)}.aisb(t, allowed, sh("for i in 1 2 3; do curl -s --noproxy '*' http://"+originAddr+"/; done; exit 0")...)
	o.wantStatus(t, 0)
	// One a try, or more when an answer was late.
	m := regexp.MustCompile(`the fence refused (\d+) packets? that went past the gate`).FindStringSubmatch(o.stderr)
	if m == nil {
		t.Fatalf("the receipt doesn't tell:\n%s", o.stderr)
	}
	if n, err := strconv.Atoi(m[1]); err != nil || n < 3 {
		t.Errorf("%s packets for 3 tries", m[1])
	}
	o = call{dir: project(t)}.aisb(t, allowed, "curl", "-sS", "http://allowed.test/")
	o.wantStatus(t, 0)
	wantNot(t, "receipt", o.stderr, "the fence refused")
}

// How the fence was proved is kept beside the run's log, for its user alone.
func TestProofIsKept(t *testing.T) {
	o := call{dir: project(t)}.aisb(t, allowed, "true")
	o.wantStatus(t, 0)
	files, err := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/*/fence.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%q, %v", files, err)
	}
	slices.SortFunc(files, func(a, b string) int { return modified(t, a).Compare(modified(t, b)) })
	newest := files[len(files)-1]
	info, err := os.Stat(newest)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	text, err := os.ReadFile(newest)
	if err != nil {
		t.Fatal(err)
	}
	wantIn(t, "the proof", string(text), `"net":"allow"`, `{"name":"tcp-public","saw":"`, `{"name":"control","saw":"answered","ok":true}`)
	wantNot(t, "the proof", string(text), `"ok":false`)
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}
