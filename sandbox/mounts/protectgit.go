package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/protect"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// mostRounds bounds how long a chain of includes and links is followed; git
// itself follows ten includes (config.c, MAX_INCLUDE_DEPTH).
const mostRounds = 10

// mostNames bounds what configurations may name in all: an agent can write one, and
// aisb would look for each at the next start.
const mostNames = 10_000

// namedPaths protects what git's configuration names and what links in protected
// directories lead to, as far as it lies where the agent can write. Each may name
// more.
func (g *guard) namedPaths() error {
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
		return g.linked(shown, path, e.Sum)
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
	if g.names += len(names); g.names > mostNames {
		return refuse("look at it, then remove it, or leave it to the agent: --no-protect "+shown,
			"%q and others before it name more than %d files, which would be looked for and protected", shown, mostNames)
	}
	for _, n := range names {
		if n.Include {
			if err := g.name(shown, from(dir, n.Path), n, protect.IncludedRule); err != nil {
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

// name protects a path that something names. One that is left to the agent is looked at
// all the same: what it changes is told.
func (g *guard) name(by, path string, n protect.Named, rule *protect.Rule) error {
	i, rel, ok := g.at(path)
	if !ok || g.covered(path) || g.holds(by, path) {
		return nil
	}
	missing := false
	if rule == protect.CommandRule {
		// A word of a command, which may be anything: only what is a file counts, or could
		// become one that is told of.
		info, err := os.Lstat(path)
		if err == nil && info.IsDir() || err != nil && (!errors.Is(err, os.ErrNotExist) || !strings.Contains(n.Path, "/")) {
			return nil
		}
		missing = err != nil
	}
	if _, err := g.look.Name(g.trees, i, rel, rule, g.set, snapshot.AtStart); err != nil && !missing && !g.isLeft(path) {
		return refuse("let it name what the link leads to, or leave it to the agent: --no-protect "+by,
			"%q names %q, which would be protected, and there is a symbolic link in that", by, g.shown(path))
	}
	return nil
}

// linked protects what a link in a protected directory leads to: the host
// executes that.
func (g *guard) linked(by, link, target string) error {
	path := from(filepath.Dir(link), target)
	i, rel, ok := g.at(path)
	if !ok || g.covered(path) || g.holds(by, path) {
		return nil
	}
	_, err := g.look.Name(g.trees, i, rel, protect.LinkedRule, g.set, snapshot.AtStart)
	if err != nil && !g.isLeft(path) {
		return refuse("let it lead there directly, or leave it to the agent: --no-protect "+by,
			"%q leads to %q, which would be protected, and there is a symbolic link in that", by, g.shown(path))
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
		text, err := readSmall(filepath.Dir(name), filepath.Base(name), 1<<20)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			// A link into a directory of dotfiles: the user's own, outside of any project.
			if text, err = os.ReadFile(name); err != nil {
				continue
			}
		}
		settings, _ := protect.ParseGitConfig(string(text)) // git refuses the rest, too
		if err := g.config(name, filepath.Dir(name), tops, settings); err != nil {
			return err
		}
	}
	return nil
}

// from is a path, seen from a directory.
func from(dir, path string) string {
	if strings.HasPrefix(path, "/") {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}
