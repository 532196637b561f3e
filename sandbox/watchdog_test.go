package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mountinfo"
	"github.com/aisb-dev/aisb/sandbox/protect"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
	"github.com/aisb-dev/aisb/tests/need"
)

func mount(target, kind, options string) mountinfo.Mount {
	return mountinfo.Mount{Root: "/", Target: target, Type: kind, Options: strings.Split(options, ",")}
}

// A mount that went, came, changed what it is or became writable is seen; what
// the host renames or deletes behind one is its own business.
func TestCompareKept(t *testing.T) {
	before := []mountinfo.Mount{
		mount("/", "overlay", "ro"), mount("/project", "ext4", "rw,nosuid"), mount("/project/.git", "ext4", "ro"),
		mount("/tmp", "tmpfs", "rw"), mount("/tmp", "tmpfs", "rw"),
	}
	for _, c := range []struct {
		name   string
		change func([]mountinfo.Mount) []mountinfo.Mount
		want   string
	}{
		{"the same", func(m []mountinfo.Mount) []mountinfo.Mount { return m }, ""},
		{"another order", func(m []mountinfo.Mount) []mountinfo.Mount { slices.Reverse(m); return m }, ""},
		{"deleted on the host", func(m []mountinfo.Mount) []mountinfo.Mount { m[1].Root = "/home/u/x//deleted"; return m }, ""},
		{"another option", func(m []mountinfo.Mount) []mountinfo.Mount { m[1].Options = []string{"rw"}; return m }, ""},
		{"gone", func(m []mountinfo.Mount) []mountinfo.Mount { return slices.Delete(m, 2, 3) }, `the mount on "/project/.git" is gone`},
		{"one of two gone", func(m []mountinfo.Mount) []mountinfo.Mount { return m[:4] }, `the mount on "/tmp" is gone`},
		{"writable now", func(m []mountinfo.Mount) []mountinfo.Mount { m[2].Options = []string{"rw"}; return m }, `the mount on "/project/.git" was changed`},
		{"another file system", func(m []mountinfo.Mount) []mountinfo.Mount { m[1].Type = "tmpfs"; return m }, `the mount on "/project" was changed`},
		{"another of that kind", func(m []mountinfo.Mount) []mountinfo.Mount { m[1].Device = "8:2"; return m }, `the mount on "/project" was changed`},
		{"one more", func(m []mountinfo.Mount) []mountinfo.Mount { return append(m, mount("/etc", "ext4", "ro")) }, `a mount on "/etc" was added`},
		{"one over another", func(m []mountinfo.Mount) []mountinfo.Mount { return append(m, mount("/project", "ext4", "rw")) }, `the mount on "/project" was changed`},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := compareKept(before, c.change(slices.Clone(before)))
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestRoom(t *testing.T) {
	for floor, full := range map[uint64]bool{0: false, 1: false, 1 << 62: true} {
		w := &watchdog{room: []string{"/nowhere", t.TempDir()}, min: floor}
		f := w.lookForRoom()
		if (f != nil) != full || f != nil && (f.Status != 125 || !strings.Contains(f.Hint, "--min-free")) {
			t.Errorf("floor %d: %+v", floor, f)
		}
	}
}

// TestHungDisk: while a disk doesn't answer, the rest is looked at, and the watchdog ends.
func TestHungDisk(t *testing.T) {
	need.Root(t)
	for _, part := range []string{"room", "project"} {
		t.Run(part, func(t *testing.T) { besideHungDisk(t, part) })
	}
}

// besideHungDisk has the watchdog ask a disk that hangs, and changes a mount.
func besideHungDisk(t *testing.T, part string) {
	conn, peer, err := fdmsg.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	s := &Session{entry: conn, cut: make(chan struct{}), watched: make(chan struct{}), disks: make(chan struct{}),
		ending: &ending{done: make(chan struct{})}, podman: &podmanProcess{done: make(chan struct{})}}
	disk, answer := hungDisk(t)
	if part == "room" {
		s.dog.room, s.dog.min = []string{disk}, 1
	} else {
		s.spec.Watch = watchOn(t, disk)
	}
	proc := t.TempDir()
	if s.dog.proc, err = os.OpenRoot(proc); err != nil {
		t.Fatal(err)
	}
	const line = "22 1 0:20 / / rw - tmpfs none rw\n"
	for _, text := range []string{line, line + "23 22 0:21 / /etc rw - tmpfs none rw\n"} {
		if err := os.WriteFile(filepath.Join(proc, "mountinfo"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if s.dog.mounts == nil {
			if err := s.dog.arm(); err != nil {
				t.Fatal(err)
			}
			go s.watch()
			time.Sleep(2 * watchEvery) // for it to ask the disk
		}
	}
	if !within(s.watched, 30*watchEvery) {
		t.Fatal("the watchdog waits for the disk")
	}
	if f := s.dog.bitten(); f == nil || !strings.Contains(f.Error(), `a mount on "/etc" was added`) {
		t.Errorf("got %v", f)
	}
	answer()
	if !within(s.disks, 30*watchEvery) {
		t.Error("what looks at the disk goes on")
	}
}

// watchOn looks for what appears in a project that has come to hang.
func watchOn(t *testing.T, disk string) *snapshot.Watch {
	set, err := protect.Load()
	if err != nil {
		t.Fatal(err)
	}
	open := func(dir string) *os.File {
		f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	w := snapshot.NewWatch(set, []snapshot.Tree{{File: open(t.TempDir())}}, snapshot.Look{})
	w.Trees[0].File = open(disk)
	return w
}

// hungDisk is a file system whose server says nothing until the test ends, or answer is
// called: an error to all who wait.
func hungDisk(t *testing.T) (dir string, answer func()) {
	t.Helper()
	fuse, err := os.OpenFile("/dev/fuse", os.O_RDWR, 0)
	if err != nil {
		need.Missing(t, "fuse", err)
	}
	dir = t.TempDir()
	answer = func() { fuse.Close() }
	t.Cleanup(answer)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fuse.Fd())
	if err := unix.Mount("none", dir, "fuse", unix.MS_NODEV|unix.MS_NOSUID, options); err != nil {
		need.Missing(t, "fuse", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, answer
}

// A fence that can't be read is one that doesn't hold.
func TestBlindWatchdog(t *testing.T) {
	socket, err := nft.Socket()
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{}
	if err := s.openWatchdog(socket, netpolicy.Spec{}); err != nil {
		t.Fatal(err)
	}
	s.dog.close()
	if f := s.dog.look(); f == nil || f.Status != handshake.ExitProof || f.Hint == "" {
		t.Errorf("%+v", f)
	}
	if n, _, _, err := s.dog.tally(); n != 0 || err != nil {
		t.Errorf("before it was armed: %d, %v", n, err)
	}
}

// TestFenceFailure: what can't be read was not therefore changed.
func TestFenceFailure(t *testing.T) {
	for err, want := range map[error]string{
		fmt.Errorf("x: %w", nft.ErrMismatch): "was changed from outside", fmt.Errorf("x: %w", nft.ErrChanging): "was changed from outside",
		unix.ENOBUFS: "can't be watched any more",
	} {
		if f := fenceFailure(err); f.Status != handshake.ExitProof || !strings.Contains(f.Error(), want) || !errors.Is(f, err) || f.Hint == "" {
			t.Errorf("%v: %+v", err, f)
		}
	}
}

// TestMountsOfTheDead: who gets the number of a dead pid 1 isn't taken for it.
func TestMountsOfTheDead(t *testing.T) {
	cmd := exec.Command("cat")
	// With mounts of its own: what is mounted on the machine meanwhile is not its business.
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Getuid() != 0 {
		need.UserNS(t)
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
	}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	var w watchdog
	defer w.close()
	if w.proc, err = os.OpenRoot(fmt.Sprintf("/proc/%d", cmd.Process.Pid)); err != nil {
		t.Fatal(err)
	}
	if err := w.arm(); err != nil || len(w.mounts) == 0 {
		t.Fatalf("%v, %d mounts", err, len(w.mounts))
	}
	if f := w.look(); f != nil {
		t.Error(f)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.readMounts(); !pidGone(err) {
		t.Errorf("got %v", err)
	}
	if f := w.look(); f != nil {
		t.Error(f)
	}
}

// What the kernel sends by itself, as it looks for routers, is no attempt.
func TestDirectRules(t *testing.T) {
	rs, err := netpolicy.Render(fencePolicy(netip.MustParseAddrPort("169.254.1.3:1"), netip.MustParseAddrPort("169.254.1.3:2")))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range attempts(rs) {
		names = append(names, r.Name)
	}
	want := []string{"probe tcp-public", "probe tcp-public-ipv6", "probe udp-dns", "probe udp-dns-ipv6", "probe podman-dns", "probe podman-dns-tcp",
		"probe host-loopback", "other tcp out", "other udp out"}
	if !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

// A fence that nobody can watch is none, unless that was wanted.
func TestFenceWithoutASocket(t *testing.T) {
	s := &Session{}
	if err := s.fenced(handshake.Stage{Stage: handshake.Fenced}, fdmsg.Message{}); err == nil {
		t.Error("it passed")
	}
	if err := s.fenced(handshake.Stage{Stage: handshake.Fenced, Warning: "no fence"}, fdmsg.Message{}); err != nil {
		t.Error(err)
	}
}

// TestComplete: a start in which a stage was left out is none.
func TestComplete(t *testing.T) {
	whole := func() *Session {
		s := &Session{ending: &ending{}, proof: []handshake.ProbeResult{{OK: true}}}
		s.spec.Net, s.dog.filter = NetAllow, &nft.Watcher{}
		return s
	}
	if err := whole().complete(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(s *Session){
		"streams": func(s *Session) { s.ending = nil },
		"proof":   func(s *Session) { s.proof = nil },
		"watch":   func(s *Session) { s.dog.filter = nil },
	} {
		s := whole()
		spoil(s)
		if s.complete() == nil {
			t.Errorf("it passed without %s", name)
		}
		if s.spec.Net = NetFull; (s.complete() == nil) != (name != "streams") {
			t.Errorf("without a fence and without %s: %v", name, s.complete())
		}
	}
}
