package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// builder runs podman for images.
type builder struct {
	u       *ui
	podman  podman.Podman
	records image.Records
	o       imageOptions
}

// newBuilder finds podman and the state directory for a command.
func newBuilder(u *ui, command string, o imageOptions) (*builder, error) {
	if err := checkUser(command, os.Getuid()); err != nil {
		return nil, err
	}
	host, err := openHost(maybeProject(os.Getwd, os.Getenv("HOME")))
	if err != nil {
		return nil, err
	}
	return &builder{u: u, podman: host.Podman, records: recordsIn(host.Paths.State), o: o}, nil
}

// ready returns the tag of the image for s and builds it if aisb has never
// done so. It asks podman nothing when it has: whether the image is still there
// shows when podman runs it.
func (b *builder) ready(ctx context.Context, s image.Spec) (string, error) {
	known, ok, err := b.records.Find(s)
	if err != nil {
		return "", newerError(err, buildAnew)
	}
	if ok {
		return known.Tag(), nil
	}
	b.u.notef("there is no image for the harness %s on %s yet: building it, once", s.Harness.Name, s.Base)
	unlock, waited, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	if waited {
		if known, ok, err = b.records.Find(s); err != nil || ok {
			return known.Tag(), err // the other build was of the same
		}
	}
	return b.locked(ctx, s)
}

// build makes the image for s, whatever is there.
func (b *builder) build(ctx context.Context, s image.Spec) (string, error) {
	unlock, _, err := b.lock(ctx)
	if err != nil {
		return "", err
	}
	defer unlock()
	return b.locked(ctx, s)
}

// locked is the list of steps from a Spec to an image that starts at once.
func (b *builder) locked(ctx context.Context, s image.Spec) (string, error) {
	ctx, stop := untilSignal(ctx)
	defer stop()
	p := newProgress(b.u)
	defer p.end()
	begin := time.Now()
	var err error
	if s.BaseID, err = b.base(ctx, s.Base, p); err != nil {
		return "", b.interrupted(ctx, err)
	}
	if err := b.layers(ctx, s, p); err != nil {
		b.sweep(ctx)
		return "", b.interrupted(ctx, err)
	}
	p.step("prepare the layers for your user")
	if err := b.warm(ctx, s.Tag()); err != nil {
		return "", b.interrupted(ctx, err)
	}
	p.step("read where its package tools get packages from")
	sources, err := b.sources(ctx, s.Tag())
	if err != nil && ctx.Err() != nil {
		return "", b.interrupted(ctx, err)
	}
	p.end()
	if err != nil { // only 'run --preset npm' and the like need it, and they try again
		b.u.warnf("the package tools of the image say nothing: %v", err)
	}
	if err := b.records.Save(s, sources, time.Now()); err != nil {
		return "", err
	}
	b.u.notef("built %s in %s", s.Tag(), time.Since(begin).Round(time.Second))
	return s.Tag(), nil
}

// base gets the base image and returns its ID.
func (b *builder) base(ctx context.Context, ref string, p *progress) (string, error) {
	if !b.o.pull {
		if id, err := b.id(ctx, ref); err == nil {
			return id, nil
		}
	}
	p.step("get the base image " + ref)
	if _, err := b.output(ctx, image.PullArgs(ref)); err != nil {
		return "", &exitError{code: exitPodman, err: fmt.Errorf("get the base image %q: %w", ref, err),
			hint: "name an image that podman can pull or already has, with --base-image or AISB_BASE_IMAGE"}
	}
	return b.id(ctx, ref)
}

// id asks podman for the ID of a local image.
func (b *builder) id(ctx context.Context, ref string) (string, error) {
	out, err := b.output(ctx, image.IDArgs(ref))
	if err != nil {
		return "", fmt.Errorf("find the image %q: %w", ref, err)
	}
	return image.ParseID(out)
}

// warm makes podman prepare the image for the mapped user.
func (b *builder) warm(ctx context.Context, tag string) error {
	out, err := b.output(ctx, image.WarmArgs(tag))
	if err == nil {
		_, err = b.output(context.WithoutCancel(ctx), image.RemoveContainerArgs(strings.TrimSpace(string(out))))
	}
	if err != nil {
		return fmt.Errorf("prepare the image: %w", err)
	}
	return nil
}

// layers runs the build, shows its steps, and the end of its output when it
// fails.
func (b *builder) layers(ctx context.Context, s image.Spec, p *progress) error {
	dir, err := os.MkdirTemp("", "aisb-build-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := s.WriteContext(dir); err != nil {
		return err
	}
	if _, err := b.output(ctx, s.AliasArgs()); err != nil {
		return err
	}
	defer b.output(context.WithoutCancel(ctx), s.UnaliasArgs()) // a name that stays does no harm
	cmd := podmanCommand(ctx, b.podman, s.BuildArgs(dir, image.BuildOptions{
		Network: cmp.Or(b.o.network, os.Getenv("AISB_BUILD_NETWORK")), Fresh: b.o.fresh,
	}))
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer r.Close()
	cmd.Stdout, cmd.Stderr = w, w // one pipe keeps their order
	if err := cmd.Start(); err != nil {
		w.Close()
		return &exitError{code: exitPodman, err: fmt.Errorf("build the image: %w", err)}
	}
	w.Close()
	tail := &tail{max: 40}
	var log io.Writer = tail
	if b.o.verbose {
		log = io.MultiWriter(tail, &escaped{b.u.Err})
	}
	readErr := s.Steps(r, log, func(st image.Step) {
		p.step(fmt.Sprintf("step %d of %d: %s", st.N, st.Of, st.Title))
	})
	err = errors.Join(cmd.Wait(), readErr)
	if err == nil {
		return nil
	}
	p.end()
	if !b.o.verbose && ctx.Err() == nil {
		for _, line := range tail.lastStep() {
			b.u.line("podman: ", line)
		}
	}
	hint := podman.Hint(strings.Join(tail.lines, "\n"))
	if hint == "" {
		hint = "the lines above are podman's last; --verbose shows all of them"
	}
	return &exitError{code: exitPodman, err: fmt.Errorf("build the image: %w", err), hint: hint}
}

// output runs podman and returns its standard output.
func (b *builder) output(ctx context.Context, args []string) ([]byte, error) {
	return podmanOutput(ctx, b.podman, args)
}

// interrupted gives the error of a call that a signal ended the usual status.
func (b *builder) interrupted(ctx context.Context, err error) error {
	if i := interruptedError(ctx, "the image was built"); i != nil {
		return i
	}
	return err
}
