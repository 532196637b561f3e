package wire

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/need"
)

const units = "../../docs/systemd"

// The unit's command starts a gate with the socket unit's kind of socket, and
// tells systemd what Type=notify waits for.
func TestUnitStarts(t *testing.T) {
	text, err := os.ReadFile(units + "/aisb-gate.service")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "\nExecStart=/usr/bin/aisb gate ")
	if !found {
		t.Fatal("no ExecStart")
	}
	args, _, _ := strings.Cut(after, "\n")
	rules := filepath.Join(t.TempDir(), "rules.txt")
	writeFile(t, rules, "allowed.test\n", 0o600)
	if !strings.Contains(args, "/etc/aisb/rules.txt") {
		t.Fatalf("the command reads no rules: %q", args)
	}
	n, name := listenNotices(t)
	ln, _ := socket(t, "tcp", "127.0.0.1:0")
	s := startCommand(t, activate(t, "$$", []string{"NOTIFY_SOCKET=" + name}, strings.ReplaceAll(args, "/etc/aisb/rules.txt", rules), ln))
	n.next("READY=1\nSTATUS=serving, 1 allow rules")
	if _, _, status := s.connect("other.test:443"); !strings.Contains(status, "403") {
		t.Error(status)
	}
}

// systemd understands the units, and finds the service well locked up.
func TestUnitsVerify(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		need.Missing(t, "root", err)
	}
	build(t)
	binary, err := filepath.Abs(*binary)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"aisb-gate.service", "aisb-gate.socket"} {
		text, err := os.ReadFile(filepath.Join(units, name))
		if err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(dir, name), strings.ReplaceAll(string(text), "/usr/bin/aisb", binary), 0o644)
	}
	service, socket := filepath.Join(dir, "aisb-gate.service"), filepath.Join(dir, "aisb-gate.socket")
	if out, err := exec.Command("systemd-analyze", "verify", "--man=no", service, socket).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("verify: %v\n%s", err, out)
	}
	out, err := exec.Command("systemd-analyze", "security", "--offline=yes", "--threshold=20", service).CombinedOutput()
	if err != nil {
		t.Errorf("security: %v\n%s", err, out)
	}
}

// The units do under a real systemd what docs/gate.md says: the socket is there
// first, the gate starts with the first client, says how it is, reloads, and is
// locked up so that it still works.
func TestUnderSystemd(t *testing.T) {
	need.Root(t)
	// No virtual machine: root and the package systemd, which tests/setup
	// installs for root, are enough.
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil {
		need.Missing(t, "root", err)
	}
	build(t)
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "memory"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		*binary: "aisb", "testdata/systemd/script": "script",
		units + "/aisb-gate.service": "aisb-gate.service", units + "/aisb-gate.socket": "aisb-gate.socket",
	} {
		data, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, to), data, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	var said lockedBuffer
	group := fmt.Sprintf("aisb-systemd-test-%d", os.Getpid())
	cmd := exec.Command("testdata/systemd/boot", dir, group)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		need.Missing(t, "root", err)
	}
	ended := make(chan error, 1)
	gone := make(chan struct{})
	go func() { ended <- cmd.Wait(); close(gone) }()
	t.Cleanup(func() {
		cmd.Process.Kill() // with the first process of their namespace all others end
		<-gone
		removeGroup(t, group)
	})
	out := readUnderSystemd(t, cmd.Process.Pid, ended, &said)
	for _, want := range []string{
		"socket: active", "service before the first client: inactive", "first client: 204", "service: active",
		"status: serving, 1 allow rules", "refused: 403", "another user: 403", "reload: serving, 2 allow rules",
		"wrong reload: serving, 2 allow rules; the last reload failed", "wrong start: failed, status 78", "restart: 204", "stop: success", "changes: +example.org",
	} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

// removeGroup removes a control group and those below it, where this machine has
// the second version of them mounted.
func removeGroup(t *testing.T, name string) {
	t.Helper()
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 2 && fields[2] == "cgroup2" {
			var groups []string
			filepath.WalkDir(filepath.Join(fields[1], name), func(path string, d fs.DirEntry, err error) error {
				if err == nil && d.IsDir() {
					groups = append(groups, path)
				}
				return nil
			})
			for _, group := range slices.Backward(groups) { // those below first
				err := os.Remove(group)
				// The kernel may let a process go from it after its end has been told.
				for end := time.Now().Add(limit); errors.Is(err, syscall.EBUSY) && time.Now().Before(end); err = os.Remove(group) {
					time.Sleep(time.Millisecond)
				}
				if err != nil {
					t.Errorf("a control group is left: %v", err)
				}
			}
			return
		}
	}
}

// readUnderSystemd waits for the script's last line.
func readUnderSystemd(t *testing.T, pid int, ended <-chan error, said *lockedBuffer) string {
	t.Helper()
	name := fmt.Sprintf("/proc/%d/root/run/out", pid)
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		out, _ := os.ReadFile(name)
		if strings.HasSuffix(string(out), "\nfinished\n") {
			return string(out)
		}
		select {
		case err := <-ended:
			// Of the set-up: this machine has no overlay, no cgroup2, or the like.
			need.Missing(t, "root", fmt.Errorf("boot systemd: %w: %s", err, said.String()))
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("the script does not end: %s\n%s", out, said.String())
		}
	}
}
