package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/mattn/go-shellwords"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/preset"
	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// The user inside, and the home volume that is used unless another is named.
const (
	agentUser   = "agent"
	agentHome   = "/home/agent"
	defaultHome = "aisb-home"
)

// prepared is a run whose flags made sense. Nothing was started or changed yet.
type prepared struct {
	spec     sandbox.Spec
	plan     *mounts.Plan
	scratch  *sandbox.Scratch
	image    image.Spec // what to build when no image is named
	envNames []string
	theirs   map[string]bool // of the user's variables those that an agent can have set
	planted  []string        // of keys among them: why they open nothing
	packages []preset.Ref    // presets that the image knows
	warnings []string
	notes    []string
}

// prepare turns flags into a Spec. What is wrong with them is found here,
// before anything is started.
func (o runOptions) prepare() (*prepared, error) {
	limits, err := o.limits()
	if err != nil {
		return nil, err
	}
	p := &prepared{}
	p.spec = sandbox.Spec{
		Image: o.image, Net: sandbox.NetMode(o.net), Limits: limits,
		TmpfsSize: o.tmpfsSize, Share: o.share, AllowUserNS: o.allowUserNS,
		AllowUnenforced: o.unenforced, KeepRoot: o.keepRoot,
	}
	p.spec.MinFree, _ = parseSize(o.minFree) // limits has read it; 0 is no floor
	for _, step := range []func(*prepared) error{
		o.checkNew, o.network, o.hatches, o.command, o.directory, o.guard, o.publishPorts, o.gitSetup, o.environment, o.rules, o.gitReach,
	} {
		if err := step(p); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	p.spec.Rows, p.spec.Cols, p.spec.TTY = terminalSize()
	return p, nil
}

// close lets go of what the run needed, once it has ended.
func (p *prepared) close() error {
	if p.plan != nil {
		p.plan.Close()
	}
	return p.scratch.Remove()
}

// network reads the rules as they are written.
func (o runOptions) network(p *prepared) error {
	switch b := sandbox.Backend(o.backend); {
	case b == "auto":
	case b != sandbox.Pasta && b != sandbox.Inner:
		return usageError("aisb run", fmt.Errorf("--net-backend %q is none of auto, inner, pasta", o.backend))
	case p.spec.Net != sandbox.NetAllow:
		return usageError("aisb run", fmt.Errorf("--net-backend %s needs --net allow: there is no gate with --net %s", b, o.net))
	default:
		p.spec.Backend = b
	}
	switch p.spec.Net {
	case sandbox.NetAllow:
	case sandbox.NetNone, sandbox.NetFull:
		if len(o.allow)+len(o.allowFile)+len(o.deny)+len(o.presets.names)+len(o.noGate) > 0 {
			return usageError("aisb run", fmt.Errorf("--allow, --allow-file, --deny, --preset and --no-gate need --net allow, not --net %s", o.net))
		}
		if p.spec.Net == sandbox.NetFull {
			p.warnings = append(p.warnings, "--net full: no fence and no gate, the sandbox can send anything anywhere")
		}
		return nil
	default:
		return usageError("aisb run", fmt.Errorf("--net %q is none of allow, none, full", o.net))
	}
	allow, err := o.settings.lines("allow", o.allow, o.allowFile)
	if err != nil {
		return err
	}
	deny, err := o.settings.lines("deny", o.deny, nil)
	if err != nil {
		return err
	}
	if o.resolver != "" {
		if _, err := (&policyOptions{resolver: []string{o.resolver}}).servers(); err != nil {
			return err
		}
	}
	if _, _, err := policy.Parse(allow, deny, policy.Options{AllowAllNames: o.allowAll}); err != nil {
		return gateRuleError(err)
	}
	p.spec.Gate = proc.Config{Allow: allow, Deny: deny, AllowAllNames: o.allowAll, Resolver: o.resolver}
	return nil
}

// rules completes the policy by what follows from presets and keys. An empty allowlist
// is an error: it is never everything, and a sandbox that reaches nothing should be
// meant.
func (o runOptions) rules(p *prepared) (err error) {
	if p.spec.Net != sandbox.NetAllow {
		return nil
	}
	g := &p.spec.Gate
	if g.Allow, err = o.withPresets(p, g.Allow, g.Deny); err != nil {
		return err
	}
	parsed, warnings, err := policy.Parse(g.Allow, g.Deny, policy.Options{AllowAllNames: o.allowAll})
	if err != nil {
		return gateRuleError(err)
	}
	if parsed.Len() == 0 && len(p.packages) == 0 {
		return o.emptyList(p)
	}
	for _, w := range warnings {
		p.warnings = append(p.warnings, w.String())
	}
	return o.directly(p, parsed)
}

// hatches are the ways to run with less than aisb promises.
func (o runOptions) hatches(p *prepared) error {
	warn := func(format string, args ...any) { p.warnings = append(p.warnings, fmt.Sprintf(format, args...)) }
	if o.unenforced {
		warn("--allow-unenforced: the sandbox starts even if its fence doesn't hold")
	}
	if o.keepRoot {
		warn("--insecure-keep-root: the command runs as uid 0 of the container, though without capabilities")
	}
	extra := os.Getenv("AISB_EXTRA_ARGS")
	if extra == "" {
		return nil
	}
	args, err := shellwords.Parse(extra)
	if err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("AISB_EXTRA_ARGS %q is no list of arguments", extra),
			hint: "it is split like a shell's command line: see that its quotes are closed"}
	}
	warn("AISB_EXTRA_ARGS: podman gets %q, which aisb doesn't check", args)
	p.spec.ExtraArgs = args
	return nil
}

// command is what to run, and the image that has it.
func (o runOptions) command(p *prepared) error {
	var err error
	if p.image, err = o.imageOptions.spec(); err != nil {
		return err
	}
	h := p.image.Harness
	p.spec.Argv = o.argv
	if len(o.argv) == 0 {
		p.spec.Argv = o.prompts.argv(h)
		if o.prompts.keep && h.Prompted != "" && !o.allowUserNS {
			p.notes = append(p.notes, "--keep-prompts: "+h.Prompted)
		}
	}
	if len(p.spec.Argv) == 0 || p.spec.Argv[0] == "" {
		return usageError("aisb run", errors.New("the command is empty"))
	}
	p.spec.HomeVolume = o.home
	switch {
	case o.ephemeralHome && o.home != "":
		return usageError("aisb run", errors.New("--home and --ephemeral-home exclude each other"))
	case o.ephemeralHome:
	case o.home == "":
		p.spec.HomeVolume = defaultHomeName()
	}
	return checkHome(p.spec.HomeVolume)
}

// directory plans the mounts.
func (o runOptions) directory(p *prepared) error {
	if err := o.session(); err != nil {
		return err
	}
	here, err := os.Stat(".")
	dir, wdErr := os.Getwd()
	if err = errors.Join(err, wdErr); err != nil {
		return &exitError{code: exitUsage, err: fmt.Errorf("find the current directory: %w", err),
			hint: "it was removed, it seems: change to one that is there"}
	}
	p.spec.Name = o.runName(dir)
	own, scratch := sandbox.RunName(dir), "" // never that of an earlier run: it may have left something there
	// Without these directories there is no run, which openHost says.
	paths, pathsErr := sandbox.FindPaths(os.Getenv, os.Getuid())
	if pathsErr == nil {
		scratch = paths.ScratchPath(own)
	}
	p.plan, err = mounts.Make(mounts.HostFrom(os.Getenv, os.Getuid()), mounts.Options{
		Dir: dir, Here: here, Sub: o.sub, ReadOnly: o.projectRO, Extra: o.mount,
		AllowDir: o.unsafeDir, AllowSockets: o.allowSockets, NoGit: o.noGitDir, Scratch: scratch,
		Protect: o.protect, NoProtect: o.noProtect,
	})
	if pathsErr == nil {
		var held error
		p.scratch, held = paths.HoldScratch(own)
		err = errors.Join(err, held)
	}
	var refusal *mounts.Refusal
	switch {
	case errors.As(err, &refusal):
		return &exitError{code: exitUsage, err: errors.New(refusal.Reason), hint: refusal.Hint}
	case err != nil:
		return &exitError{code: exitUsage, err: err}
	}
	p.warnings = append(p.warnings, p.plan.Warnings...)
	p.warnings = append(p.warnings, ruleFileWarnings(o.allowFile, written(p.plan.Mounts))...)
	p.notes = append(p.notes, p.plan.Notes...)
	p.spec.Mounts = p.plan.Mounts
	p.spec.Nested = p.plan.Nested
	o.protection(p)
	p.spec.Workdir = p.plan.Workdir
	p.spec.Prelude = p.plan.Prelude
	return nil
}

// environment collects the variables of the command: the user's win over the
// harness's, those over the base.
func (o runOptions) environment(p *prepared) error {
	named, theirs, err := namedEnv(o.envFile, o.env, written(p.plan.Mounts))
	if err == nil {
		named, err = o.git.variables(named)
	}
	if err != nil {
		return err
	}
	git, err := environ.Parse(p.plan.Env, os.LookupEnv)
	if err != nil {
		return envError(err)
	}
	p.spec.Env = slices.Concat(environ.Base(os.LookupEnv, agentHome, agentUser),
		o.prompts.env(o.harnessHere(p)), git, environ.GitConfig(p.plan.GitConfig))
	p.spec.Named, p.theirs = named, theirs
	p.notes = append(p.notes, o.identityNotes(p)...)
	if _, p.envNames, err = environ.Merge(p.spec.Env, p.spec.Named); err != nil {
		return envError(err)
	}
	if p.spec.Net == sandbox.NetAllow && o.noGate == "" {
		p.warnings = append(p.warnings, proxyWarnings(named)...)
	}
	return nil
}

// proxyWarnings are about variables of the user's that lead programs elsewhere
// than to the gate, as the host's own in a company's network do. The fence
// refuses what goes there, and no log tells of it.
func proxyWarnings(vars []environ.Var) []string {
	var list []string
	for _, v := range vars {
		switch strings.ToLower(v.Name) {
		case "http_proxy", "https_proxy", "all_proxy", "no_proxy":
			list = append(list, fmt.Sprintf("%s is given: what heeds it may pass the gate by, and is then refused by the fence; leave it out", v.Name))
		}
	}
	return list
}
