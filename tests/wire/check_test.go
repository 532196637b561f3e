package wire

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// In a sandbox check asks the gate that AISB_GATE names, also with a token and
// for many hosts, and says why a host is refused.
func TestCheckAsksTheGate(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens")
	writeFile(t, file, "a-token-of-some-length\n", 0o600)
	s := startStandalone(t, "--allow", "allowed.test,*.wild.test:22+tcp", "--deny", "bad.wild.test", "--auth-token-file", file)
	expected := filepath.Join(t.TempDir(), "expected.txt")
	writeFile(t, expected, "allow allowed.test\ndeny bad.wild.test:22\ndeny 9.9.9.9\n", 0o600)
	for _, tt := range []struct {
		args   string
		status int
		want   []string
	}{
		{"allowed.test", 0, []string{"allowed.test:443 allowed: listed", "rule:      allowed.test"}},
		{"other.test", 1, []string{"other.test:443 refused: not-listed", "why:       no rule allows this host", "hint:      the person who runs this sandbox"}},
		{"bad.wild.test:22", 1, []string{"refused: denied-rule", `why:       the rule "bad.wild.test" denies it`}},
		{"--json localhost:8080", 1, []string{`"why":"it means the machine itself; the host's services are at http://host.containers.internal:PORT"`}},
		{"-f " + expected, 0, []string{"3 checked, all as expected"}},
	} {
		cmd := exec.Command(*binary, append([]string{"check"}, strings.Fields(tt.args)...)...)
		cmd.Env = append(os.Environ(), "AISB_GATE=http://aisb:a-token-of-some-length@"+s.addr)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != tt.status {
			t.Errorf("check %s: status %d: %s", tt.args, cmd.ProcessState.ExitCode(), out)
		}
		for _, want := range tt.want {
			if !strings.Contains(string(out), want) {
				t.Errorf("check %s: %q, want %q", tt.args, out, want)
			}
		}
	}
}
