package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// findContainers finds those of runs and builds that were killed together with their
// podman. No sandbox runs by now.
func (r *removal) findContainers(ctx context.Context) error {
	out, err := podmanOutput(ctx, r.host.Podman, podman.LeftArgs())
	if err != nil {
		return err
	}
	left, err := podman.ParseLeft(out)
	if err != nil {
		return &exitError{code: exitPodman, err: err}
	}
	for _, c := range left {
		r.add(belonging{Kind: kindContainer, Name: c.Name, What: "left of a run or a build that was killed", remove: func(ctx context.Context) error {
			_, err := podmanOutput(ctx, r.host.Podman, podman.RemoveLeftArgs(c.ID))
			return err
		}})
	}
	return nil
}

// findImages finds aisb's, the names that builds have left on base images, and what has
// to do with them and is the user's.
func (r *removal) findImages(ctx context.Context) error {
	images, err := r.builder.list(ctx)
	if err != nil {
		return err
	}
	for _, i := range images {
		r.add(belonging{Kind: kindImage, Name: i.Ref, Size: i.Size, What: "for " + i.Harness + " on " + i.Base, remove: func(ctx context.Context) error {
			_, err := r.builder.output(ctx, image.RemoveArgs(i.Ref))
			return err
		}})
	}
	out, err := r.builder.output(ctx, image.AliasesArgs())
	if err != nil {
		return err
	}
	aliases, err := image.ParseAliases(out)
	if err != nil {
		return &exitError{code: exitPodman, err: err}
	}
	for _, name := range aliases {
		r.add(belonging{Kind: kindName, Name: name, What: "of a build that was killed", remove: func(ctx context.Context) error {
			_, err := r.builder.output(ctx, image.UnnameArgs(name))
			return err
		}})
	}
	if out, err = r.builder.output(ctx, image.ListArgs()); err != nil {
		return err
	}
	others, err := image.ParseOthers(out)
	if err != nil {
		return &exitError{code: exitPodman, err: err}
	}
	unnamed, err := r.builder.working(ctx)
	if err != nil {
		return err
	}
	for _, name := range others {
		if isID(name) {
			unnamed = append(unnamed, name)
		} else if !r.kept[kindImage] {
			r.keep(kindOther, name, "you have given an image of aisb this name: podman rmi "+name)
		}
	}
	if len(images)+len(unnamed) > 0 {
		r.add(belonging{Kind: kindImage, Name: "layers without a name", What: "of builds", remove: r.removeLayers})
	}
	for _, ref := range r.bases() {
		if _, err := r.builder.id(ctx, ref); err == nil {
			r.keep(kindBase, ref, "other images may stand on it: podman rmi "+ref)
		}
	}
	return nil
}

// isID says whether ParseOthers has named an image without a name.
func isID(name string) bool {
	for _, c := range name {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return len(name) == 12
}

// findHomes finds the volumes that aisb has made.
func (r *removal) findHomes(ctx context.Context) error {
	list, err := r.homes.list(ctx)
	if err != nil {
		return err
	}
	for _, h := range list {
		r.add(belonging{Kind: kindHome, Name: h.Name, Size: h.Size, What: plural(h.Files, "file", "files") + ", with the logins in it",
			remove: func(ctx context.Context) error { return r.homes.removeOne(ctx, h.Name) }})
	}
	for _, name := range r.homes.records.Names() {
		if slices.ContainsFunc(list, func(h homeInfo) bool { return h.Name == name }) {
			continue
		}
		if _, err := volume(ctx, r.host.Podman, name); err == nil {
			r.keep(kindVolume, name, "used as a home, and not made by aisb: podman volume rm "+name)
		}
	}
	return nil
}

// remove removes all that goes. What can't be removed doesn't keep the rest from going.
func (r *removal) remove(ctx context.Context) error {
	if r.builder != nil {
		unlock, _, err := r.builder.lock(ctx) // no build is cut off, and none begins
		if err != nil {
			return err
		}
		defer unlock()
	}
	release, running, err := r.host.Paths.Quiet(ctx)
	if err != nil {
		return &exitError{code: exitPodman, err: err}
	}
	defer release()
	if len(running) > 0 {
		return stillRunning(running) // one has begun since
	}
	r.removeEach(ctx, func(k kind) bool { return k != kindRuntime })
	if err := r.removeMade(); err != nil {
		return err
	}
	// The last: the locks lie there, so from here on runs may begin.
	r.removeEach(ctx, func(k kind) bool { return k == kindRuntime })
	return nil
}

// removeEach removes what goes of some kinds.
func (r *removal) removeEach(ctx context.Context, which func(kind) bool) {
	for n := range r.list {
		b := &r.list[n]
		if b.Fate != fateRemove || !which(b.Kind) {
			continue
		}
		b.Fate = fateRemoved
		if err := b.remove(ctx); err != nil {
			b.Fate, b.Why = fateFailed, err.Error()
		}
	}
}

// removeMade removes the directories that removing itself has made: of locks and records.
func (r *removal) removeMade() error {
	for _, p := range r.host.Paths.Places() {
		k := placeKinds[p.Kind].kind
		if k == kindRuntime || r.kept[k] || p.Kind == sandbox.PlaceHomes && r.kept[kindHome] || p.Kind == sandbox.PlaceImages && r.kept[kindImage] ||
			slices.ContainsFunc(r.list, func(b belonging) bool { return b.Name == p.Path && b.Fate == fateFailed }) {
			continue
		}
		if err := p.Remove(r.host.Paths); err != nil {
			return err
		}
	}
	return nil
}

// removeLayers removes what builds have left that has no name: their working containers
// and their layers.
func (r *removal) removeLayers(ctx context.Context) error {
	r.builder.sweep(ctx)
	if _, err := r.builder.output(ctx, image.PruneArgs()); err != nil {
		return err
	}
	out, err := r.builder.output(ctx, image.ListArgs())
	if err != nil {
		return err
	}
	others, err := image.ParseOthers(out)
	if err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(others, func(name string) bool { return !isID(name) })); n > 0 {
		return errors.New(plural(n, "image without a name is", "images without a name are") + fmt.Sprintf(" in use: podman images --filter label=%s", image.LabelFormat))
	}
	return nil
}
