package main

import (
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// runOptions are the flags of run, as given.
type runOptions struct {
	allow, allowFile, deny []string
	allowAll               bool
	resolver, net, backend string
	noGate                 noGate
	presets                presetOptions
	prompts                promptOptions

	env, envFile []string

	sub                     string
	mount                   []string
	projectRO, noGitDir     bool
	unsafeDir, allowSockets bool
	share                   bool
	protectOptions
	home          string
	ephemeralHome bool
	git           gitOptions
	publish       publishOptions

	tmpfsSize, shm     string
	minFree            string
	pids, memory, cpus string

	image string // run this one and build nothing
	imageOptions

	allowUserNS, unenforced, keepRoot bool
	tty                               ttyOptions

	dry      dryOptions
	detached detachOptions

	settings *settings // what of all this came from where
	sessionOptions

	argv []string
}

func newRunCmd(u *ui) *cobra.Command {
	var o runOptions
	cmd := &cobra.Command{
		Use:   "run [flags] [--] [COMMAND [ARG...]]",
		Short: "run a harness or a command in a sandbox on the current directory",
		Long: `run starts COMMAND, or else the harness, in a container that has the current
directory at /project and reaches only what you allow. A RULE is HOST, *.HOST,
HOST:PORT and more: 'aisb gate --help'. Flags after COMMAND belong to COMMAND,
and so does stdin: in a script's loop, give it </dev/null.

The status is COMMAND's. 2: wrong usage, 77 and 78: the fence, 78: a file of
rules or settings, 124: --timeout, 125: podman, 126 and 127: COMMAND can't run.`,
		Example: `  aisb run --allow example.com -- curl https://example.com
  aisb run -e ANTHROPIC_API_KEY       # pi, which reaches its models alone
  aisb run -e ANTHROPIC_API_KEY --preset github,npm --harness claude`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.argv = args
			err := errors.Join(o.dry.check(), o.detached.check(o.tty))
			if err != nil {
				return err
			}
			if o.detached.on && !o.dry.on && u.super == nil {
				return o.detached.sendAway(u)
			}
			if o.settings, err = configure(u, cmd.Flags()); err != nil {
				return err
			}
			return run(cmd.Context(), u, o)
		},
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // the command's flags are its own
	o.flags(f)
	o.dry.flags(f)
	withSections(cmd, runSections)
	return cmd
}

// flags adds all flags of run.
func (o *runOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	listVar(f, &o.allow, "allow", "allow `RULE` (repeatable, comma list)")
	f.StringArrayVar(&o.allowFile, "allow-file", nil, "allow the rules in `FILE`, one a line")
	listVar(f, &o.deny, "deny", "deny `RULE`, whatever allows it")
	o.presets.flags(f)
	f.BoolVar(&o.allowAll, "allow-all-names", false, "let the rule * allow any public name")
	f.StringVar(&o.net, "net", "allow", "`MODE`: allow (the default), none, full (no fence)")
	f.Lookup("net").DefValue = "" // said by the text
	f.StringVar(&o.backend, "net-backend", "auto", "reach the gate by `B`: auto, inner, pasta")
	f.Lookup("net-backend").DefValue = ""
	o.noGate.flag(f)
	f.StringVar(&o.resolver, "resolver", "", "ask name server `IP[:PORT]` instead of the host's")
	f.StringArrayVarP(&o.env, "env", "e", nil, "pass `NAME` from the host, or NAME=VALUE")
	f.StringArrayVar(&o.envFile, "env-file", nil, "pass the variables in `FILE`")
	f.StringVarP(&o.sub, "workdir", "w", "", "start in the subdirectory `SUBDIR` of the project")
	f.StringArrayVarP(&o.mount, "mount", "v", nil, "also mount `HOST:CTR[:ro]`")
	f.BoolVar(&o.projectRO, "project-ro", false, "mount the project read-only")
	o.protectOptions.flags(f)
	f.BoolVar(&o.noGitDir, "no-git-dir", false, "don't mount a git directory outside the project")
	f.StringVar(&o.home, "home", "", "keep /home/agent in volume `NAME`, not aisb-home")
	f.BoolVar(&o.ephemeralHome, "ephemeral-home", false, "keep nothing of /home/agent")
	o.git.flags(f)
	o.publish.flags(f)
	o.detached.flags(f)
	o.sessionOptions.flags(f)
	o.imageOptions.flags(f)
	o.prompts.flags(f)
	f.StringVar(&o.image, "image", "", "run the image `REF` instead of aisb's own")
	textVar(f, &o.pids, "pids-limit", "4096", "at most `N` processes, 0: no limit")
	textVar(f, &o.memory, "memory", "", "at most `SIZE` of memory, like 8g")
	textVar(f, &o.cpus, "cpus", "", "at most `N` processors")
	f.StringVar(&o.tmpfsSize, "tmpfs-size", "1g", "`SIZE` of /tmp")
	textVar(f, &o.minFree, "min-free", "256m", "stop below `SIZE` of free disk")
	f.StringVar(&o.shm, "shm-size", "256m", "`SIZE` of /dev/shm")
	f.BoolVar(&o.allowUserNS, "allow-userns", false, "leave user namespaces open, for sandboxes inside")
	f.BoolVar(&o.unsafeDir, "allow-unsafe-dir", false, "run in a directory that is more than a project")
	f.BoolVar(&o.allowSockets, "allow-sockets", false, "run although the project has a listening socket")
	f.BoolVar(&o.share, "share", false, "share files with a running sandbox of other rules")
	f.BoolVar(&o.unenforced, "allow-unenforced", false, "start even if the fence can't be put up or proved")
	o.tty.flag(f)
	f.BoolVar(&o.keepRoot, "insecure-keep-root", false, "don't become uid 1000 inside")
}

// run is the list of steps from flags to receipt.
func run(ctx context.Context, u *ui, o runOptions) error {
	p, err := o.prepare()
	if err != nil {
		return o.settings.blame(err)
	}
	u.super.terminal(&p.spec)
	if o.dry.on {
		defer removeEmpty(os.Getenv)
	}
	defer func() {
		if err := p.close(); err != nil {
			u.warnf("%v", err)
		}
	}()
	if o.dry.on {
		return o.dryRun(ctx, u, p)
	}
	if err := checkUser("aisb run", os.Getuid()); err != nil {
		return err
	}
	for _, w := range p.warnings {
		u.warnf("%s", w)
	}
	for _, n := range p.notes {
		u.notef("%s", n)
	}
	host, err := openHost(written(p.plan.Mounts))
	if err != nil {
		return err
	}
	if p.spec.Backend, err = sandbox.ChooseBackend(ctx, p.spec.Backend, p.spec.Net); err != nil {
		return startError(err)
	}
	if err := p.enforceable(u, host.UID); err != nil {
		return err
	}
	b := &builder{u: u, podman: host.Podman, records: recordsIn(host.Paths.State), o: o.imageOptions}
	ours, err := o.complete(ctx, p, b)
	if err != nil {
		return err
	}
	err = runSession(ctx, u, host, p.spec, o.sessionOptions, o.tty)
	if !ours || !errors.Is(err, podman.ErrNoImage) {
		return err
	}
	// aisb remembers having built it, and someone has removed it since.
	u.notef("the image %s is gone: building it again", p.spec.Image)
	if p.spec.Image, err = b.build(ctx, p.image); err != nil {
		return err
	}
	p.spec.Name = o.runName(p.plan.Mounts[0].Source)
	return runSession(ctx, u, host, p.spec, o.sessionOptions, o.tty)
}
