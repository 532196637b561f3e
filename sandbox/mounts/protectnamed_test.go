package mounts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// What an agent has left can neither hold up the next start nor go by unseen.
func TestNamesWithoutNumber(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	var links strings.Builder
	for i := range mostTaken + 1 {
		name := fmt.Sprintf("f/%x", i)
		write(t, dir+"/"+name, "")
		fmt.Fprintf(&links, "\tpager.%x = %s\n", i, name)
	}
	for _, row := range []struct{ config, reason string }{
		{"[core]\n" + strings.Repeat("\tworktree = /x\n", mostNames) + "\tpager = a b\n", "name more than"},
		{"[alias]\n\tx = !" + strings.Join(strings.Fields(links.String()), " ") + "\n", "more than 1000 that would be protected"},
	} {
		write(t, dir+"/sub/.git/config", row.config)
		began := time.Now()
		wantRefusal(t, h, Options{Dir: dir}, row.reason, "--no-protect sub/.git/config")
		if took := time.Since(began); took > 30*time.Second { // minutes without a bound
			t.Errorf("%s: %v", row.reason, took)
		}
		plan(t, h, Options{Dir: dir, NoProtect: []string{"sub/.git/config"}})
	}
}

// Configurations of the user's own that others include are read, wherever they lie.
func TestIncludesOutside(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	newRepo(t, dir)
	write(t, h.Home+"/dotfiles/gitconfig", "[include]\n\tpath = more/hooks.inc\n")
	symlink(t, "dotfiles/gitconfig", h.Home+"/.gitconfig")
	write(t, h.Home+"/more/hooks.inc", "[core]\n\thooksPath = .githooks\n[include]\n\tpath = hooks.inc\n")
	write(t, dir+"/.githooks/pre-commit", "")
	write(t, h.Home+"/own.inc", "[core]\n\tsshCommand = tools/ssh\n")
	write(t, dir+"/tools/ssh", "")
	git(t, dir, "config", "include.path", "~/own.inc")
	p := plan(t, h, Options{Dir: dir})
	for _, want := range []string{"ro /project/.githooks", "ro /project/tools/ssh"} {
		if !slices.Contains(protected(p), want) {
			t.Errorf("no %q in %q", want, protected(p))
		}
	}
}
