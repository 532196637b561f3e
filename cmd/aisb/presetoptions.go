package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/preset"
	"github.com/aisb-dev/aisb/image"
)

// presetOptions are the flags that name presets.
type presetOptions struct {
	names     []string
	noImplied bool // of run alone
}

// flag adds --preset.
func (o *presetOptions) flag(f *pflag.FlagSet) {
	listVar(f, &o.names, "preset", "allow what `NAME` needs: 'aisb presets'")
}

// flags adds those of run.
func (o *presetOptions) flags(f *pflag.FlagSet) {
	o.flag(f)
	f.BoolVar(&o.noImplied, "no-implied-presets", false, "let a key (-e) open nothing by itself")
}

// findPreset finds a preset that is in the binary: a service or a harness.
func findPreset(name string) (preset.Preset, error) {
	p, err := preset.FindService(name)
	if !errors.Is(err, preset.ErrUnknown) {
		return p, err
	}
	h, err := image.FindHarness(name)
	if err != nil || h.NPM == nil { // the shell wants nothing
		return preset.Preset{}, unknownPreset(name)
	}
	return h.Preset(), nil
}

// presetNames are the names of all presets.
func presetNames() []string {
	names := slices.Concat(preset.Services(), image.PackageTools())
	for _, name := range image.HarnessNames() {
		if h, err := image.FindHarness(name); err == nil && h.NPM != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// unknownPreset names what may have been meant: another name for it, or else one
// that is written alike. cobra judges commands, so the presets pose as such.
func unknownPreset(name string) error {
	all := &cobra.Command{SuggestionsMinimumDistance: min(2, len(name)/2)}
	var meant []string
	for _, n := range presetNames() {
		all.AddCommand(&cobra.Command{Use: n, Run: func(*cobra.Command, []string) {}})
		if slices.Contains(otherPresets[n], name) {
			meant = append(meant, n)
		}
	}
	if meant == nil {
		meant = all.SuggestionsFor(name)
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("%w %q", preset.ErrUnknown, name),
		hint: didYouMean("", meant) + "'aisb presets' lists them; for a host: --allow HOST"}
}

// otherPresets are presets as others call them.
var otherPresets = map[string][]string{
	"anthropic": {"claude-api"}, "claude": {"claude-code"}, "debian": {"apt", "ubuntu", "deb"}, "github": {"gh"},
	"go": {"golang", "gomod"}, "google": {"gemini-api"}, "huggingface": {"hf"}, "npm": {"node", "nodejs", "yarn", "pnpm"},
	"openai": {"gpt", "chatgpt"}, "pip": {"python", "uv", "poetry"}, "xai": {"grok"},
}

// asked is a reference, and where it is written.
type asked struct {
	preset.Ref
	origin string
}

// refs reads the names as given. where says where the i-th is written.
func (o *presetOptions) refs(where func(i int) string) ([]asked, error) {
	var refs []asked
	for i, text := range o.names {
		ref, err := preset.ParseRef(text)
		if err != nil {
			return nil, &exitError{code: originStatus(where(i)), err: fmt.Errorf("%s: %w", where(i), err), hint: "write NAME, NAME:telemetry or NAME:update"}
		}
		if !slices.ContainsFunc(refs, func(have asked) bool { return have.Ref == ref }) {
			refs = append(refs, asked{ref, where(i)})
		}
	}
	return refs, nil
}

// originStatus is the status for what is wrong at an origin: a flag or a file.
func originStatus(origin string) int {
	if strings.HasPrefix(origin, "--") {
		return exitUsage
	}
	return exitConfig
}

// lines are the rules of the presets named, and the package presets among them,
// which only an image knows.
func (o *presetOptions) lines(where func(i int) string) (lines []policy.Line, packages []preset.Ref, err error) {
	refs, err := o.refs(where)
	if err != nil {
		return nil, nil, err
	}
	for _, ref := range refs {
		if slices.Contains(image.PackageTools(), ref.Name) {
			packages = append(packages, ref.Ref)
			continue
		}
		by := ""
		if originStatus(ref.origin) != exitUsage {
			by = ref.origin
		}
		p, err := findPreset(ref.Name)
		if e, ok := errors.AsType[*exitError](err); ok && by != "" {
			e.code, e.err = exitConfig, fmt.Errorf("%s: %w", by, e.err)
		}
		if err != nil {
			return nil, nil, err
		}
		more := p.Lines(ref.Group, by)
		// What a harness needs may follow from its key alone.
		if len(more) == 0 && (p.Kind != preset.Harness || ref.Group != preset.Core) {
			return nil, nil, noGroup(ref.Ref)
		}
		lines = append(lines, more...)
	}
	return lines, packages, nil
}

// linesWithoutImage are the rules for a command that has no image.
func (o *presetOptions) linesWithoutImage() ([]policy.Line, error) {
	lines, packages, err := o.lines(func(int) string { return "--preset" })
	if err == nil && len(packages) > 0 {
		return nil, needsImage(packages[0])
	}
	return lines, err
}

// withPresets adds the rules of presets to those that are written out.
func (o runOptions) withPresets(p *prepared, allow, deny []policy.Line) ([]policy.Line, error) {
	lines, packages, err := o.presets.lines(func(i int) string { return o.settings.origin("preset", i) })
	if err != nil {
		return nil, err
	}
	p.packages = packages
	allow = append(allow, lines...)
	return append(allow, o.implied(p, allow, deny)...), nil
}

// implied are the rules that follow from keys: whoever gives a harness the key of a
// service means it to use that. What is allowed already, or denied, isn't added.
func (o runOptions) implied(p *prepared, allow, deny []policy.Line) []policy.Line {
	h, ok := o.started()
	if !ok {
		return nil
	}
	keys := givenKeys(h, p.spec.Named)
	if len(keys) == 0 {
		p.keyless(h)
		return nil
	}
	said, _, err := policy.Parse(allow, deny, policy.Options{AllowAllNames: o.allowAll})
	if err != nil || o.presets.noImplied {
		return nil // who parses them for the run says what is wrong
	}
	keys = p.unplanted(said, keys)
	var lines []policy.Line
	var opened []string
	for _, k := range keys {
		service, err := preset.FindService(k.Preset)
		if err != nil {
			continue // a test holds that there is one
		}
		for _, l := range service.Lines(preset.Core, k.Env) {
			known := slices.ContainsFunc(lines, func(have policy.Line) bool { return have.Text == l.Text })
			if known || !silent(said, l) {
				continue
			}
			lines = append(lines, l)
			opened = append(opened, fmt.Sprintf("%s (for %s)", l.Text, k.Env))
		}
	}
	if opened != nil {
		p.notes = append(p.notes, "allowed by the key: "+strings.Join(opened, ", ")+"; --no-implied-presets stops that")
	}
	return lines
}

// silent reports whether rules say nothing of what a line would allow.
func silent(rules *policy.Policy, l policy.Line) bool {
	t, err := policy.ParseHost(l.Text, 443)
	if err != nil {
		return true // a wildcard: not one host
	}
	d := rules.Decide(t)
	return !d.Allow && d.Reason != policy.DeniedRule
}
