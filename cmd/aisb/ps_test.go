package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

func TestPrintRuns(t *testing.T) {
	t.Setenv("HOME", "/home/u")
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	list := []control.Info{
		{Name: "aisb-a-000001", State: control.Running, PID: 7, Started: now.Add(-90 * time.Second), Net: "allow", Backend: "inner",
			Project: "/home/u/a\x1b[2J", Command: handshake.Args{"sh", "-c", "echo \x1b]52;c;x\a", ""}},
		{Name: "aisb-b-000002", State: control.Starting, Started: now, Net: "none", Project: "/srv/b",
			Command: handshake.Args{strings.Repeat("é", 50)}},
		{Name: "aisb-c-000003", State: control.Silent, PID: 9},
	}
	var out bytes.Buffer
	if err := printRuns(&ui{Out: &out}, list, false, now); err != nil {
		t.Fatal(err)
	}
	want := `NAME           AGE       NET    PID  PROJECT       COMMAND
aisb-a-000001  1m30s     inner  7    ~/a\u001b[2J  sh -c $'echo \033]52;c;x\007' ''
aisb-b-000002  starting  none   -    /srv/b        '` + strings.Repeat("é", 36) + `...
aisb-c-000003  silent           9                  ` + "\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	out.Reset()
	list[0].Aisb, list[1].Aisb = "0.1\x1b[2J", version()
	if err := printRuns(&ui{Out: &out}, list, false, now); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Split(out.String(), "\n"); !strings.Contains(lines[0], "PID  AISB ") || !strings.Contains(lines[1], `7    0.1\u001b[2J  `) ||
		!strings.Contains(lines[2], "-    "+version()+" ") || !strings.Contains(lines[3], "9    - ") {
		t.Errorf("with another aisb's:\n%s", out.String())
	}
	out.Reset()
	if err := printRunsJSON(&ui{Out: &out}, list[2:]); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(strings.Fields(out.String()), " "); got != `[ { "name": "aisb-c-000003", "state": "silent", "pid": 9 } ]` {
		t.Errorf("JSON: %s", got)
	}
}

// TestSaySilent: who doesn't answer may be stopped, or only slow, and is not gone.
func TestSaySilent(t *testing.T) {
	var out bytes.Buffer
	saySilent(&ui{Err: &out}, []control.Info{
		{Name: "aisb-a-000001", State: control.Running, PID: 7}, {Name: "aisb-b-000002", State: control.Silent, PID: 8, Stopped: true},
		{Name: "aisb-c-000003", State: control.Silent, PID: 9}, {Name: "aisb-d-000004", State: control.Dead},
	})
	want := `aisb: aisb-b-000002 is silent: its aisb is stopped, and 'kill -CONT 8' lets it go on
aisb: aisb-c-000003 is silent: its aisb hasn't answered within 10s, so it hangs or this machine is very busy
`
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestControlError: who is told that a sandbox's aisb doesn't answer is told what to do.
func TestControlError(t *testing.T) {
	for _, c := range []struct {
		err   error
		error string
		code  int
		hint  string
	}{
		{&control.StoppedError{PID: 8}, "the sandbox's aisb is stopped", exitPodman, "'kill -CONT 8' lets it go on; with -9 it ends, and container and gate with it"},
		{control.ErrDead, "the sandbox has ended: its aisb is gone", exitPodman, "see 'aisb ps'"},
		{&control.Error{Text: "no", Hint: "do", Status: 3}, "no", 3, "do"},
		{errors.New("x"), "x", exitPodman, ""},
	} {
		e := controlError(c.err).(*exitError)
		if e.Error() != c.error || e.code != c.code || e.hint != c.hint {
			t.Errorf("%v: %v, %d, hint %q", c.err, e, e.code, e.hint)
		}
	}
}

func TestAgeText(t *testing.T) {
	now := time.Now()
	for age, want := range map[time.Duration]string{
		-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 61 * time.Second: "1m01s", 3*time.Hour + 7*time.Minute: "3h07m", 50 * time.Hour: "2d02h",
	} {
		if got := ageText(control.Info{State: control.Running, Started: now.Add(-age)}, now); got != want {
			t.Errorf("%v: got %q, want %q", age, got, want)
		}
	}
}

func TestPick(t *testing.T) {
	all := []control.Info{
		{Name: "aisb-web-000001", State: control.Running}, {Name: "aisb-web-000002", State: control.Starting},
		{Name: "aisb-api-000003", State: control.Running}, {Name: "aisb-old-000004", State: control.Dead},
	}
	for _, c := range []struct {
		list              []control.Info
		name, want, error string
	}{
		{all, "api", "aisb-api-000003", ""},
		{all, "aisb-web-000002", "aisb-web-000002", ""},
		{all, "web", "", `2 sandboxes have a name that begins with "web"`},
		{all, "x", "", `no running sandbox has a name that begins with "x"`},
		{all, "old", "", `"old" has ended`},
		{all, "", "", "3 sandboxes are running: name one"},
		{all[2:], "", "aisb-api-000003", ""},
		{all[3:], "", "", "no sandbox is running"},
	} {
		got, err := pick(c.list, c.name)
		if c.error == "" && (err != nil || got.Name != c.want) || c.error != "" && (err == nil || !strings.Contains(err.Error(), c.error) || hintOf(err) == "") {
			t.Errorf("%q of %d: %q, %v", c.name, len(c.list), got.Name, err)
		}
	}
}

// TestGraceOf: who wants to wait for long must not get a kill at once.
func TestGraceOf(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for seconds, want := range map[uint]time.Duration{0: 0, 90: 90 * time.Second, 9223372037: year, 1<<64 - 1: year} {
		if got := graceOf(seconds); got != want {
			t.Errorf("%d: got %v, want %v", seconds, got, want)
		}
	}
}
