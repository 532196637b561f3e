package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestSections: each heading of run's help stands once, before its flag, and no flag
// is without one.
func TestSections(t *testing.T) {
	cmd := newRunCmd(&ui{})
	var out bytes.Buffer
	cmd.SetOut(&out)
	if err := cmd.Help(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	last := strings.Index(text, "Examples:")
	for _, s := range runSections {
		at := strings.Index(text, "\n"+s.title+":\n")
		if at <= last || strings.Count(text, "\n"+s.title+":\n") != 1 {
			t.Errorf("the heading %q is not where it should be:\n%s", s.title, text)
		}
		next, _, _ := strings.Cut(text[at+len(s.title)+3:], "\n")
		if !strings.Contains(next, "--"+s.first+" ") {
			t.Errorf("after %q comes %q, want --%s", s.title, next, s.first)
		}
		last = at
	}
	if strings.Contains(text, "\nFlags:\n") {
		t.Error("some flags stand below no heading")
	}
}
