package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/briefing"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// TestTell: which files a run gets, and that each harness's has the text.
func TestTell(t *testing.T) {
	for name, c := range map[string]struct {
		o    runOptions
		want map[string]string // path to a part of its text
	}{
		"pi":            {runOptions{}, map[string]string{image.AgentsFile: briefing.Final, "/AGENTS.md": briefing.Final}},
		"claude":        {runOptions{argv: []string{"claude"}}, map[string]string{image.AgentsFile: briefing.Final, "/etc/claude-code/.claude/rules/aisb.md": briefing.Final}},
		"codex":         {runOptions{argv: []string{"codex", "exec"}}, map[string]string{image.AgentsFile: briefing.Final, "/etc/codex/config.toml": `developer_instructions = "# This sandbox (aisb)\n\n`}},
		"gemini":        {runOptions{argv: []string{"gemini"}}, map[string]string{image.AgentsFile: briefing.Final, "/etc/aisb/GEMINI.md": briefing.Final}},
		"opencode":      {runOptions{argv: []string{"opencode"}}, map[string]string{image.AgentsFile: briefing.Final, "/etc/aisb/opencode.json": `{"instructions": ["/etc/aisb/AGENTS.md"]}`}},
		"another image": {runOptions{image: "x", argv: []string{"make"}}, map[string]string{image.AgentsFile: briefing.Final}},
		"another image with a harness": {runOptions{image: "x", argv: []string{"pi"}},
			map[string]string{image.AgentsFile: briefing.Final, "/AGENTS.md": briefing.Final}},
	} {
		t.Run(name, func(t *testing.T) {
			c.o.harness = "pi"
			p := &prepared{}
			var err error
			if p.image, err = c.o.imageOptions.spec(); err != nil {
				t.Fatal(err)
			}
			p.spec.Net = sandbox.NetAllow
			c.o.tell(p)
			c.o.tell(p) // a second start of the same run
			got := map[string]string{}
			names := map[string]bool{}
			for _, f := range p.spec.Files {
				if names[f.Name] || strings.Contains(f.Name, "/") {
					t.Errorf("the name %q can't be written", f.Name)
				}
				names[f.Name] = true
				for _, target := range f.Targets {
					got[target] = string(f.Data)
				}
			}
			for path, part := range c.want {
				if !strings.Contains(got[path], part) {
					t.Errorf("%s: no %q in %q", path, part, got[path])
				}
			}
			if len(got) != len(c.want) {
				t.Errorf("%d files, want %d: %v", len(got), len(c.want), got)
			}
		})
	}
}

// TestFacts: what is told is what the run has.
func TestFacts(t *testing.T) {
	s := sandbox.Spec{Net: sandbox.NetAllow, HomeVolume: "aisb-home", Mounts: []mounts.Mount{
		{Target: "/project"}, {Target: "/project/.git/config", ReadOnly: true}, {Target: "/mnt/x", ReadOnly: true}, {Target: "/project/sub"}}}
	s.Nested = []mounts.Mount{{Target: "/project/.envrc", ReadOnly: true}, {Target: "/project/.git/config", ReadOnly: true}}
	s.Gate.Allow = []policy.Line{{Text: "a.test"}, {Text: "a.test"}, {Text: "b.test"}}
	f := facts(s)
	if !slices.Equal(f.ReadOnly, []string{".envrc", ".git/config"}) || f.ProjectReadOnly || !f.HomeKept {
		t.Errorf("got %+v", f)
	}
	if f.Net != briefing.Gate || !slices.Equal(f.Allow, []string{"a.test", "b.test"}) {
		t.Errorf("got %+v", f)
	}
	s.Net, s.HomeVolume, s.Mounts = sandbox.NetNone, "", []mounts.Mount{{Target: "/project", ReadOnly: true}}
	if f = facts(s); f.Net != briefing.None || f.HomeKept || !f.ProjectReadOnly {
		t.Errorf("got %+v", f)
	}
}

// TestPrompts: a harness's own questions are off, unless they are wanted.
func TestPrompts(t *testing.T) {
	for _, name := range []string{"claude", "codex", "gemini", "opencode"} {
		h, err := image.FindHarness(name)
		if err != nil {
			t.Fatal(err)
		}
		on, off := promptOptions{keep: true}, promptOptions{}
		if slices.Equal(on.argv(h), off.argv(h)) && len(on.env(h)) == len(off.env(h)) {
			t.Errorf("%s: --keep-prompts makes no difference", name)
		}
		if !slices.Equal(on.argv(h), h.Command) {
			t.Errorf("%s with --keep-prompts: %q", name, on.argv(h))
		}
	}
}
