package main

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/config"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// dryOptions are the flags that make run only say what it would do.
type dryOptions struct {
	on, json bool
}

func (o *dryOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.on, "dry-run", false, "print what would be run, and start nothing")
	f.BoolVar(&o.json, "json", false, "with --dry-run, print JSON")
}

func (o *dryOptions) check() error {
	if o.json && !o.on {
		return usageError("aisb run", errors.New("--json needs --dry-run"))
	}
	return nil
}

// unbuilt stands in the command line for an image that has no name yet: that hangs
// on the base image, which podman knows.
const unbuilt = "IMAGE-THAT-IS-BUILT-FIRST"

// dryText is what 'run --dry-run' prints.
type dryText struct {
	Name        string       `json:"name"`
	Command     []string     `json:"command"`
	Workdir     string       `json:"workdir"`
	Image       dryImage     `json:"image"`
	Home        string       `json:"home"` // volume, "" for none that stays
	Net         string       `json:"net"`
	Backend     string       `json:"net_backend,omitempty"`
	Resolver    string       `json:"resolver,omitempty"` // "" is the host's
	Allow       []dryRule    `json:"allow"`
	Deny        []dryRule    `json:"deny"`
	Environment []dryEnv     `json:"environment"`
	Mounts      []dryMount   `json:"mounts"`
	Ports       []dryPort    `json:"ports"`             // of the host's loopback
	Timeout     string       `json:"timeout,omitempty"` // "" is none
	Quarantine  bool         `json:"quarantine"`        // of new files that the host may execute
	Settings    []shownValue `json:"settings"`
	Ruleset     string       `json:"ruleset"`
	Podman      []string     `json:"podman"`
	PodmanConf  string       `json:"podman_containers_conf"`
	Notes       []string     `json:"notes"`
}

type dryImage struct {
	Ref     string `json:"ref"`
	Build   bool   `json:"build"` // it would be built first
	Harness string `json:"harness,omitempty"`
	Base    string `json:"base,omitempty"`
}

type dryPort struct {
	Host uint16 `json:"host"` // 0 is a free one
	Port uint16 `json:"port"` // inside
}

type dryRule struct {
	Rule   string `json:"rule"`
	Origin string `json:"origin"`
}

type dryEnv struct {
	Name   string `json:"name"`
	Origin string `json:"origin"`
}

type dryMount struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	ReadOnly bool   `json:"ro"`
}

// dryRun says what the run would do, by the functions that do it.
func (o runOptions) dryRun(ctx context.Context, u *ui, p *prepared) error {
	for _, w := range p.warnings {
		u.warnf("%s", w)
	}
	if err := checkUser("aisb run", os.Getuid()); err != nil {
		u.warnf("such a run is refused: %v", err)
	}
	host, err := nameHost(written(p.plan.Mounts))
	switch {
	case errors.Is(err, podman.ErrNotInstalled):
		u.warnf("such a run fails: %v", err)
	case err != nil:
		return err
	}
	defer host.Self.Close()
	if backend, err := sandbox.ChooseBackend(ctx, p.spec.Backend, p.spec.Net); err == nil {
		p.spec.Backend = backend
	} else {
		u.warnf("such a run fails: %v", err)
		p.spec.Backend = cmp.Or(p.spec.Backend, sandbox.Inner)
	}
	if err := p.enforceable(u, host.UID); err != nil {
		return err
	}
	d, err := o.describe(p, host)
	if err != nil {
		return err
	}
	if o.dry.json {
		return printJSON(u.Out, d)
	}
	return d.print(u.Out)
}

// describe gathers what is printed.
func (o runOptions) describe(p *prepared, host sandbox.Host) (*dryText, error) {
	d := &dryText{Image: dryImage{Ref: p.spec.Image}}
	if p.spec.Image == "" {
		known, ok, err := recordsIn(host.Paths.State).Look(p.image)
		if err != nil {
			return nil, err
		}
		d.Image = dryImage{Ref: known.Tag(), Harness: p.image.Harness.Name, Base: p.image.Base}
		if !ok {
			d.Image.Ref, d.Image.Build = unbuilt, true
		}
		p.spec.Image = d.Image.Ref
	}
	d.Notes = []string{}
	if o.name == "" {
		d.Notes = append(d.Notes, "the name of the run has another end each time")
	}
	if err := p.dryPackages(host, d); err != nil {
		return nil, err
	}
	o.tell(p)
	dry, err := sandbox.DryRun(host, p.spec)
	if err != nil {
		return nil, startError(err)
	}
	d.Name, d.Workdir, d.Home = p.spec.Name, p.spec.Workdir, p.spec.HomeVolume
	d.Command = slices.Concat(p.spec.Prelude, p.spec.Argv)
	d.Net, d.Resolver = string(p.spec.Net), p.spec.Gate.Resolver
	if p.spec.Net == sandbox.NetAllow {
		d.Backend = string(p.spec.Backend)
	}
	d.Allow, d.Deny = dryRules(p.spec.Gate.Allow), dryRules(p.spec.Gate.Deny)
	d.Environment = o.dryEnvironment(p, dry.Proxy)
	d.Mounts = []dryMount{}
	for _, m := range slices.Concat(p.spec.Mounts, p.spec.Protected) {
		d.Mounts = append(d.Mounts, dryMount{m.Source, m.Target, m.ReadOnly})
	}
	d.Ports = []dryPort{}
	for _, port := range p.spec.Publish {
		d.Ports = append(d.Ports, dryPort{port.Host, port.Port})
	}
	if d.Quarantine = p.spec.Quarantine; o.timeout > 0 {
		d.Timeout = timeText(o.timeout)
	}
	d.Settings = []shownValue{}
	if o.settings != nil {
		for _, k := range config.Keys {
			d.Settings = append(d.Settings, shownValues(o.settings.Values(k.Name))...)
		}
	}
	d.Ruleset, d.Podman, d.Notes = dry.Ruleset, dry.Podman, append(d.Notes, dry.Notes...)
	d.PodmanConf = filepath.Join(host.Conf.Dir(), podman.ConfName)
	return d, nil
}

// dryPackages adds the rules of package presets as far as aisb has noted them when it
// built the image.
func (p *prepared) dryPackages(host sandbox.Host, d *dryText) error {
	if len(p.packages) == 0 {
		return nil
	}
	list, known, err := recordsIn(host.Paths.State).SourcesOf(p.spec.Image)
	if err != nil {
		return err
	}
	if !known {
		d.Notes = append(d.Notes, "the rules of package presets are read off the image, whose tools aren't known yet")
		return nil
	}
	lines, err := packageLines(p.packages, list, p.spec.Image)
	p.spec.Gate.Allow = append(p.spec.Gate.Allow, lines...)
	return err
}

func dryRules(lines []policy.Line) []dryRule {
	list := []dryRule{}
	for _, l := range lines {
		list = append(list, dryRule{l.Text, l.Origin})
	}
	return list
}

// dryEnvironment are the names of the command's variables and who gives each its
// value, in the order in which one wins over another.
func (o runOptions) dryEnvironment(p *prepared, proxy []string) []dryEnv {
	from := map[string]string{}
	give := func(origin string, names ...string) {
		for _, name := range names {
			from[name] = origin
		}
	}
	names := func(vars []environ.Var) []string {
		var list []string
		for _, v := range vars {
			list = append(list, v.Name)
		}
		return list
	}
	give("the way to the gate", proxy...)
	give("aisb", names(p.spec.Env)...)
	give("passed from here unnamed", names(environ.Terminal(os.LookupEnv))...)
	h := o.harnessHere(p)
	give("the harness "+h.Name, names(o.prompts.env(h))...)
	give("env-file", names(p.spec.Named)...)
	for i, text := range o.git.logins {
		if _, name, ok := strings.Cut(text, "="); ok {
			give(o.settings.origin("git-token", i), name)
		}
	}
	for i, text := range o.env {
		name, _, _ := strings.Cut(text, "=")
		give(o.settings.origin("env", i), name)
	}
	list := []dryEnv{}
	for name, origin := range from {
		list = append(list, dryEnv{name, origin})
	}
	slices.SortFunc(list, func(a, b dryEnv) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// removeEmpty removes what the plan of a run in a subdirectory of a repository has
// made for a while: the directories of aisb's state, where they are empty.
func removeEmpty(getenv func(string) string) {
	state, err := sandbox.StateDir(getenv)
	if err != nil {
		return
	}
	for _, dir := range []string{filepath.Join(state, "scratch"), state} {
		if os.Remove(dir) != nil { // not empty, or not there
			return
		}
	}
}
