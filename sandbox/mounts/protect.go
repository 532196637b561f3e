package mounts

import (
	"cmp"
	"path/filepath"
	"slices"
	"time"

	"github.com/aisb-dev/aisb/sandbox/protect"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// mostProtected bounds the mounts that protection adds: docs/adr/0092 has what
// each costs the start.
const mostProtected = 250

// guard makes what the host would later execute read-only inside.
type guard struct {
	*Plan
	o       Options
	h       Host
	project *source
	set     *protect.Set
	trees   []snapshot.Tree
	look    snapshot.Look
	left    []string // paths on the host that stay writable (--no-protect)

	opened map[string]*source

	// Of what git's configuration and links name.
	names    int // that may be paths
	taken    int // paths that are there
	until    time.Time
	followed map[[2]string]bool // configurations outside of the trees, by who leads there
}

// wanted is something to be protected.
type wanted struct {
	path string // on the host
	show string
	rule *protect.Rule
	item snapshot.Item
	dir  bool
}

// protectPivots adds Protected and Watch.
func (p *Plan) protectPivots(h Host, o Options, project *source) error {
	set, err := protect.Load()
	if err != nil {
		return err
	}
	g := &guard{Plan: p, o: o, h: h, project: project, set: set, opened: map[string]*source{}, followed: map[[2]string]bool{}}
	if err := g.findTrees(); err != nil {
		return err
	}
	if len(g.trees) == 0 {
		if len(o.Protect)+len(o.NoProtect) > 0 {
			return refuse("leave the flag out", "nothing that is mounted can be written to, and --protect and --no-protect change nothing then")
		}
		return nil
	}
	g.look = snapshot.Take(g.trees, g.set, snapshot.AtStart, nil)
	for _, step := range []func() error{g.userPaths, g.namedPaths, g.mountAll} {
		if err := step(); err != nil {
			return err
		}
	}
	if g.look.Cut {
		p.warnf("the project was not looked through to its end for what the host would execute: what was not found is not protected")
	}
	p.Watch = snapshot.NewWatch(g.set, g.trees, g.look)
	for _, path := range g.left {
		p.Watch.Left = append(p.Watch.Left, g.shown(path))
	}
	return nil
}

// findTrees lists what the agent can write to and the host has: the project
// first.
func (g *guard) findTrees() error {
	for _, m := range g.Mounts {
		if m.ReadOnly || g.o.Scratch != "" && within(m.Source, g.o.Scratch) {
			continue
		}
		if slices.ContainsFunc(g.trees, func(t snapshot.Tree) bool { return within(m.Source, t.Path) }) {
			continue
		}
		s, err := g.source(m.Source)
		if err != nil {
			return err
		}
		if !s.dir {
			continue
		}
		t := snapshot.Tree{File: s.file, Path: s.path, Show: s.path, From: protect.Top}
		switch {
		case s.path == g.project.path:
			t.Show = ""
		case filepath.Base(s.path) == ".git", s.path == g.gitDir:
			t.From = protect.Repository
		}
		g.trees = append(g.trees, t)
	}
	slices.SortStableFunc(g.trees, func(a, b snapshot.Tree) int { return cmp.Compare(a.Show, b.Show) })
	return nil
}

// source opens a path of the host once.
func (g *guard) source(path string) (*source, error) {
	if s := g.opened[path]; s != nil {
		return s, nil
	}
	s, err := g.openReal(path)
	if err == nil {
		g.opened[path] = s
	}
	return s, err
}

// at finds the tree of a path on the host, and the path in it.
func (g *guard) at(path string) (tree int, rel string, ok bool) {
	for i, t := range g.trees {
		if within(path, t.Path) {
			rel, err := filepath.Rel(t.Path, path)
			return i, rel, err == nil
		}
	}
	return 0, "", false
}

// shown is a path on the host as it is shown.
func (g *guard) shown(path string) string {
	if i, rel, ok := g.at(path); ok {
		return g.trees[i].Shown(rel)
	}
	return path
}

// userPaths takes what --protect and --no-protect name.
func (g *guard) userPaths() error {
	for _, name := range g.o.Protect {
		path, err := g.named("--protect", name)
		if err != nil {
			return err
		}
		i, rel, ok := g.at(path)
		if !ok || rel == "." {
			return refuse("name something in the project; --project-ro makes all of it read-only", "--protect %q is not a part of what the agent can write to", name)
		}
		kind, err := g.look.Name(g.trees, i, rel, protect.UserRule, g.set, snapshot.AtStart)
		if err != nil {
			return refuse("name what it leads to", "--protect %q: there is a symbolic link in it", name)
		}
		if kind == protect.Link {
			return refuse("name what it leads to", "--protect %q is a symbolic link", name)
		}
		if kind == protect.Other {
			return refuse("name a file or directory of the project, relative to it", "--protect %q: there is no such file or directory", name)
		}
	}
	for _, name := range g.o.NoProtect {
		path, err := g.named("--no-protect", name)
		if err != nil {
			return err
		}
		g.left = append(g.left, path)
	}
	return nil
}

// named is a path of the host that a flag names, by default from the project on.
func (g *guard) named(flag, name string) (string, error) {
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(g.project.path, path)
	}
	if path = filepath.Clean(path); name == "" || !within(path, g.project.path) && !filepath.IsAbs(name) {
		return "", refuse("name it relative to the project", "%s %q is not a path in the project", flag, name)
	}
	return path, nil
}

// isLeft reports whether the user leaves a path to the agent.
func (g *guard) isLeft(path string) bool {
	return slices.ContainsFunc(g.left, func(left string) bool { return within(path, left) })
}

// collect lists what is to be protected, and refuses what can't be: a link leads
// elsewhere, maybe to a secret that the mount would show, and a file with another
// name can be written to under that.
func (g *guard) collect() ([]wanted, error) {
	var list []wanted
	for _, shown := range sortedKeys(g.look.Entries) {
		e, item := g.look.Entries[shown], g.look.Items[shown]
		path := filepath.Join(g.trees[item.Tree].Path, item.Rel)
		if g.isLeft(path) || e.Kind == protect.Directory && (e.Rule.Holder() || e.Member) || e.Kind == protect.Link && e.Member {
			continue
		}
		hint := "remove it, or leave it to the agent: --no-protect " + shown
		switch {
		case e.Kind == protect.Link:
			return nil, refuse(hint, "%q is a symbolic link: it would be protected (%s), and aisb follows none, since an agent can have made it", shown, e.Rule.Why)
		case e.Kind == protect.Other && !e.Member:
			return nil, refuse(hint, "%q is neither a file nor a directory: it would be protected (%s)", shown, e.Rule.Why)
		case e.Kind == protect.File && item.Links > 1:
			return nil, refuse("put a copy in its place, or leave it to the agent: --no-protect "+shown,
				"%q has %d hard links: it would be protected (%s), and whoever writes to another one changes it", shown, item.Links, e.Rule.Why)
		case !e.Member:
			list = append(list, wanted{path: path, show: shown, rule: e.Rule, item: item, dir: e.Kind == protect.Directory})
		}
	}
	return outermost(list), nil
}

// outermost leaves out what lies in another: it is read-only with that.
func outermost(list []wanted) []wanted {
	dirs := map[string]bool{}
	for _, w := range list {
		dirs[w.path] = dirs[w.path] || w.dir
	}
	return slices.DeleteFunc(list, func(w wanted) bool {
		for dir := w.path; dir != "/"; {
			if dir = filepath.Dir(dir); dirs[dir] {
				return true
			}
		}
		return false
	})
}

// checkLeft refuses a --no-protect that opens nothing: the user means something
// that isn't so.
func (g *guard) checkLeft(list []wanted) error {
	for i, left := range g.left {
		covers := func(path string) bool { return within(path, left) || within(left, path) }
		found := slices.ContainsFunc(list, func(w wanted) bool { return covers(w.path) })
		for _, item := range g.look.Items {
			found = found || within(filepath.Join(g.trees[item.Tree].Path, item.Rel), left)
		}
		if rel, err := filepath.Rel(g.project.path, left); !found && err == nil {
			found = g.set.Would(rel) != nil
		}
		if !found {
			return refuse("see what is protected in docs/protect.md; the path is relative to the project",
				"--no-protect %q: nothing there is protected", g.o.NoProtect[i])
		}
	}
	return nil
}
