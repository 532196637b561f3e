package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// gitHost is a home with git configuration, and a repository in it to be in.
func gitHost(t *testing.T, global string) (project string) {
	t.Helper()
	home := t.TempDir()
	for name, value := range map[string]string{"HOME": home, "GIT_CONFIG_NOSYSTEM": "1"} {
		t.Setenv(name, value)
	}
	for _, name := range append([]string{"XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "EMAIL"}, identityVars...) {
		t.Setenv(name, "") // restored at the end
		os.Unsetenv(name)
	}
	project = filepath.Join(home, "work", "project")
	if err := os.MkdirAll(project, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte(global), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(project)
	gitHere(t, "init", "-q", ".")
	return project
}

func gitHere(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v: %s", args, err, out)
	}
}

func identityHere(t *testing.T) gitIdentity {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	id, err := hostIdentity(context.Background(), []mounts.Mount{{Source: dir}})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

const twoIdentities = `[user]
	name = At Home
	email = home@example.com
[includeIf "gitdir:~/work/"]
	path = work.inc
`

// The identity is the one that git has in this very directory.
func TestIdentityOfTheDirectory(t *testing.T) {
	gitHost(t, twoIdentities)
	if err := os.WriteFile(filepath.Join(os.Getenv("HOME"), "work.inc"), []byte("[user]\nemail = work@example.com\n[committer]\nname = \"At\\nWork\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	want := [][2]string{{"user.name", "At Home"}, {"user.email", "work@example.com"}, {"committer.name", "At\nWork"}}
	if id := identityHere(t); !slices.Equal(id.config, want) || id.env != nil {
		t.Errorf("got %+v", id)
	}
	// What the repository itself says git reads in the sandbox: it isn't passed, and
	// nothing hides it.
	gitHere(t, "config", "user.email", "here@example.com")
	if id := identityHere(t); !slices.Equal(id.config, [][2]string{want[0], want[2]}) {
		t.Errorf("with one of the repository's own: %+v", id)
	}
}

func TestIdentityOfTheEnvironment(t *testing.T) {
	gitHost(t, "[user]\nname = A\n")
	t.Setenv("EMAIL", "fallback@example.com")
	if id := identityHere(t); !slices.Equal(id.config, [][2]string{{"user.name", "A"}, {"user.email", "fallback@example.com"}}) {
		t.Errorf("EMAIL: %+v", id)
	}
	t.Setenv("GIT_AUTHOR_EMAIL", "author@example.com")
	if id := identityHere(t); !slices.Equal(id.env, []string{"GIT_AUTHOR_EMAIL=author@example.com"}) || len(id.config) != 1 {
		t.Errorf("GIT_AUTHOR_EMAIL: %+v", id)
	}
}

// Nothing runs that an agent has left: neither what the repository names, nor a git
// of the project's that the user's PATH leads to.
func TestIdentityRunsNothingOfTheProject(t *testing.T) {
	project := gitHost(t, twoIdentities)
	ran := filepath.Join(project, "ran")
	for _, key := range []string{"core.fsmonitor", "core.pager", "pager.config", "alias.config", "core.editor", "core.sshCommand", "credential.helper", "diff.external"} {
		gitHere(t, "config", key, "!touch "+ran)
	}
	planted := "#!/bin/sh\ntouch " + ran + "\n"
	for _, name := range []string{"git", ".git/hooks/post-index-change", ".git/hooks/fsmonitor-watchman"} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(planted), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", project+":.::"+os.Getenv("PATH"))
	if id := identityHere(t); len(id.config) != 2 {
		t.Errorf("got %+v", id)
	}
	if _, err := os.Lstat(ran); err == nil {
		t.Error("something of the project ran")
	}
	t.Setenv("PATH", project)
	if _, err := hostIdentity(context.Background(), []mounts.Mount{{Source: project}}); err == nil || !strings.Contains(err.Error(), "there is no git in PATH") {
		t.Errorf("with the planted git alone: %v", err)
	}
}

// The token reaches the command by its variable alone; git's configuration names
// the variable.
func TestGitToken(t *testing.T) {
	gitHost(t, "")
	t.Setenv("AISB_TEST_TOKEN", "secret")
	o := runOptions{git: gitOptions{logins: []string{"git.test=AISB_TEST_TOKEN", "https://other.test:8443/=AISB_TEST_TOKEN"}}}
	p := &prepared{plan: &mounts.Plan{}}
	p.spec.Net = sandbox.NetAllow
	p.spec.Gate = proc.Config{Allow: []policy.Line{{Text: "git.test", Origin: "--allow"}}}
	if err := errors.Join(o.gitSetup(p), o.gitReach(p)); err != nil {
		t.Fatal(err)
	}
	if len(p.warnings) != 1 || p.warnings[0] != "--git-token other.test:8443: no rule allows other.test:8443; to allow it: --allow other.test:8443" {
		t.Errorf("warnings: %q", p.warnings)
	}
	for _, kv := range p.plan.GitConfig {
		if strings.Contains(kv[1], "secret") {
			t.Errorf("the token is in git's configuration: %q", kv)
		}
	}
	named, err := o.git.variables(nil)
	if err != nil || len(named) != 1 || named[0].Name != "AISB_TEST_TOKEN" || string(named[0].Value) != "secret" {
		t.Errorf("variables: %+v, %v", named, err)
	}
	given := []environ.Var{{Name: "AISB_TEST_TOKEN", Value: []byte("by -e")}}
	if named, err = o.git.variables(given); err != nil || len(named) != 1 || string(named[0].Value) != "by -e" {
		t.Errorf("beside -e: %+v, %v", named, err)
	}
}

// The note comes for a git project whose commits would have no author, and for no
// other.
func TestIdentityNote(t *testing.T) {
	project := gitHost(t, "")
	volumes := filepath.Join(os.Getenv("HOME"), ".local/share/containers/storage/volumes")
	t.Setenv("XDG_DATA_HOME", "")
	repo := func(change func(*prepared, *runOptions)) bool {
		p := &prepared{plan: &mounts.Plan{GitConfig: [][2]string{{"gc.worktreePruneExpire", "never"}}, Mounts: []mounts.Mount{{Source: project}}}}
		p.spec.HomeVolume = "aisb-home"
		var o runOptions
		change(p, &o)
		return len(o.identityNotes(p)) == 1
	}
	plain := func(*prepared, *runOptions) {}
	if repo(plain) {
		t.Error("a note although volumes are elsewhere")
	}
	if err := os.MkdirAll(volumes, 0o755); err != nil {
		t.Fatal(err)
	}
	if !repo(plain) {
		t.Error("no note before the home's first use")
	}
	for name, change := range map[string]func(*prepared, *runOptions){
		"no repository": func(p *prepared, _ *runOptions) { p.plan.GitConfig = nil },
		"the flag":      func(_ *prepared, o *runOptions) { o.git.identity = true },
		"a variable":    func(p *prepared, _ *runOptions) { p.spec.Named = []environ.Var{{Name: "GIT_AUTHOR_NAME"}} },
	} {
		if repo(change) {
			t.Errorf("%s: a note", name)
		}
	}
	data := filepath.Join(volumes, "aisb-home", "_data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if !repo(plain) {
		t.Error("no note with a home that has no git configuration")
	}
	if err := os.WriteFile(filepath.Join(data, ".gitconfig"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if repo(plain) || !repo(func(p *prepared, _ *runOptions) { p.spec.HomeVolume = "" }) {
		t.Error("the home's configuration doesn't decide")
	}
	gitHere(t, "config", "user.name", "A")
	if repo(func(p *prepared, _ *runOptions) { p.spec.HomeVolume = "" }) {
		t.Error("a note although the repository names its author")
	}
}
