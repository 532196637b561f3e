package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/preset"
	"github.com/aisb-dev/aisb/sandbox/environ"
)

// TestImplied: which keys open what, and what is said of it.
func TestImplied(t *testing.T) {
	key := func(name string) environ.Var { return environ.Var{Name: name, Value: []byte("k")} }
	for name, c := range map[string]struct {
		o     runOptions
		allow string
		deny  string
		named []environ.Var
		their map[string]bool
		want  string // rule (origin), ...
		note  string // part of the one note; "" wants none
		warn  string
	}{
		"no key, kept home": {note: "pi gets no key: pass one with -e, of ANTHROPIC_API_KEY, "},
		"no key, nothing kept": {o: runOptions{ephemeralHome: true},
			warn: "pi gets no key: pass one with -e"},
		"a key": {named: []environ.Var{key("ANTHROPIC_API_KEY")},
			want: "api.anthropic.com (preset anthropic (ANTHROPIC_API_KEY))",
			note: "allowed by the key: api.anthropic.com (for ANTHROPIC_API_KEY); --no-implied-presets stops that"},
		"two keys in one note": {named: []environ.Var{key("ANTHROPIC_API_KEY"), key("OPENAI_API_KEY")},
			want: "api.anthropic.com (preset anthropic (ANTHROPIC_API_KEY)), api.openai.com (preset openai (OPENAI_API_KEY))",
			note: "api.anthropic.com (for ANTHROPIC_API_KEY), api.openai.com (for OPENAI_API_KEY)"},
		"two keys of one service": {o: runOptions{imageOptions: imageOptions{harness: "claude"}},
			named: []environ.Var{key("ANTHROPIC_API_KEY"), key("CLAUDE_CODE_OAUTH_TOKEN")},
			want:  "api.anthropic.com (preset anthropic (ANTHROPIC_API_KEY))", note: "for ANTHROPIC_API_KEY"},
		"emptied again":         {named: []environ.Var{key("ANTHROPIC_API_KEY"), {Name: "ANTHROPIC_API_KEY"}}, note: "gets no key"},
		"told not to":           {o: runOptions{presets: presetOptions{noImplied: true}}, named: []environ.Var{key("ANTHROPIC_API_KEY")}},
		"allowed already":       {allow: "api.anthropic.com", named: []environ.Var{key("ANTHROPIC_API_KEY")}},
		"allowed by a wildcard": {allow: "*.anthropic.com", named: []environ.Var{key("ANTHROPIC_API_KEY")}},
		"denied":                {deny: "*.anthropic.com", named: []environ.Var{key("ANTHROPIC_API_KEY")}},
		"another port alone": {allow: "api.anthropic.com:8443", named: []environ.Var{key("ANTHROPIC_API_KEY")},
			want: "api.anthropic.com (preset anthropic (ANTHROPIC_API_KEY))", note: "allowed by the key"},
		"the harness by its name": {o: runOptions{argv: []string{"claude", "-p", "x"}}, named: []environ.Var{key("ANTHROPIC_API_KEY")},
			want: "api.anthropic.com (preset anthropic (ANTHROPIC_API_KEY))", note: "allowed by the key"},
		"in a file of the agent's": {named: []environ.Var{key("ANTHROPIC_API_KEY"), key("OPENAI_API_KEY")}, their: map[string]bool{"OPENAI_API_KEY": true},
			want: "api.anthropic.com (preset anthropic (ANTHROPIC_API_KEY))", note: "allowed by the key: api.anthropic.com (for ANTHROPIC_API_KEY);",
			warn: "OPENAI_API_KEY opens nothing by itself, since an agent can have written the file that it stands in: --preset openai"},
		"there, and allowed":   {allow: "api.openai.com", named: []environ.Var{key("OPENAI_API_KEY")}, their: map[string]bool{"OPENAI_API_KEY": true}},
		"another command":      {o: runOptions{argv: []string{"make"}}, named: []environ.Var{key("ANTHROPIC_API_KEY")}},
		"a path of that name":  {o: runOptions{argv: []string{"./pi"}}, named: []environ.Var{key("ANTHROPIC_API_KEY")}},
		"another's key":        {o: runOptions{argv: []string{"claude"}}, named: []environ.Var{key("OPENAI_API_KEY")}, note: "claude gets no key"},
		"rules that are wrong": {allow: "http://x", named: []environ.Var{key("ANTHROPIC_API_KEY")}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.o.harness == "" {
				c.o.harness = "pi"
			}
			p := &prepared{}
			p.spec.Named, p.theirs = c.named, c.their
			if !c.o.ephemeralHome {
				p.spec.HomeVolume = "aisb-home"
			}
			line := func(text string) []policy.Line {
				if text == "" {
					return nil
				}
				return []policy.Line{{Text: text, Origin: "test"}}
			}
			var got []string
			for _, l := range c.o.implied(p, line(c.allow), line(c.deny)) {
				got = append(got, l.Text+" ("+l.Origin+")")
			}
			if text := strings.Join(got, ", "); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
			for what, s := range map[string]struct {
				have []string
				want string
			}{"note": {p.notes, c.note}, "warning": {p.warnings, c.warn}} {
				if text := strings.Join(s.have, "\n"); len(s.have) > 1 || (text == "") != (s.want == "") || !strings.Contains(text, s.want) {
					t.Errorf("%s: got %q, want one with %q", what, s.have, s.want)
				}
			}
		})
	}
}

// TestPackageLines: what an image says, and what it doesn't.
func TestPackageLines(t *testing.T) {
	list := []preset.Preset{{Name: "npm", Kind: preset.Package, Hosts: preset.Hosts{Core: []preset.Host{{Rule: "npm.test:443", Reason: "r"}}}}}
	lines, err := packageLines([]preset.Ref{{Name: "npm", Group: preset.Core}}, list, "x")
	if want := []policy.Line{{Text: "npm.test:443", Origin: "preset npm"}}; err != nil || !slices.Equal(lines, want) {
		t.Errorf("got %v, %v", lines, err)
	}
	for _, ref := range []preset.Ref{{Name: "go", Group: preset.Core}, {Name: "npm", Group: preset.Update}} {
		if lines, err := packageLines([]preset.Ref{ref}, list, "x"); err == nil {
			t.Errorf("%s: got %v", ref, lines)
		}
	}
}

// TestPresetNames: no name means two things.
func TestPresetNames(t *testing.T) {
	names := presetNames()
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("a name is there twice: %v", names)
	}
	for _, name := range names {
		if _, err := findShown(name, nil); err != nil {
			t.Error(err)
		}
	}
}
