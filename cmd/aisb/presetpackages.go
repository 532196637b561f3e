package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/preset"
	"github.com/aisb-dev/aisb/image"
)

// sources asks the package tools of an image.
func (b *builder) sources(ctx context.Context, tag string) ([]preset.Preset, error) {
	out, err := b.output(ctx, image.SourcesArgs(tag))
	if err != nil {
		return nil, err
	}
	return image.ParseSources(out), nil
}

// packages are the package presets of the image that a run uses, which exists. Of
// one that aisb built they were noted then; podman is asked only about others.
func (b *builder) packages(ctx context.Context, tag string, s image.Spec) ([]preset.Preset, error) {
	known, ok, err := b.records.SourcesOf(tag)
	if err != nil || ok {
		return known, err
	}
	built, ours, err := b.records.Find(s)
	if err != nil {
		return nil, err
	}
	if ours && built.Tag() == tag { // by an aisb that didn't read them
		list, err := b.sources(ctx, tag)
		if err != nil {
			return nil, err
		}
		return list, b.records.Save(built, list, time.Now())
	}
	out, err := b.output(ctx, image.LabelsArgs(tag))
	if err != nil {
		return nil, err
	}
	return image.ParseLabels(out), nil
}

// complete makes the image of a run ready, unless one is named, and adds what
// follows from it. It reports whether the image is aisb's to build.
func (o runOptions) complete(ctx context.Context, p *prepared, b *builder) (ours bool, err error) {
	if ours = p.spec.Image == ""; ours {
		if p.spec.Image, err = b.ready(ctx, p.image); err != nil {
			return ours, err
		}
	}
	if err := p.addPackages(ctx, b); err != nil {
		return ours, err
	}
	o.tell(p)
	return ours, nil
}

// addPackages adds the rules of the package presets, which need the image. It does
// nothing without any.
func (p *prepared) addPackages(ctx context.Context, b *builder) error {
	if len(p.packages) == 0 {
		return nil
	}
	list, err := b.packages(ctx, p.spec.Image, p.image)
	if err != nil {
		return err
	}
	lines, err := packageLines(p.packages, list, p.spec.Image)
	if err != nil {
		return err
	}
	g := &p.spec.Gate
	g.Allow = append(g.Allow, lines...)
	_, warnings, err := policy.Parse(g.Allow, g.Deny, policy.Options{AllowAllNames: g.AllowAllNames})
	if err != nil {
		return gateRuleError(err)
	}
	for _, w := range warnings {
		if strings.HasPrefix(w.Origin, "preset ") { // the others were said before
			b.u.warnf("%s", w)
		}
	}
	p.packages = nil // an image that is built again has the same
	return nil
}

// packageLines are the rules of package presets in an image that has those in list.
func packageLines(refs []preset.Ref, list []preset.Preset, tag string) ([]policy.Line, error) {
	var lines []policy.Line
	for _, ref := range refs {
		more, found := []policy.Line(nil), false
		for _, p := range list {
			if p.Name == ref.Name {
				more, found = p.Lines(ref.Group, ""), true
			}
		}
		if !found {
			return nil, &exitError{code: exitUsage,
				err: fmt.Errorf("preset %q: the image %s doesn't say where its packages come from", ref.Name, tag),
				hint: fmt.Sprintf("aisb asks the tool in an image that it builds: add what is missing by --package\n"+
					"an image given by --image needs a label: %s%s=\"HOST:443\"\n", image.LabelPreset, ref.Name) +
					"or allow the hosts: --allow HOST"}
		}
		if len(more) == 0 {
			return nil, noGroup(ref)
		}
		lines = append(lines, more...)
	}
	return lines, nil
}

// noGroup is the error of a group that a preset doesn't have.
func noGroup(ref preset.Ref) error {
	return &exitError{code: exitUsage, err: fmt.Errorf("preset %q has no hosts for %s", ref.Name, ref.Group),
		hint: "'aisb presets " + ref.Name + "' shows those that it has"}
}

// needsImage is the error of a package preset where there is no image to ask.
func needsImage(ref preset.Ref) error {
	return &exitError{code: exitUsage,
		err:  fmt.Errorf("preset %q is read off an image, and only 'aisb run' has one", ref.Name),
		hint: "'aisb presets " + ref.Name + "' shows the hosts of your image, for --allow"}
}
