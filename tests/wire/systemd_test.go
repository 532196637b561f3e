package wire

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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
		need.Missing(t, "vm", err)
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
