package doctor

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/need"
)

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == Name {
		os.Exit(Main(os.Args[1:]))
	}
	os.Exit(m.Run())
}

func TestTrial(t *testing.T) {
	need.UserNS(t)
	need.NFT(t)
	if got := try(t.Context()); !got.Done {
		t.Errorf("%+v", got)
	}
}

// TestTrialOutside: whoever calls the role by hand must not lose the packet
// filter of the network that he is in.
func TestTrialOutside(t *testing.T) {
	need.UserNS(t)
	for name, attr := range map[string]*syscall.SysProcAttr{
		"the host's namespaces": nil,
		"only a user namespace": {
			Cloneflags:  syscall.CLONE_NEWUSER,
			UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
			GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
		},
	} {
		o := run(t.Context(), quick, command{path: "/proc/self/exe", argv: []string{Name}, env: []string{}, attr: attr})
		if got := judgeTrial(o); got.Done || !strings.Contains(got.StartErr, "look where it is") {
			t.Errorf("%s: %+v (%+v)", name, got, o)
		}
	}
}

func TestRunEndsInTime(t *testing.T) {
	pid := 0
	for limit := 300 * time.Millisecond; pid == 0; limit *= 2 { // a busy machine needs more for it to begin
		dir := t.TempDir()
		begin := time.Now()
		o := run(t.Context(), limit, command{path: "/bin/sh", env: os.Environ(), dir: dir,
			args: []string{"-c", "sleep 600 & echo $! >pid; echo begun; exec sleep 600"}})
		if o.TimedOut == 0 || !o.Ran || o.fine() || o.Text != "begun\n" && limit > 10*time.Second {
			t.Fatalf("%+v", o)
		}
		if took := time.Since(begin); took > limit+30*time.Second {
			t.Errorf("took %v of %v", took, limit)
		}
		if o.Text != "begun\n" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(dir, "pid"))
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	// Whoever inherits it reaps it, at some time: until then it is a zombie.
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if errors.Is(err, fs.ErrNotExist) || strings.Contains(string(stat), ") Z ") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("its child lives on: %s", stat)
		}
	}
}

func TestRun(t *testing.T) {
	sh := func(script string, terminal bool) Output {
		return run(t.Context(), 30*time.Second, command{path: "/bin/sh", args: []string{"-c", script}, env: os.Environ(), terminal: terminal})
	}
	if o := sh("echo a; echo b >&2; exit 3", false); o.Text != "a\n" || o.Errors != "b\n" || o.Status != 3 || o.fine() || !o.Ran {
		t.Errorf("%+v", o)
	}
	if o := sh("test -t 1 && echo terminal; test -t 2 || echo pipe >&2", true); strings.TrimSpace(o.Text) != "terminal" || o.Errors != "pipe\n" || !o.fine() {
		t.Errorf("%+v", o)
	}
	if o := sh("head -c 9000000 /dev/zero", false); len(o.Text) != mostOutput || !o.fine() {
		t.Errorf("%d bytes, %+v", len(o.Text), o.Status)
	}
	if o := sh("kill -9 $$", false); o.fine() || o.Err == "" {
		t.Errorf("%+v", o)
	}
	if o := run(t.Context(), time.Second, command{path: "/no/such"}); o.Ran || o.Err == "" {
		t.Errorf("%+v", o)
	}
	if o := run(t.Context(), time.Second, command{}); o.Ran || o.Path != "" || o.fine() {
		t.Errorf("%+v", o)
	}
}

func TestPlace(t *testing.T) {
	dir := t.TempDir()
	if p := place(filepath.Join(dir, "not/yet/there")); p.Err != "" || !p.Writable || p.Free == 0 || p.Type == "" {
		t.Errorf("%+v", p)
	}
	if p := place("/proc/self/no"); p.Err != "" || p.Type != "type 0x9fa0" {
		t.Errorf("%+v", p)
	}
	for _, bad := range []string{"", "relative", dir + "/" + strings.Repeat("x", 300)} {
		if p := place(bad); p.Err == "" {
			t.Errorf("%q: %+v", bad, p)
		}
	}
}

// TestPlaceNoexec mounts what the tables only claim.
func TestPlaceNoexec(t *testing.T) {
	need.UserNS(t)
	const inside = "AISB_TEST_DOCTOR_INSIDE"
	if dir := os.Getenv(inside); dir != "" {
		if err := unix.Mount("none", dir, "tmpfs", unix.MS_NOEXEC|unix.MS_NOSUID, "size=8m"); err != nil {
			t.Fatal(err)
		}
		if p := place(dir + "/a"); !p.NoExec || p.ReadOnly || p.Type != "tmpfs" || p.Free>>20 != 8 {
			t.Errorf("%+v", p)
		}
		if err := unix.Mount("none", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
			t.Fatal(err)
		}
		if p := place(dir); !p.ReadOnly || p.NoExec {
			t.Errorf("%+v", p)
		}
		return
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestPlaceNoexec$", "-test.count=1", "-test.v")
	cmd.Env = append(os.Environ(), inside+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestPlaceNoexec") {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestProgram(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("PATH", dir)
	if p := program("mapper"); p != (Program{}) {
		t.Errorf("%+v", p)
	}
	path := filepath.Join(dir, "mapper")
	if err := os.WriteFile(path, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	if p := program("mapper"); p.Path != path || p.SetUID || p.Caps {
		t.Errorf("%+v", p)
	}
	if err := os.Chmod(path, 0o755|fs.ModeSetuid); err != nil {
		t.Fatal(err)
	}
	// setuid of somebody else raises no rights that matter
	if p := program("mapper"); p.SetUID != (os.Getuid() == 0) {
		t.Errorf("uid %d: %+v", os.Getuid(), p)
	}
}
