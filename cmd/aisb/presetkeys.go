package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/preset"
	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox/environ"
)

// started is the harness that the run starts, if it is one: without a command, or
// with the harness's own.
func (o runOptions) started() (image.Harness, bool) {
	name := o.harness
	if len(o.argv) > 0 {
		name = o.argv[0]
	}
	h, err := image.FindHarness(name)
	if err != nil || h.NPM == nil || len(o.argv) > 0 && h.Command[0] != o.argv[0] {
		return image.Harness{}, false
	}
	return h, true
}

// givenKeys are the keys of a harness that the user has named, with a value.
func givenKeys(h image.Harness, named []environ.Var) []image.Key {
	given := map[string]bool{}
	for _, v := range named { // the last of a name counts
		given[v.Name] = len(v.Value) > 0
	}
	return slices.DeleteFunc(slices.Clone(h.Keys), func(k image.Key) bool { return !given[k.Env] })
}

// unplanted are the keys without those that stand in a file that an agent can have
// written: it could so open the next run a service of its choice. Of what they
// would open and nothing else does, a warning tells.
func (p *prepared) unplanted(said *policy.Policy, keys []image.Key) []image.Key {
	return slices.DeleteFunc(keys, func(k image.Key) bool {
		service, err := preset.FindService(k.Preset)
		if err != nil || !p.theirs[k.Env] {
			return false
		}
		if slices.ContainsFunc(service.Lines(preset.Core, k.Env), func(l policy.Line) bool { return silent(said, l) }) {
			why := fmt.Sprintf("%s opens nothing by itself, since an agent can have written the file that it stands in: --preset %s", k.Env, k.Preset)
			p.warnings, p.planted = append(p.warnings, why), append(p.planted, why)
		}
		return true
	})
}

// keyless says that a harness gets none of its keys. That may be right: a home that
// is kept holds a login, a model may run on the host.
func (p *prepared) keyless(h image.Harness) {
	if len(h.Keys) == 0 {
		return
	}
	text := fmt.Sprintf("%s gets no key: pass one with -e, of %s", h.Name, keyList(h))
	if p.spec.HomeVolume == "" {
		p.warnings = append(p.warnings, text)
		return
	}
	p.notes = append(p.notes, fmt.Sprintf("%s; or it uses the login in the home %s", text, p.spec.HomeVolume))
}

// keyList names the first keys of a harness.
func keyList(h image.Harness) string {
	const most = 3
	var names []string
	for i, k := range h.Keys {
		if i == most && len(h.Keys) > most+1 {
			return fmt.Sprintf("%s and %d more ('aisb presets %s')", strings.Join(names, ", "), len(h.Keys)-most, h.Name)
		}
		names = append(names, k.Env)
	}
	return strings.Join(names, ", ")
}

// keyHint is what a harness that is run without rules most likely wants: a key that
// the user has, or else one of those that it knows.
func (o runOptions) keyHint(getenv func(string) string) string {
	h, ok := o.started()
	if !ok || len(h.Keys) == 0 {
		return ""
	}
	i := slices.IndexFunc(h.Keys, func(k image.Key) bool { return getenv(k.Env) != "" })
	if i < 0 {
		return fmt.Sprintf("%s needs one of %s; pass it with -e\n", h.Name, keyList(h))
	}
	key, more := h.Keys[i], ""
	if o.presets.noImplied {
		more = "--preset " + key.Preset + " "
	}
	return fmt.Sprintf("for %s with %s: %s-e %s\n", h.Name, key.Reason, more, key.Env)
}

// commandKeyHint says why a key that was passed opens nothing here: only for a
// harness is it plain what the key is for.
func (o runOptions) commandKeyHint(p *prepared) string {
	if _, ok := o.started(); ok {
		return ""
	}
	for _, name := range image.HarnessNames() {
		h, err := image.FindHarness(name)
		if err != nil {
			continue
		}
		for _, k := range givenKeys(h, p.spec.Named) {
			if !p.theirs[k.Env] {
				return fmt.Sprintf("%s opens hosts by itself for a harness alone; for this command: --preset %s\n", k.Env, k.Preset)
			}
		}
	}
	return ""
}
