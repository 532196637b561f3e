package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// gitOptions are the flags of run about git.
type gitOptions struct {
	identity bool
	logins   []string // of --git-token
}

func (o *gitOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.identity, "git-identity", false, "pass your git name and mail address")
	f.StringArrayVar(&o.logins, "git-token", nil, "`HOST=NAME`: git's token for HOST is in $NAME")
}

// git adds what the flags ask for to git's configuration inside.
func (o runOptions) gitSetup(p *prepared) error {
	if o.git.identity {
		id, err := hostIdentity(context.Background(), written(p.plan.Mounts))
		if err != nil {
			return err
		}
		p.plan.GitConfig = append(p.plan.GitConfig, id.config...)
		p.plan.Env = append(p.plan.Env, id.env...)
	}
	logins, err := parseLogins(o.git.logins)
	if err != nil {
		return err
	}
	for _, l := range logins {
		p.plan.GitConfig = append(p.plan.GitConfig, l.config()...)
	}
	return nil
}

// gitReach warns of logins at hosts that no rule lets git to. The rules are known.
func (o runOptions) gitReach(p *prepared) error {
	logins, err := parseLogins(o.git.logins)
	for _, l := range logins {
		if why := l.unreached(p.spec); why != "" {
			p.warnings = append(p.warnings, why)
		}
	}
	return err
}

// variables adds the tokens to what the user has named, unless they are there
// already. An unset one is an error, as with -e.
func (o gitOptions) variables(named []environ.Var) ([]environ.Var, error) {
	logins, err := parseLogins(o.logins)
	if err != nil {
		return nil, err
	}
	for _, l := range logins {
		if slices.ContainsFunc(named, func(v environ.Var) bool { return v.Name == l.variable }) {
			continue
		}
		more, err := environ.Parse([]string{l.variable}, os.LookupEnv)
		if e, ok := errors.AsType[*environ.Error](err); ok {
			e.Where, e.Hint = "--git-token", "export it: what follows the = is the name of a variable"
		}
		if err != nil {
			return nil, envError(err)
		}
		named = append(named, more...)
	}
	return named, nil
}

// identityNotes is the line for a git project in which commits would have no
// author, as far as that can be known; nil for all others. Who knows of the flag
// needs no hint, and a hint that is wrong is worse than none.
func (o runOptions) identityNotes(p *prepared) []string {
	// mounts adds to git's configuration where it has found a repository.
	if o.git.identity || len(p.plan.GitConfig) == 0 {
		return nil
	}
	for _, v := range p.spec.Named {
		switch v.Name {
		case "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "EMAIL", "GIT_CONFIG_COUNT", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_PARAMETERS":
			return nil
		}
	}
	if homeMayKnow(p.spec.HomeVolume, os.Getenv) || repositoryMayKnow(p.plan.Mounts) {
		return nil
	}
	return []string{"git commit has no author in here: --git-identity passes your name and mail address"}
}

// homeMayKnow reports whether git could find a name in the home inside, as far as
// the default place of volumes tells.
func homeMayKnow(volume string, getenv func(string) string) bool {
	if volume == "" {
		return false
	}
	data := getenv("XDG_DATA_HOME")
	if !filepath.IsAbs(data) {
		data = filepath.Join(getenv("HOME"), ".local/share")
	}
	volumes := filepath.Join(data, "containers/storage/volumes")
	if _, err := os.Lstat(volumes); err != nil {
		return true // podman keeps them elsewhere
	}
	if _, err := os.Lstat(filepath.Join(volumes, volume)); err != nil {
		return false // this run makes it
	}
	home := filepath.Join(volumes, volume, "_data")
	if _, err := os.ReadDir(home); err != nil {
		return true
	}
	for _, name := range []string{".gitconfig", ".config/git/config"} {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			return true
		}
	}
	return false
}

// repositoryMayKnow reports whether a repository's own configuration may hold a
// name. It only looks for the sections that one can be in.
func repositoryMayKnow(all []mounts.Mount) bool {
	for _, m := range all {
		for _, name := range []string{".git/config", "config"} {
			text, err := readPlain(filepath.Join(m.Source, name), 1<<20)
			if err != nil {
				continue
			}
			for line := range strings.Lines(strings.ToLower(text)) {
				line = strings.TrimSpace(line)
				for _, section := range []string{"[user", "[author", "[committer", "[include"} {
					if strings.HasPrefix(line, section) {
						return true
					}
				}
			}
		}
	}
	return false
}
