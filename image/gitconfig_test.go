package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The git of this machine, under the image's configuration, in a clone whose
// config file can't be written (a lock file stands for the read-only mount).
func TestGitconfigAvoidsWriting(t *testing.T) {
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatal("git is needed to try the image's configuration of git")
	}
	dir := t.TempDir()
	system := filepath.Join(dir, "gitconfig")
	if err := os.WriteFile(system, gitconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "GIT_CONFIG_SYSTEM="+system, "GIT_CONFIG_GLOBAL=/dev/null", "HOME="+dir,
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	git := func(wd string, args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir, cmd.Env = wd, env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	origin, clone := filepath.Join(dir, "origin"), filepath.Join(dir, "clone")
	git(dir, "init", "-q", "-b", "main", origin)
	git(origin, "commit", "-q", "--allow-empty", "-m", "first")
	git(origin, "branch", "feature")
	git(dir, "clone", "-q", origin, clone)
	if err := os.WriteFile(filepath.Join(clone, ".git/config.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"switch", "feature"},
		{"commit", "--allow-empty", "-m", "second"},
		{"push", "origin", "feature:copy"},
		{"switch", "-c", "own", "origin/main"},
		{"commit", "--allow-empty", "-m", "third"},
		{"push"}, // to the branch of the same name
		{"gc", "--quiet"},
	} {
		if out := git(clone, args...); strings.Contains(out, "could not") || strings.Contains(out, "error") {
			t.Errorf("git %s says:\n%s", strings.Join(args, " "), out)
		}
	}
	if got := git(origin, "log", "--format=%s", "-1", "own"); got != "third\n" {
		t.Errorf("a plain push brought %q", got)
	}
	// The lock does stand in the way: what must write, fails.
	cmd := exec.Command("git", "config", "a.b", "c")
	cmd.Dir, cmd.Env = clone, env
	if cmd.Run() == nil {
		t.Error("the configuration could be written: the test shows nothing")
	}
}
