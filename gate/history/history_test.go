package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
)

const log = `{"ts":"2026-11-29T10:00:00.000Z","event":"listening","addr":"127.0.0.1:3128"}
{"ts":"2026-11-29T10:00:01.000Z","event":"allow","id":1,"method":"CONNECT","host":"a.test","port":443,"reason":"listed","rule":"a.test","addr":"9.9.9.9:443","sni":"a.test"}
{"ts":"2026-11-29T10:00:02.000Z","event":"close","id":1,"method":"CONNECT","host":"a.test","port":443,"up":10,"down":20,"ms":1000}
{"ts":"2026-11-29T10:00:02.000Z","event":"allow","id":2,"method":"CONNECT","host":"a.test","port":443,"reason":"listed","addr":"9.9.9.9:443","sni":"a.test"}
{"ts":"2026-11-29T10:00:03.000Z","event":"allow","id":3,"method":"CONNECT","host":"git.test","port":22,"reason":"listed","addr":"9.9.9.8:22"}
{"ts":"2026-11-29T10:00:03.000Z","event":"close","id":3,"method":"CONNECT","host":"git.test","port":22,"up":5,"down":9,"ms":10}
{"ts":"2026-11-29T10:00:03.000Z","event":"allow","id":4,"method":"CONNECT","host":"mute.test","port":443,"reason":"listed","addr":"9.9.9.7:443"}
{"ts":"2026-11-29T10:00:03.000Z","event":"close","id":4,"method":"CONNECT","host":"mute.test","port":443,"up":0,"down":0,"ms":10}
{"ts":"2026-11-29T10:00:04.000Z","event":"allow","id":5,"method":"GET","host":"db.corp.internal","port":8080,"reason":"listed","addr":"10.0.0.5:8080"}
{"ts":"2026-11-29T10:00:04.000Z","event":"allow","id":6,"method":"GET","host":"host.containers.internal","port":80,"reason":"host-service","addr":"127.0.0.1:80"}
{"ts":"2026-11-29T10:00:04.000Z","event":"allow","id":7,"method":"CONNECT","host":"2620:fe::fe","port":853,"reason":"listed","addr":"[2620:fe::fe]:853"}
{"ts":"2026-11-29T10:00:05.000Z","event":"deny","id":8,"method":"CONNECT","host":"b.test","port":443,"reason":"not-listed"}
{"ts":"2026-11-29T10:00:05.000Z","event":"deny","id":9,"method":"CONNECT","host":"b.test","port":443,"reason":"not-listed"}
{"ts":"2026-11-29T10:00:05.000Z","event":"deny","id":10,"method":"CONNECT","host":"inside.test","port":443,"reason":"special-address"}
{"ts":"2026-11-29T10:00:05.000Z","event":"deny","id":11,"method":"CONNECT","host":"a.test","port":22,"reason":"not-tls"}
{"ts":"2026-11-29T10:00:05.000Z","event":"deny","id":12,"reason":"bad-request"}
{"ts":"2026-11-29T10:00:06.000Z","event":"error","id":13,"method":"CONNECT","host":"down.test","port":443,"reason":"dial-failure"}
{"ts":"2026-11-29T10:00:06.000Z","event":"error","id":14,"method":"CONNECT","host":"typo.test","port":443,"reason":"nxdomain"}
{"ts":"2026-11-29T10:00:07.000Z","event":"exit","reason":"shut`

func replay(t *testing.T) *Replay {
	t.Helper()
	r := New()
	if err := Read(strings.NewReader(log), r.Add); err != nil {
		t.Fatal(err)
	}
	return r
}

func rules(t *testing.T, allow, deny string) *policy.Policy {
	t.Helper()
	lines := func(text string) (out []policy.Line) {
		for i, r := range strings.Fields(text) {
			out = append(out, policy.Line{Text: r, Origin: fmt.Sprintf("new:%d", i+1)})
		}
		return out
	}
	p, _, err := policy.Parse(lines(allow), lines(deny), policy.Options{AllowAllNames: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// all covers what the log says was reached, one rule each.
const all = "[2620:fe::fe]:853 a.test db.corp.internal:8080+private down.test git.test:22+tcp host.containers.internal:80 mute.test"

func TestSuggest(t *testing.T) {
	if got := strings.Join(replay(t).Suggest(), " "); got != all {
		t.Errorf("got  %s\nwant %s", got, all)
	}
	if got := New().Suggest(); len(got) != 0 {
		t.Errorf("of nothing: %q", got)
	}
}

// Each change is found, and nothing else is called one.
func TestAgainst(t *testing.T) {
	tests := []struct{ allow, deny, denied, allowed, unused string }{
		{all, "", "", "", ""},
		{all + " b.test", "", "", "b.test:443 listed 2", ""},
		{all + " *.b.test c.test", "", "", "", "*.b.test c.test"},
		{strings.Replace(all, " a.test", "", 1), "", "a.test:443 not-listed 2", "", ""},
		{strings.Replace(all, "+tcp", "", 1), "", "git.test:22 not-tls 1", "", ""},
		{all, "9.9.9.9", "a.test:443 denied-rule 2", "", ""},
		{all, "mute.test", "mute.test:443 denied-rule 1", "", "mute.test"},
		{strings.Replace(all, "db.corp.internal:8080+private", "db.corp.internal:9090+private", 1), "", "db.corp.internal:8080 port-not-listed 1", "", "db.corp.internal:9090+private"},
		{strings.Replace(all, "[2620:fe::fe]:853", "[2620:fe::fe]:443", 1), "", "2620:fe::fe:853 ip-literal 1", "", "[2620:fe::fe]:443"},
		{all + " inside.test", "", "", "", ""},
		{all + " inside.test+private", "", "", "inside.test:443 listed 1", ""},
		{all + " a.test:22", "", "", "", ""},
		{all + " a.test:22+tcp", "", "", "a.test:22 listed 1", ""},
	}
	text := func(list []Change) string {
		var out []string
		for _, c := range list {
			out = append(out, fmt.Sprintf("%s:%d %s %d", c.Host, c.Port, c.Reason, c.Count))
		}
		return strings.Join(out, ", ")
	}
	for _, tt := range tests {
		got := replay(t).Against(rules(t, tt.allow, tt.deny))
		var unused []string
		for _, r := range got.Unused {
			if !strings.HasPrefix(r.Origin, "new:") {
				t.Errorf("origin %q", r.Origin)
			}
			unused = append(unused, r.Rule)
		}
		slices.Sort(unused)
		if text(got.Denied) != tt.denied || text(got.Allowed) != tt.allowed || strings.Join(unused, " ") != tt.unused {
			t.Errorf("allow %s deny %s:\ngot denied %q allowed %q unused %q", tt.allow, tt.deny, text(got.Denied), text(got.Allowed), unused)
		}
	}
}

// Suggested rules let through what is suggested for, and each is needed.
func TestSuggestionCovers(t *testing.T) {
	list := replay(t).Suggest()
	got := replay(t).Against(rules(t, strings.Join(list, " "), ""))
	if len(got.Denied) > 0 || len(got.Unused) > 0 {
		t.Errorf("got %+v", got)
	}
	for i := range list {
		fewer := slices.Delete(slices.Clone(list), i, i+1)
		if got := replay(t).Against(rules(t, strings.Join(fewer, " "), "")); len(got.Denied) == 0 {
			t.Errorf("%s is not needed", list[i])
		}
	}
}

func TestRead(t *testing.T) {
	const line = `{"event":"exit"}` + "\n"
	for text, want := range map[string]string{
		"":                               "",
		"\n\n":                           "",
		line + `{"event":"al`:            "", // killed while it wrote
		"aisb: warning: x\n" + line:      "", // a journal
		"Started x.\n" + line + "aisb:":  "",
		"nonsense":                       "no log",
		`{"level":"info"}`:               "no log",
		`{"level":"info"}` + "\n" + line: "line 1: ",
		line + "{x\n" + line:             "line 2: ",
		strings.Repeat("x", maxLine+1):   "too long",
	} {
		n := 0
		err := Read(strings.NewReader(text), func(Line) { n++ })
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
		if err == nil && n != strings.Count(text, line) {
			t.Errorf("%.40q: %d lines", text, n)
		}
	}
}
