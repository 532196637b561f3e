package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestEndsAtLogout: where logind kills what a login leaves.
func TestEndsAtLogout(t *testing.T) {
	root := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		file, text string
		want       bool
	}{
		{"etc/systemd/logind.conf", "[Login]\nKillUserProcesses=yes\n", false}, // not a user of logind's
		{"run/systemd/users/1000", "", true},
		{"usr/lib/systemd/logind.conf.d/50-it.conf", "[Login]\nKillUserProcesses=no\n", false},
		{"etc/systemd/logind.conf.d/60-it.conf", "[Login]\nKillUserProcesses = True\n", true},
		{"run/systemd/logind.conf.d/70-it.conf", "[Login]\n#KillUserProcesses=no\nKillExcludeUsers=root\n", true},
		{"proc/self/cgroup", "0::/user.slice/user-1000.slice/session-4.scope\n", true},
		{"proc/self/cgroup", "0::/user.slice/user-1000.slice/user@1000.service/app.slice/run-u1.scope\n", false},
	} {
		put(step.file, step.text)
		if got := endsAtLogout(root, 1000); got != step.want {
			t.Errorf("with %s %q: ends at logout: %v, want %v", step.file, step.text, got, step.want)
		}
	}
}

// TestNotBegun: a supervisor that has said why is quiet afterwards.
func TestNotBegun(t *testing.T) {
	for script, want := range map[string]string{
		"exit 77":     "77: exit status 77",
		"kill -9 $$":  "137: the supervisor was ended before the command ran: killed",
		"kill -15 $$": "143: the supervisor was ended before the command ran: terminated",
		"exit 0":      "125: the supervisor has ended before the command ran",
	} {
		err := notBegun(exec.Command("sh", "-c", script).Run())
		e, ok := errors.AsType[*exitError](err)
		if !ok {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%d: %v", e.code, e); got != want {
			t.Errorf("%s: %s, want %s", script, got, want)
		}
	}
}

// TestReportWords shows the end of a long one, in whole lines.
func TestReportWords(t *testing.T) {
	dir := t.TempDir()
	f, err := openReport(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if words := reportWords(dir); words != nil {
		t.Errorf("of nothing: %q", words)
	}
	for i := range 2000 {
		fmt.Fprintf(f, "line %d %s\n", i, strings.Repeat("x", i%700))
	}
	words := reportWords(dir)
	if len(words) > maxWords || len(words) < 20 || !strings.HasPrefix(words[0], "line ") || !strings.HasPrefix(words[len(words)-1], "line 1999 ") {
		t.Errorf("%d lines: %.20q to %.20q", len(words), words[0], words[len(words)-1])
	}
	if _, err := openReport(dir); err == nil {
		t.Error("a second report in the same place")
	}
}

// TestLines: what would drive a terminal is shown, wherever it was cut.
func TestLines(t *testing.T) {
	const text = "one\r\n\x1b[31mtwo\n\nthree\x07"
	const want = "one\n\\u001b[31mtwo\n\nthree\\u0007\n"
	for size := 1; size < len(text); size++ {
		var out bytes.Buffer
		l := &lines{w: &out}
		for p := []byte(text); len(p) > 0; {
			n := min(size, len(p))
			if done, err := l.Write(p[:n]); done != n || err != nil {
				t.Fatal(done, err)
			}
			p = p[n:]
		}
		if err := l.end(); err != nil || out.String() != want {
			t.Fatalf("by %d: %q, %v", size, out.String(), err)
		}
	}
	var out bytes.Buffer
	l := &lines{w: &out}
	for range 100 {
		l.Write(bytes.Repeat([]byte("x"), 4<<10))
	}
	if n := strings.Count(out.String(), "\n"); n < 5 {
		t.Errorf("a line without an end is held back: %d lines", n)
	}
}
