package mounts

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// mountAll turns what was found into mounts, the most telling first.
func (g *guard) mountAll() error {
	all, err := g.collect()
	if err != nil {
		return err
	}
	if err := g.checkLeft(all); err != nil {
		return err
	}
	slices.SortFunc(all, func(a, b wanted) int {
		return cmp.Or(
			cmp.Compare(slices.Index(protect.Groups, a.rule.Group), slices.Index(protect.Groups, b.rule.Group)),
			cmp.Compare(strings.Count(a.path, "/"), strings.Count(b.path, "/")),
			cmp.Compare(a.path, b.path))
	})
	var over, others []string
	full := false // what is less telling than that for which there was no room isn't tried
	for _, w := range all {
		if full || unmountable(w.path) != "" {
			over = append(over, w.show)
			continue
		}
		mounts, err := g.mountsOf(w)
		if err != nil {
			return err
		}
		if full = len(g.Protected)+len(mounts) > mostProtected; full {
			over = append(over, w.show)
			continue
		}
		g.Protected = append(g.Protected, mounts...)
		if w.rule.Path == "" && w.rule != protect.UserRule {
			others = append(others, w.show)
		}
	}
	if len(others) > 0 {
		g.notef("read-only inside, too, since git's configuration or a link in a protected directory leads there, or you may not look into it: %s", list(others))
	}
	if len(over) > 0 {
		g.warnf("not read-only inside, since that would be more than %d mounts or podman can't mount such a name: %s; what is changed there is told at the end", mostProtected, list(over))
	}
	if err := g.holes(all); err != nil {
		return err
	}
	sortMounts(g.Protected)
	return nil
}

// mountsOf are the mounts that make something read-only wherever the agent
// sees it: a mount over itself, and one over itself, writable, for each
// directory on the way. Without these the directory could be renamed, and another
// put in its place: the kernel refuses to rename or remove a mount point alone
// (EBUSY in rename(2)), not what lies above one.
func (g *guard) mountsOf(w wanted) ([]Mount, error) {
	var list []Mount
	for _, base := range g.Mounts {
		if base.ReadOnly {
			continue
		}
		if within(base.Source, w.path) {
			g.warnOnce("the agent can change %s, which the host executes, at %s (--mount)", w.show, base.Target)
			continue
		}
		if !within(w.path, base.Source) {
			continue
		}
		mounts, err := g.mountsIn(base, w)
		if err != nil {
			return nil, err
		}
		list = append(list, mounts...)
	}
	return list, nil
}

// mountsIn are those below one mount.
func (g *guard) mountsIn(base Mount, w wanted) ([]Mount, error) {
	rel, err := filepath.Rel(base.Source, w.path)
	if err != nil {
		return nil, err
	}
	target := filepath.Join(base.Target, rel)
	if g.governs(target).Target != base.Target {
		return nil, nil // another mount lies over it
	}
	s, err := g.opening(w)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(g.Nested, func(m Mount) bool { return m.Target == target }) {
		return nil, refuse("unmount it, or leave it to the agent: --no-protect "+w.show, "%q can't be protected: it is another file system", w.show)
	}
	if err := g.nothingBelow(target, w); err != nil {
		return nil, err
	}
	list := []Mount{s.mount(target, true)}
	dir, over := filepath.Dir(w.path), filepath.Dir(target)
	for ; dir != base.Source; dir, over = filepath.Dir(dir), filepath.Dir(over) {
		if g.isTarget(over) {
			continue
		}
		if err := g.nothingBelow(over, w); err != nil {
			return nil, err
		}
		s, err := g.source(dir)
		if err != nil {
			return nil, err
		}
		list = append(list, s.mount(over, false))
	}
	if g.isTarget(target) {
		list = list[1:]
	}
	return list, nil
}

// opening says whether a source was there when the look was, and is the same.
func (g *guard) opening(w wanted) (*source, error) {
	s, err := g.source(w.path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ELOOP) {
			return nil, refuse("run aisb again when nothing is changing it", "%q has changed meanwhile", w.show)
		}
		return nil, err
	}
	if s.ino != w.item.Ino || s.dev != w.item.Dev {
		return nil, refuse("run aisb again when nothing is changing it", "%q has changed meanwhile", w.show)
	}
	return s, nil
}

// governs is the mount that shows what lies at a target.
func (g *guard) governs(target string) Mount {
	var found Mount
	for _, m := range g.Mounts {
		if within(target, m.Target) && len(m.Target) >= len(found.Target) {
			found = m
		}
	}
	return found
}

func (g *guard) isTarget(target string) bool {
	for _, list := range [][]Mount{g.Mounts, g.Nested, g.Protected} {
		if slices.ContainsFunc(list, func(m Mount) bool { return m.Target == target }) {
			return true
		}
	}
	return false
}

// nothingBelow refuses what has another file system of the host in it: that would
// come along a second time, writable, and lie over itself.
func (g *guard) nothingBelow(target string, w wanted) error {
	for _, m := range g.Nested {
		if m.Target != target && within(m.Target, target) {
			return refuse("unmount it, or leave the file to the agent: --no-protect "+w.show,
				"%q can't be protected: %q beside it or in it is another file system", w.show, m.Source)
		}
	}
	return nil
}

// holes opens what the user leaves to the agent in a directory that is protected
// as a whole.
func (g *guard) holes(list []wanted) error {
	for _, left := range g.left {
		for _, w := range list {
			if !w.dir || w.path == left || !within(left, w.path) {
				continue
			}
			s, err := g.source(left)
			if err != nil {
				return refuse("leave all of it to the agent: --no-protect "+w.show,
					"--no-protect %q: it doesn't exist, and nobody could make it in %s, which is protected", g.shown(left), w.show)
			}
			for _, m := range slices.Clone(g.Protected) {
				if m.Source != w.path || !m.ReadOnly {
					continue
				}
				rel, err := filepath.Rel(w.path, left)
				if err != nil {
					return err
				}
				g.Protected = append(g.Protected, s.mount(filepath.Join(m.Target, rel), false))
			}
		}
	}
	return nil
}

func (g *guard) warnOnce(format string, args ...any) {
	before := len(g.Warnings)
	g.warnf(format, args...)
	if slices.Contains(g.Warnings[:before], g.Warnings[before]) {
		g.Warnings = g.Warnings[:before]
	}
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
