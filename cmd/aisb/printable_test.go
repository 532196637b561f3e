package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// hostile is a name as a sandbox may choose it.
const hostile = "x\x1b]52;c;eA==\a\u009b2J\u202etxt.exe\u2066\u200b\U000e0041\u2028\x7f\r\n\xffaisb: all is well\x00\u00a0y"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain, ü — 你好 ✳": "plain, ü — 你好 ✳",
		"a\tb\nc":         `a\tb\nc`,
		"\x1b[2J\u009b":   `\u001b[2J\u009b`,
		"\u202e\ufeff":    `\u202e\ufeff`,
		"\U000e0041":      `\U000e0041`,
		"\xff\xfe":        `\ufffd\ufffd`,
		"":                "",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// TestHostileNames: wherever aisb prints what a sandbox may have chosen, it is
// one line of characters that are seen.
func TestHostileNames(t *testing.T) {
	info := control.Info{Name: hostile, State: control.Running, Project: hostile, Command: handshake.Args{hostile}, Net: hostile, Backend: hostile, Image: hostile}
	result := sandbox.Result{
		Status: 1, Log: hostile, Err: errors.New(hostile), Joined: []string{hostile}, Opened: sandbox.Opened{Problems: []string{hostile}},
		Report: gate.Report{
			Hosts:    []gate.HostReport{{Host: hostile, Port: 443}},
			Refusals: []gate.RefusalReport{{Host: hostile, Port: 443, Reason: policy.NotListed, Allow: hostile}},
		},
	}
	line, err := json.Marshal(map[string]any{"ts": "2026-11-30T12:00:00.000Z", "event": "deny", "method": "CONNECT", "host": hostile, "port": 1, "reason": hostile, "rule": hostile})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		lines int
		print func(u *ui) error
	}{
		"receipt": {5, func(u *ui) error { receipt(u, sandbox.Spec{Net: sandbox.NetAllow}, result, time.Second); return nil }},
		"warning": {1, func(u *ui) error { u.warnf("%s", hostile); return nil }},
		"error":   {1, func(u *ui) error { u.fail(errors.New(hostile)); return nil }},
		"ps":      {2, func(u *ui) error { return printRuns(u, []control.Info{info}, true, time.Now()) }},
		"ps json": {1, func(u *ui) error {
			var out bytes.Buffer
			if err := printRunsJSON(&ui{Out: &out}, []control.Info{info}); err != nil {
				return err
			}
			var back []runJSON
			if err := json.Unmarshal(out.Bytes(), &back); err != nil {
				return err
			}
			if want := strings.ToValidUTF8(hostile, "\ufffd"); len(back) != 1 || back[0].Name != want {
				t.Errorf("JSON gives back %+v", back)
			}
			_, err := u.Out.Write([]byte(strings.Join(strings.Fields(out.String()), " ") + "\n"))
			return err
		}},
		"log":       {1, func(u *ui) error { return (&logPrinter{out: u.Out, table: true}).print(line) }},
		"log, JSON": {1, func(u *ui) error { return (&logPrinter{out: u.Out}).print(line) }},
		"check": {6, func(u *ui) error {
			checked{Host: hostile, Rule: hostile, Origin: hostile, Why: hostile, Hint: hostile, Allow: true}.printText(u)
			return nil
		}},
		"dry run, JSON": {30, func(u *ui) error {
			return printJSON(u.Out, dryText{Mounts: []dryMount{{Source: hostile}}, Notes: []string{hostile}})
		}},
		"check, JSON": {1, func(u *ui) error {
			return checked{Host: hostile, Rule: hostile, Origin: hostile, Why: hostile, Hint: hostile, Allow: true}.print(u, true)
		}},
	} {
		var out bytes.Buffer
		if err := c.print(&ui{Out: &out, Err: &out}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		text := out.String()
		odd := strings.IndexFunc(text, func(r rune) bool { return hidden(r) && r != '\n' })
		if odd >= 0 || !strings.Contains(text, "eA==") {
			t.Errorf("%s: %q", name, text)
		}
		if got := strings.Count(text, "\n"); got > c.lines || got == 0 {
			t.Errorf("%s: %d lines, at most %d:\n%s", name, got, c.lines, text)
		}
	}
}
