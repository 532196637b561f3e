package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	for name, tt := range map[string]struct {
		writes []string
		lines  []string
		step   []string
	}{
		"nothing": {nil, nil, nil},
		"the last three": {
			[]string{"a\nb\n", "c\nd\n"}, []string{"b", "c", "d"}, []string{"b", "c", "d"}},
		"a line in pieces": {
			[]string{"Err", "or: no", "\nend"}, []string{"Error: no", "end"}, []string{"Error: no", "end"}},
		"since the last step": {
			[]string{"[1/2] STEP 1/3: FROM a\nx\n[2/2] STEP 2/2: RUN b\ny\r\n"},
			[]string{"x", "[2/2] STEP 2/2: RUN b", "y"}, []string{"y"}},
	} {
		t.Run(name, func(t *testing.T) {
			tail := &tail{max: 3}
			for _, w := range tt.writes {
				if n, err := tail.Write([]byte(w)); n != len(w) || err != nil {
					t.Errorf("Write(%q) = %d, %v", w, n, err)
				}
			}
			if !slices.Equal(tail.lines, tt.lines) || !slices.Equal(tail.lastStep(), tt.step) {
				t.Errorf("got %q and %q, want %q and %q", tail.lines, tail.lastStep(), tt.lines, tt.step)
			}
		})
	}
}

func TestSaidLast(t *testing.T) {
	for in, want := range map[string]string{
		"": "",
		"Error: unknown flag: --x\nSee 'podman pull --help'\n": "unknown flag: --x",
		"time=... level=warning msg=a\nno route\n\n":           "no route",
		"Error: first\nError: second\n":                        "second",
	} {
		if got := saidLast(in); got != want {
			t.Errorf("saidLast(%q) = %q, want %q", in, got, want)
		}
	}
}

// Without a terminal each step is a line, and nothing drives a terminal.
func TestProgressPlain(t *testing.T) {
	var errs bytes.Buffer
	p := newProgress(&ui{Err: &errs})
	p.step("one")
	p.step("two \x1b[2J")
	p.end()
	p.end()
	if got, want := errs.String(), "aisb: image: one\naisb: image: two \\u001b[2J\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// All of podman's output is shown on demand, but not as it is.
func TestEscaped(t *testing.T) {
	var out strings.Builder
	if n, err := (&escaped{&out}).Write([]byte("\x1b]52;c;aGk=\x07 50%\r\n")); n != 18 || err != nil {
		t.Errorf("Write = %d, %v", n, err)
	}
	if got, want := out.String(), "\\u001b]52;c;aGk=\\u0007 50%\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
