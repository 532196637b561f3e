package main

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/briefing"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// promptOptions are the flags about what a harness asks and is told.
type promptOptions struct{ keep bool }

func (o *promptOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.keep, "keep-prompts", false, "leave the harness's own prompts and sandbox on")
}

// argv starts a harness, as a rule without its own permission prompts and sandbox:
// aisb is the sandbox.
func (o promptOptions) argv(h image.Harness) []string {
	if o.keep || len(h.Unprompted) == 0 {
		return h.Command
	}
	return h.Unprompted
}

// env are the variables that a harness wants.
func (o promptOptions) env(h image.Harness) []environ.Var {
	all := maps.Clone(h.Env)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, h.Told.Env)
	if !o.keep {
		maps.Copy(all, h.UnpromptedEnv)
	}
	var vars []environ.Var
	for _, name := range slices.Sorted(maps.Keys(all)) {
		vars = append(vars, environ.Var{Name: name, Value: []byte(all[name])})
	}
	return vars
}

// harnessHere is the harness whose files and variables the run gets: the one that
// it starts, or else that of the image.
func (o runOptions) harnessHere(p *prepared) image.Harness {
	if h, ok := o.started(); ok {
		return h
	}
	return p.image.Harness
}

// tell puts what the agent is told into the container, and where its harness reads
// it. The rules must be complete.
func (o runOptions) tell(p *prepared) {
	h := o.harnessHere(p)
	text := briefing.Render(facts(p.spec))
	told := sandbox.File{Name: path.Base(image.AgentsFile), Targets: []string{image.AgentsFile}, Data: text}
	p.spec.Files = nil
	if _, started := o.started(); !started && o.image != "" {
		p.spec.Files = append(p.spec.Files, told) // who knows what is in that image
		return
	}
	told.Targets = append(told.Targets, h.Told.At...)
	p.spec.Files = append(p.spec.Files, told)
	quoted, err := json.Marshal(string(text))
	if err != nil {
		return // a string always marshals
	}
	for _, target := range slices.Sorted(maps.Keys(h.Told.Files)) {
		data := strings.ReplaceAll(h.Told.Files[target], image.TextMark, string(quoted))
		p.spec.Files = append(p.spec.Files, sandbox.File{Name: h.Name + "-" + path.Base(target), Targets: []string{target}, Data: []byte(data)})
	}
}

// facts are what there is to tell of a run.
func facts(s sandbox.Spec) briefing.Facts {
	f := briefing.Facts{
		Net: briefing.Gate, Allow: texts(s.Gate.Allow), Deny: texts(s.Gate.Deny),
		Project: mounts.Project, Home: agentHome, HomeKept: s.HomeVolume != "",
	}
	switch s.Net {
	case sandbox.NetNone:
		f.Net = briefing.None
	case sandbox.NetFull:
		f.Net = briefing.Full
	case sandbox.NetNoGate:
		f.Net = briefing.NoGate
	}
	for _, m := range slices.Concat(s.Mounts, s.Nested, s.Protected) {
		switch {
		case m.Target == mounts.Project:
			f.ProjectReadOnly = m.ReadOnly
		case m.ReadOnly && strings.HasPrefix(m.Target, mounts.Project+"/"):
			f.ReadOnly = append(f.ReadOnly, strings.TrimPrefix(m.Target, mounts.Project+"/"))
		}
	}
	slices.Sort(f.ReadOnly)
	f.ReadOnly = slices.Compact(f.ReadOnly)
	return f
}

func texts(lines []policy.Line) []string {
	var list []string
	for _, l := range lines {
		// As a comma list has them, with a space before.
		if text := strings.TrimSpace(l.Text); !slices.Contains(list, text) {
			list = append(list, text)
		}
	}
	return list
}
