package terminal

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/screen"
)

// TestRecorded: interfaces of real programs, recorded on a terminal that answers
// as xterm does, arrive as they were but for what docs/terminal.md drops.
func TestRecorded(t *testing.T) {
	files, err := filepath.Glob("testdata/recorded/*")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	dropped := map[string][]string{
		// Vim looks whether unknown sequences show, and asks by DCS for the cursor's style
		// and what keys send.
		"vim": {"\x1bPzz\x1b\\", "\x1b[0%m", "\x1bP$q q\x1b\\", "\x1b[?4m"},
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want := string(raw)
		for _, d := range dropped[filepath.Base(file)] {
			want = strings.ReplaceAll(want, d, "")
		}
		for strings.Contains(want, "\x1bP+q") { // XTGETTCAP
			before, rest, _ := strings.Cut(want, "\x1bP+q")
			_, rest, _ = strings.Cut(rest, "\x1b\\")
			want = before + rest
		}
		got, end, f := run(t, Options{Answers: true}, string(raw))
		got = strings.Replace(got, pushTitle+"\x1b]2;", "\x1b]2;", 1) // the filter's own
		if got != want {
			i := 0
			for i < min(len(got), len(want)) && got[i] == want[i] {
				i++
			}
			t.Errorf("%s: from %d on %.60q, want %.60q", file, i, got[i:], want[i:])
		}
		if len(f.Kept()) > 0 {
			t.Errorf("%s: %v", file, f.Kept())
		}
		steps := []screen.Step{}
		for _, piece := range bytes.SplitAfter(raw, []byte("\x1b")) {
			steps = append(steps, screen.Step{Text: string(piece)})
		}
		if err := screen.Play(steps, 24, 80, func(w io.Writer) io.Writer { return New(w, Options{Answers: true}) }); err != nil {
			t.Errorf("%s looks different: %v", file, err)
		}
		t.Logf("%s: %d bytes, at the end %q", file, len(raw), end)
	}
}
