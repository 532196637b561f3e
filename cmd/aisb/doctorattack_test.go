package main

import (
	"errors"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/aisb-dev/aisb/sandbox/attack"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// TestRefusedStart: a start that fails for another reason than the one that is
// tried shows nothing.
func TestRefusedStart(t *testing.T) {
	refused := &mounts.Refusal{Reason: "no"}
	for name, c := range map[string]struct {
		errs []error
		want attack.Verdict
	}{
		"refused":                 {[]error{refused, refused}, attack.Held},
		"one of two":              {[]error{refused, nil}, attack.Out},
		"no rules":                {[]error{withoutRules()}, attack.Held},
		"wrong usage":             {[]error{usageError("aisb run", errors.New("a flag"))}, attack.Unknown},
		"a file that isn't there": {[]error{errors.New("no such file")}, attack.Unknown},
	} {
		if got := refusedStart(c.errs...); got.Verdict != c.want {
			t.Errorf("%s: %+v, want %s", name, got, c.want)
		}
	}
}

func TestTerminalFinding(t *testing.T) {
	if got := terminalFinding(); got.Verdict != attack.Held {
		t.Errorf("got %+v", got)
	}
	for _, text := range hostileTexts {
		if utf8.ValidString(text) && !strings.ContainsFunc(text, unicode.IsControl) {
			t.Errorf("%q would not be noticed", text)
		}
	}
}
