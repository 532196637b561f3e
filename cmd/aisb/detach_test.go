package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEndsAtLogout: where systemd has a user's login, and hasn't been asked to let what
// he runs stay.
func TestEndsAtLogout(t *testing.T) {
	me, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	ends := func(want bool) {
		t.Helper()
		if got := endsAtLogout(root, os.Getuid()); got != want {
			t.Errorf("ends at logout: %v, want %v", got, want)
		}
	}
	touch := func(dir, name string) {
		t.Helper()
		dir = filepath.Join(root, dir)
		if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), nil, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	ends(false)
	touch("run/systemd/users", me.Uid)
	ends(true)
	touch("var/lib/systemd/linger", me.Username)
	ends(false)
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
