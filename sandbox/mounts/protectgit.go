package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/sandbox/protect"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// Bounds of what git's configuration and links may name, since an agent can have written
// any number: of a chain of includes and links (git itself follows ten,
// MAX_INCLUDE_DEPTH in config.c), of names that may be paths, each of which is looked for
// at the next start, and of paths that are there.
const (
	mostRounds = 10
	mostNames  = 50_000
	mostTaken  = 1000
)

// namedPaths protects what git's configuration names and what links in protected
// directories lead to, as far as it lies where the agent can write. Each may name
// more.
func (g *guard) namedPaths() error {
	g.until = time.Now().Add(snapshot.AtStart.Time)
	done := map[string]bool{}
	if err := g.globalConfig(); err != nil {
		return err
	}
	for range mostRounds {
		found := false
		for _, shown := range sortedKeys(g.look.Entries) {
			if done[shown] {
				continue
			}
			done[shown], found = true, true
			if err := g.namedBy(shown); err != nil {
				return err
			}
		}
		if !found {
			return nil
		}
	}
	return refuse("make them fewer, or --no-protect the first", "links or includes of git's configuration name one another more than %d times", mostRounds)
}

func (g *guard) namedBy(shown string) error {
	e, item := g.look.Entries[shown], g.look.Items[shown]
	path := filepath.Join(g.trees[item.Tree].Path, item.Rel)
	if g.isLeft(path) {
		return nil
	}
	if e.Kind == protect.Link && e.Member {
		// The host executes what it leads to.
		return g.take(shown, "leads to", from(filepath.Dir(path), e.Sum), protect.LinkedRule)
	}
	if e.Rule.GitConfig {
		return g.config(shown, filepath.Dir(path), g.workTrees(filepath.Dir(path), e.Settings), e.Settings)
	}
	return nil
}

// workTrees are the directories in which git may be when it uses a configuration:
// git takes relative paths from the top of the work tree (git-config(1),
// core.hooksPath). All of them are tried, since too much protected is no harm.
func (g *guard) workTrees(gitDir string, settings []protect.Setting) []string {
	tops := []string{g.project.path}
	if g.workTree != "" {
		tops = append(tops, g.workTree)
	}
	if filepath.Base(gitDir) == ".git" {
		tops = append(tops, filepath.Dir(gitDir))
	}
	for _, s := range settings {
		if s.Key() == "core.worktree" {
			tops = append(tops, from(gitDir, s.Value))
		}
	}
	return tops
}

// config protects what a configuration in dir names.
func (g *guard) config(shown, dir string, tops []string, settings []protect.Setting) error {
	names := protect.NamedPaths(settings, g.h.Home)
	looks := len(names)
	if _, inside := g.look.Entries[shown]; inside {
		looks *= len(tops)
	}
	if g.names += looks; g.names > mostNames {
		return refuse("look at it, then remove it, or leave it to the agent: --no-protect "+shown,
			"%q and others before it name more than %d files, which would be looked for and protected", shown, mostNames)
	}
	for _, n := range names {
		if n.Include {
			path := from(dir, n.Path)
			err := g.outside(shown, path, tops)
			if err == nil {
				err = g.name(shown, path, n, protect.IncludedRule)
			}
			if err != nil {
				return err
			}
			continue
		}
		rule := protect.NamedRule
		if !n.Dir {
			rule = protect.CommandRule
		}
		for _, top := range tops {
			if err := g.name(shown, from(top, n.Path), n, rule); err != nil {
				return err
			}
		}
	}
	return nil
}

// name protects a path that a setting names.
func (g *guard) name(by, path string, n protect.Named, rule *protect.Rule) error {
	if rule != protect.CommandRule {
		return g.take(by, "names", path, rule)
	}
	// A word of a command, which may be anything: only what is a file counts, or could
	// become one that is told of.
	i, rel, ok := g.at(path)
	if !ok {
		return nil
	}
	switch info, err := os.Lstat(path); {
	case err == nil && !info.IsDir():
		return g.take(by, "names", path, rule)
	case errors.Is(err, os.ErrNotExist) && strings.Contains(n.Path, "/"):
		_, _ = g.look.Name(g.trees, i, rel, rule, g.set, snapshot.AtStart) // nothing is there, whatever leads to it
	}
	return nil
}

// take protects a path that something names, or leads to. One that is left to the agent
// is looked at all the same: what it changes is told.
func (g *guard) take(by, how, path string, rule *protect.Rule) error {
	i, rel, ok := g.at(path)
	if !ok || g.covered(path) {
		return nil
	}
	if g.taken++; g.taken > mostTaken {
		return refuse("look at it, or leave it to the agent: --no-protect "+by, "%q %s %q, and it and others more than %d that would be protected", by, how, g.shown(path), mostTaken)
	}
	if g.holds(by, path) {
		return nil
	}
	limits := snapshot.AtStart
	limits.Time = time.Until(g.until) // for all of them
	if _, err := g.look.Name(g.trees, i, rel, rule, g.set, limits); err != nil && !g.isLeft(path) {
		return refuse("let it be what the link leads to, or leave it to the agent: --no-protect "+by,
			"%q %s %q, which would be protected, and there is a symbolic link in that", by, how, g.shown(path))
	}
	return nil
}

// covered reports whether a path is protected as it is.
func (g *guard) covered(path string) bool {
	e, ok := g.look.Entries[g.shown(path)]
	return ok && (e.Kind != protect.Directory || !e.Rule.Holder())
}

// holds reports whether a path is a directory in which repositories or other
// protected things lie, such as the whole project: read-only, it would stop all work.
func (g *guard) holds(by, path string) bool {
	if info, err := os.Lstat(path); err != nil || !info.IsDir() {
		return false
	}
	for shown, item := range g.look.Items {
		inner := filepath.Join(g.trees[item.Tree].Path, item.Rel)
		if path == g.trees[item.Tree].Path || inner != path && within(inner, path) && g.look.Entries[shown].Rule.Holder() {
			g.warnOnce("%s names %s, which stays writable: a repository lies in it", by, g.shown(path))
			return true
		}
	}
	return false
}

// globalConfig looks at the user's own configuration of git: a relative path in
// it is one of each repository.
func (g *guard) globalConfig() error {
	files := []string{filepath.Join(g.h.Home, ".gitconfig")}
	if g.h.ConfigHome != "" {
		files = append(files, filepath.Join(g.h.ConfigHome, "git/config"))
	}
	tops := g.workTrees("", nil)
	for shown, item := range g.look.Items {
		if path := filepath.Join(g.trees[item.Tree].Path, item.Rel); g.look.Entries[shown].Rule.Holder() && filepath.Base(path) == ".git" {
			tops = append(tops, filepath.Dir(path))
		}
	}
	for _, name := range files {
		if err := g.outside(name, name, tops); err != nil {
			return err
		}
	}
	return nil
}

// outside looks at a configuration that lies where the agent can't write, if there is one:
// what it names may lie where it can. Links to it are the user's own.
func (g *guard) outside(by, path string, tops []string) error {
	key := [2]string{by, path}
	if _, _, inside := g.at(path); inside || g.followed[key] {
		return nil
	}
	g.followed[key] = true
	real, _, err := follow(path)
	if err != nil {
		return nil //nolint:nilerr // git reads none either
	}
	text, err := readSmall(filepath.Dir(real), filepath.Base(real), 1<<20)
	if err != nil {
		return nil //nolint:nilerr // the same
	}
	settings, _ := protect.ParseGitConfig(string(text)) // git refuses one with a line that can't be read
	return g.config(by, filepath.Dir(path), tops, settings)
}

// from is a path, seen from a directory.
func from(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
