package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/attack"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// attackOptions are the flags of doctor --attack. Those that open something are
// run's: what they open is what it shows.
type attackOptions struct {
	attack, quiet bool

	image, net, backend          string
	userNS, unenforced, keepRoot bool
	imageOptions                 imageOptions // doctor's own flags too

	own []string // flags that mean nothing without --attack
}

func (a *attackOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&a.attack, "attack", false, "start a sandbox and try each known way out of it")
	before := map[string]bool{}
	f.VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	f.BoolVarP(&a.quiet, "quiet", "q", false, "leave out of the table what was held")
	f.StringVar(&a.image, "image", "", "attack in the image `REF` instead of aisb's own")
	f.StringVar(&a.net, "net", "allow", "attack a sandbox of this `MODE`: allow, none, full")
	f.Lookup("net").DefValue = ""
	f.StringVar(&a.backend, "net-backend", "auto", "and of this backend `B`: auto, inner, pasta")
	f.Lookup("net-backend").DefValue = ""
	f.BoolVar(&a.userNS, "allow-userns", false, "attack a sandbox with this hatch of run open")
	f.BoolVar(&a.unenforced, "allow-unenforced", false, "the same")
	f.BoolVar(&a.keepRoot, "insecure-keep-root", false, "the same")
	f.VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			a.own = append(a.own, f.Name)
		}
	})
}

// misplaced is the error of a flag that means nothing without --attack.
func (a *attackOptions) misplaced(f *pflag.FlagSet) error {
	for _, name := range a.own {
		if f.Changed(name) {
			return usageError("aisb doctor", fmt.Errorf("--%s needs --attack", name))
		}
	}
	return nil
}

// run is the battery from flags to report.
func (a *attackOptions) run(ctx context.Context, u *ui, asJSON bool) (err error) {
	if err := checkUser("aisb doctor --attack", os.Getuid()); err != nil {
		return err
	}
	began, stop := untilSignal(ctx) // so that nothing is left behind
	defer stop()
	dir, err := os.MkdirTemp("", "aisb-attack-")
	if err != nil {
		return &exitError{code: exitPodman, err: err, hint: "TMPDIR names a directory that you can write to"}
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	canaries, err := attack.Lay(dir)
	if err != nil {
		return &exitError{code: exitPodman, err: err}
	}
	defer canaries.Close()
	second, err := canaries.StartSecond(began, "/proc/self/exe")
	if err != nil {
		return &exitError{code: exitPodman, err: err}
	}
	b := &battery{u: u, options: a, canaries: canaries, extra: map[string]attack.Finding{}}
	defer b.erase()
	err = b.run(ctx, began)
	b.extra["second-gate-report"] = second.Stop(ctx)
	if i := interruptedError(began, "the battery was through"); i != nil {
		return i
	}
	if err != nil {
		return err
	}
	b.outside()
	canaries.Close() // it waits for who is there and has not said by which attack: that counts too
	return b.print(attack.Judge(b.answers, canaries.Visits(), b.extra), asJSON)
}

// battery is one run of it.
type battery struct {
	u        *ui
	options  *attackOptions
	canaries *attack.Canaries
	answers  []attack.Answer
	extra    map[string]attack.Finding
	drawn    bool
}

// run starts the session and hears the part inside. began ends with a signal.
func (b *battery) run(ctx, began context.Context) error {
	back, err := os.Getwd()
	if err != nil {
		return err
	}
	// The project is what the current directory is, and podman inherits the
	// environment: the secret in it is for the sandbox not to find.
	if err := os.Chdir(b.canaries.Project()); err != nil {
		return err
	}
	defer func() { _ = os.Chdir(back) }()
	if err := os.Setenv(attack.SecretName, b.canaries.Plan.Mark); err != nil {
		return err
	}
	p, err := b.spec()
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	for _, w := range p.warnings {
		b.u.warnf("%s", w)
	}
	host, err := b.host(began, p)
	if err != nil {
		return err
	}
	session, err := sandbox.Start(began, host, p.spec, sandbox.Events{Stage: func(s handshake.Stage) {
		if s.Warning != "" {
			b.u.warnf("%s", s.Warning)
		}
	}})
	if err != nil {
		return startError(err)
	}
	defer context.AfterFunc(began, session.Kill)()
	heard := b.hear(ctx, session, host, p.spec.Name)
	result := session.Wait(ctx)
	b.ended(p.spec, result)
	if result.Stopped != nil {
		return &exitError{code: result.Stopped.Status, err: result.Stopped.Err, hint: result.Stopped.Hint}
	}
	return heard
}

// spec is the session: what run would do with the same flags, but for the
// canaries.
func (b *battery) spec() (*prepared, error) {
	a, c := b.options, b.canaries
	o := runOptions{
		net: a.net, backend: a.backend, image: a.image, imageOptions: a.imageOptions,
		pids: "4096", memory: "2g", cpus: "1", shm: "256m", tmpfsSize: "256m", // without a limit there is none to try
		ephemeralHome: true, allowUserNS: a.userNS, unenforced: a.unenforced, keepRoot: a.keepRoot,
		env: []string{attack.PassedName + "=" + c.Plan.Passed}, argv: []string{"/usr/local/bin/aisb", attack.Command},
	}
	c.Plan.Tmpfs = 256 << 20
	if o.net == string(sandbox.NetAllow) {
		c.Plan.Gated = true
		o.allow, o.resolver = c.Rules(), c.Resolver()
	}
	// Where podman's pasta and aisb's lead to the host, if anything does.
	c.Plan.Loopback = []string{sandbox.HostLoopback.String(), sandbox.HostLoopback6.String(), sandbox.DNSForward.String(), "169.254.1.2"}
	p, err := o.prepare()
	if err != nil {
		return nil, err
	}
	p.spec.TTY = false
	return p, nil
}

// host finds podman and the image.
func (b *battery) host(ctx context.Context, p *prepared) (sandbox.Host, error) {
	host, err := openHost(written(p.plan.Mounts))
	if err != nil {
		return host, err
	}
	if p.spec.Backend, err = sandbox.ChooseBackend(ctx, p.spec.Backend, p.spec.Net); err != nil {
		return host, startError(err)
	}
	p.spec.Limits, _ = p.spec.Limits.Enforceable(podman.Controllers("/", hasSystemd(), host.UID))
	if p.spec.Limits.Core, err = coreLimit(); err != nil {
		return host, err
	}
	if p.spec.Image == "" {
		builder := &builder{u: b.u, podman: host.Podman, records: recordsIn(host.Paths.State), o: b.options.imageOptions}
		p.spec.Image, err = builder.ready(ctx, p.image)
	}
	return host, err
}

// hear gives the plan to the part inside and reads what it says.
func (b *battery) hear(ctx context.Context, session *sandbox.Session, host sandbox.Host, name string) error {
	io3 := session.Stdio()
	defer io3.Stdout.Close()
	defer io3.Stderr.Close()
	said := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(io3.Stderr, 4096))
		said <- string(text)
		_, _ = io.Copy(io.Discard, io3.Stderr)
	}()
	err := json.NewEncoder(io3.Stdin).Encode(b.canaries.Plan)
	io3.Stdin.Close()
	if err != nil {
		return &exitError{code: exitPodman, err: fmt.Errorf("give the battery its plan: %w", err)}
	}
	lines := json.NewDecoder(io3.Stdout)
	total := len(attack.Battery())
	for {
		var a attack.Answer
		switch err := lines.Decode(&a); {
		case errors.Is(err, io.EOF) && len(b.answers) == 0:
			return &exitError{code: exitPodman, err: fmt.Errorf("the battery did not begin: %s", strings.TrimSpace(<-said))}
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return &exitError{code: exitPodman, err: fmt.Errorf("what the battery says: %w", err)}
		}
		if len(b.answers) == 0 {
			b.during(ctx, host, name, a.Gate)
		}
		b.answers = append(b.answers, a)
		b.draw(len(b.answers), total)
	}
}

// draw shows on a terminal how far it is.
func (b *battery) draw(n, total int) {
	if f, ok := b.u.Err.(*os.File); ok && isTerminal(f) {
		b.drawn = true
		// Erase to the end of the line (ECMA-48, EL).
		fmt.Fprintf(b.u.Err, "\raisb: attack %d of about %d\x1b[K", n, total)
	}
}

func (b *battery) erase() {
	if b.drawn {
		fmt.Fprint(b.u.Err, "\r\x1b[K")
		b.drawn = false
	}
}

// print prints the report; the status is 1 when anything got out.
func (b *battery) print(r attack.Report, asJSON bool) error {
	b.erase()
	table := r
	if b.options.quiet {
		table = r.Brief()
	}
	show := func() error { return printLines(b.u.Out, table.String()) }
	if asJSON {
		show = func() error { return printJSON(b.u.Out, r) }
	}
	if err := show(); err != nil {
		return err
	}
	switch r.Verdict {
	case attack.SomeOut:
		return &exitError{code: 1} // all is said
	case attack.Broken:
		return &exitError{code: exitPodman, err: errors.New("the battery shows nothing: what may be done inside fails"),
			hint: "the lines 'broken' say what; run it again when the machine is less busy"}
	}
	return nil
}

// newAttackInsideCmd is the part inside, which only doctor --attack starts.
func newAttackInsideCmd(u *ui) *cobra.Command {
	return &cobra.Command{
		Use:    attack.Command,
		Short:  "try each known way out of this sandbox",
		Hidden: true,
		Args:   cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if code := attack.Inside(args, os.Stdin, u.Out, u.Err); code != 0 {
				return &exitError{code: code}
			}
			return nil
		},
	}
}
