package doctor

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"
)

func TestCountIDs(t *testing.T) {
	for _, r := range []struct {
		text string
		want int
	}{
		{"", 0},
		{"dev:100000:65536", 65536},
		{"1000:100000:65536\n", 65536},
		{"dev:100000:65536\n1000:200000:10\n", 65546},
		{"# dev:100000:65536\n", 0},
		{"developer:100000:65536\nde:1:2\n", 0},
		{"dev:100000\ndev:100000:65536:1\ndev:x:65536\ndev:100000:-1\ndev:100000:99999999999\n", 0},
		{"dev:0:65536\n", 0}, // root is nobody's subordinate
		{" dev:100000:65536 \n", 65536},
	} {
		if got := countIDs(r.text, "dev", 1000); got != r.want {
			t.Errorf("%q: %d, want %d", r.text, got, r.want)
		}
	}
	if got := countIDs(":100000:65536\n", "", 1000); got != 0 {
		t.Errorf("a user without a name has %d", got)
	}
}

func TestParseVersion(t *testing.T) {
	for _, r := range []struct {
		text string
		want version
		full string
	}{
		{"podman version 5.4.2\n", version{5, 4}, "5.4.2"},
		{"podman version 4.9.4-rhel\n", version{4, 9}, "4.9.4-rhel"},
		{"podman version 5.0.0-dev-8a643c243\n", version{5, 0}, "5.0.0-dev-8a643c243"},
		{"podman version 10.0\n", version{10, 0}, "10.0"},
		{"crun version 1.21\ncommit: 1\n", version{1, 21}, "1.21"},
	} {
		got, full, ok := parseVersion(r.text)
		if !ok || got != r.want || full != r.full {
			t.Errorf("%q: %v %q %t", r.text, got, full, ok)
		}
	}
	for _, text := range []string{"", "podman", "podman version unknown", "99999999999999999999.1"} {
		if got, _, ok := parseVersion(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
	for _, r := range []struct {
		a, b version
		want bool
	}{{version{4, 9}, version{5, 3}, true}, {version{5, 10}, version{5, 3}, false}, {version{5, 3}, version{5, 3}, false}, {version{6, 0}, version{5, 3}, false}} {
		if got := r.a.before(r.b); got != r.want {
			t.Errorf("%v before %v: %t", r.a, r.b, got)
		}
	}
}

func TestJudgeTrial(t *testing.T) {
	line := func(step string, errno syscall.Errno) Output {
		text, err := json.Marshal(heard{Step: step, Error: errno.Error(), Errno: int(errno)})
		if err != nil {
			t.Fatal(err)
		}
		return said(string(text))
	}
	for _, r := range []struct {
		name string
		o    Output
		want Trial
	}{
		{"done", said(`{"step":"done"}`), Trial{Done: true}},
		{"no nf_tables", line("apply", syscall.EPROTONOSUPPORT), Trial{Step: "apply", Lacks: true}},
		{"no family inet", line("apply", syscall.EAFNOSUPPORT), Trial{Step: "apply", Lacks: true}},
		{"no expression", line("apply", syscall.ENOENT), Trial{Step: "apply", Lacks: true}},
		{"no rights", line("apply", syscall.EPERM), Trial{Step: "apply", Denied: true}},
		{"gone when read", line("verify", syscall.ENOENT), Trial{Step: "verify"}},
		{"not in namespaces", line("look where it is", 0), Trial{StartErr: "look where"}},
		{"clone refused", Output{Path: "/proc/self/exe", Err: "fork/exec /proc/self/exe: operation not permitted"},
			Trial{StartErr: "can't make one: operation not permitted", Denied: true}},
		{"hung", hung(), Trial{StartErr: "did not end"}},
		{"died", failed(2, "panic: boom\n"), Trial{StartErr: "panic: boom"}},
		{"another program", said("hello\n"), Trial{StartErr: "nothing that can be read"}},
		{"half a line", said(`{}`), Trial{StartErr: "nothing that can be read"}},
	} {
		got := judgeTrial(r.o)
		if !strings.Contains(got.StartErr, r.want.StartErr) || (got.StartErr == "") != (r.want.StartErr == "") {
			t.Errorf("%s: %q, want %q", r.name, got.StartErr, r.want.StartErr)
		}
		if got.Step != "" && got.Err == "" {
			t.Errorf("%s: no reason", r.name)
		}
		got.Err, got.StartErr, r.want.StartErr = "", "", ""
		if got != r.want {
			t.Errorf("%s: %+v, want %+v", r.name, got, r.want)
		}
	}
}

func TestJudgeStatus(t *testing.T) {
	for _, r := range []struct {
		o            Output
		changed, new int
		err          string
	}{
		{said(""), 0, 0, ""},
		{said(" M a\x00?? b c\x00?? d/\x00A  e\x00"), 2, 2, ""},
		{said(" M ?? odd\x00"), 1, 0, ""},
		{failed(128, "fatal: bad object HEAD\n"), 0, 0, "bad object"},
		{hung(), 0, 0, "did not end"},
	} {
		got := judgeStatus("/p", r.o)
		if got.Changed != r.changed || got.New != r.new || !strings.Contains(got.Err, r.err) || (got.Err == "") != (r.err == "") {
			t.Errorf("%q: %+v", r.o.Text, got)
		}
	}
}

func TestFirstLine(t *testing.T) {
	for text, want := range map[string]string{
		"":              "",
		"\n one\ntwo\n": "one",
		"time=x level=warning\nError: the reason\n": "the reason",
	} {
		if got := firstLine(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}
