package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// logTo starts a gate whose log is a file, and returns what ends it.
func logTo(t *testing.T, name string, args ...string) (s *standalone, stop func()) {
	t.Helper()
	build(t)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s = startCommand(t, exec.Command(*binary, append([]string{"gate", "--listen", "127.0.0.1:0"}, args...)...), f)
	return s, func() {
		t.Helper()
		s.signal(syscall.SIGTERM)
		if _, err := s.end(); err != nil {
			t.Error(err)
		}
	}
}

// logs -f on a terminal shows a table that grows, and ends with the gate.
func TestLogsFollow(t *testing.T) {
	name := filepath.Join(t.TempDir(), "gate.jsonl")
	_, target := echo(t)
	s, stop := logTo(t, name, "--allow", target+"+tcp")
	cmd := exec.Command(*binary, "gate", "logs", "-f", name)
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	t.Cleanup(func() { cmd.Process.Kill() })
	c, r, _ := s.connect(target)
	io.WriteString(c, "x\n")
	r.ReadString('\n')
	c.Close()
	s.connect("evil.test:443")
	s.wait("close", "")
	stop()
	out, _ := io.ReadAll(terminal) // ends in EIO
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	for _, want := range []string{
		`\d\d:\d\d:\d\d  listening  127\.0\.0\.1:\d+`,
		`allow      CONNECT host\.containers\.internal:\d+ +host-service  host\.containers\.internal:\d+\+tcp`,
		`deny       CONNECT evil\.test:443 +not-listed`,
		`close      CONNECT host\.containers\.internal:\d+ +up 2 B  down 2 B  `,
		`exit +shutdown`,
	} {
		if !matches(want, string(out)) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if strings.Contains(string(out), "{") {
		t.Errorf("a terminal gets JSON: %s", out)
	}
}

// The real log of a run, judged by the rules that are suggested for it, has
// nothing refused; by none, everything.
func TestReplayOfRealLog(t *testing.T) {
	name := filepath.Join(t.TempDir(), "gate.jsonl")
	_, target := echo(t)
	s, stop := logTo(t, name, "--allow", target+"+tcp")
	c, r, _ := s.connect(target)
	io.WriteString(c, "x\n")
	r.ReadString('\n')
	c.Close()
	s.connect("evil.test:443")
	s.wait("close", "")
	stop()
	suggested, err := exec.Command(*binary, "gate", "replay", name, "--suggest").Output()
	if err != nil || string(suggested) != target+"+tcp\n" {
		t.Fatalf("suggested %q, %v", suggested, err)
	}
	for rules, status := range map[string]int{strings.TrimSpace(string(suggested)): 0, target: 1, "evil.test": 1} {
		cmd := exec.Command(*binary, "gate", "replay", name, "--allow", rules)
		out, _ := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != status {
			t.Errorf("by %s: status %d: %s", rules, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// A gate whose log nobody reads any more can still be told to end.
func TestTermWhileLogIsStuck(t *testing.T) {
	build(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	w.Close()
	reader := bufio.NewReaderSize(r, 512) // that the ready line fits into
	line, err := reader.ReadString('\n')
	var ready struct{ Addr string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	for { // until a refusal has to wait for room in the log
		c, err := net.Dial("tcp", ready.Addr)
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, "CONNECT "+strings.Repeat("a.", 100)+"test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		c.SetReadDeadline(time.Now().Add(500 * time.Millisecond))
		_, err = c.Read(make([]byte, 1))
		c.Close()
		if err != nil {
			break
		}
	}
	cmd.Process.Signal(syscall.SIGHUP)
	cmd.Process.Signal(syscall.SIGTERM)
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(limit):
		t.Error("the gate goes on")
	}
}

// A gate whose log can't be written ends, and says why.
func TestLogIsFull(t *testing.T) {
	build(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, *binary, "gate", "--listen", "127.0.0.1:0", "--allow", "allowed.test")
	var errs strings.Builder
	cmd.Stdout, cmd.Stderr = full, &errs
	err = cmd.Run()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(errs.String(), "aisb: error: write the log: ") ||
		strings.Count(errs.String(), "\n") != 2 {
		t.Errorf("it ends with %v and says %q", err, errs.String())
	}
}
