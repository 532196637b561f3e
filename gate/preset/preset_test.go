package preset

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
)

// TestServices holds each data file: it parses, its rules are rules, none is there
// twice or does more than it seems to.
func TestServices(t *testing.T) {
	names := Services()
	for _, want := range []string{"anthropic", "github", "google", "huggingface", "openai"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no service %q: %v", want, names)
		}
	}
	for _, name := range names {
		p, err := FindService(name)
		if err != nil {
			t.Error(err)
			continue
		}
		var all []policy.Line
		for _, g := range Groups() {
			all = append(all, p.Lines(g, "")...)
		}
		if len(all) != len(p.Core)+len(p.Telemetry)+len(p.Update) {
			t.Errorf("%s: %d rules of %+v", name, len(all), p.Hosts)
		}
		_, warnings, err := policy.Parse(all, nil, policy.Options{})
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", name, err, warnings)
		}
		seen := map[string]bool{}
		for _, l := range all {
			if seen[l.Text] {
				t.Errorf("%s has %s twice", name, l.Text)
			}
			seen[l.Text] = true
			if strings.Contains(l.Text, "*") || strings.Contains(l.Text, "+") {
				t.Errorf("%s: %q is no plain host", name, l.Text)
			}
		}
	}
	if _, err := FindService("../preset"); !errors.Is(err, ErrUnknown) {
		t.Errorf("a path was accepted as a service's name: %v", err)
	}
}

func TestParseBad(t *testing.T) {
	for name, text := range map[string]string{
		"unknown key": `{"title":"t","core":[{"rule":"a.test","reason":"r"}],"extra":[]}`,
		"no title":    `{"core":[{"rule":"a.test","reason":"r"}]}`,
		"no core":     `{"title":"t","update":[{"rule":"a.test","reason":"r"}]}`,
		"no reason":   `{"title":"t","core":[{"rule":"a.test"}]}`,
		"no rule":     `{"title":"t","core":[{"rule":"a.test","reason":"r"}],"telemetry":[{"reason":"r"}]}`,
		"not JSON":    `title`,
	} {
		if p, err := parse("x", []byte(text)); err == nil {
			t.Errorf("%s: accepted as %+v", name, p)
		}
	}
}

func TestParseRef(t *testing.T) {
	for text, want := range map[string]Ref{
		"github":           {"github", Core},
		"github:core":      {"github", Core},
		"claude:telemetry": {"claude", Telemetry},
		"pi:update":        {"pi", Update},
	} {
		got, err := ParseRef(text)
		if err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
		if again, err := ParseRef(got.String()); err != nil || again != got {
			t.Errorf("%q is written as %q, which is %+v, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", ":core", "github:", "github:all", "github:core:x"} {
		if got, err := ParseRef(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

// TestLines: a rule says where it comes from, and what asked for it.
func TestLines(t *testing.T) {
	p := Preset{Name: "a", Hosts: Hosts{
		Core: []Host{{"a.test", "r"}, {"b.test", "r"}}, Telemetry: []Host{{"t.test", "r"}}}}
	want := []policy.Line{{Text: "a.test", Origin: "preset a (A_KEY)"}, {Text: "b.test", Origin: "preset a (A_KEY)"}}
	if got := p.Lines(Core, "A_KEY"); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	want = []policy.Line{{Text: "t.test", Origin: "preset a:telemetry"}}
	if got := p.Lines(Telemetry, ""); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	if got := p.Lines(Update, ""); len(got) > 0 {
		t.Errorf("got %v", got)
	}
}
