package doctor

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func git(t *testing.T, dir string, args ...string) {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// repo makes a repository with a commit, and HOME empty.
func repo(t *testing.T, init ...string) string {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", "")
	dir := t.TempDir()
	git(t, dir, append([]string{"init", "-q", "-b", "main"}, init...)...)
	write(t, dir+"/a", "a\n")
	write(t, dir+"/sub/b", "b\n")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "first")
	return dir
}

func wantGit(t *testing.T, what, dir, root string, changed, created int) {
	t.Helper()
	got := gitState(t.Context(), dir)
	if got != (Git{Root: root, Changed: changed, New: created}) {
		t.Errorf("%s: %+v, want %d changed, %d new in %s", what, got, changed, created, root)
	}
}

func TestGitState(t *testing.T) {
	for _, format := range [][]string{nil, {"--object-format=sha256"}} {
		dir := repo(t, format...)
		wantGit(t, "clean", dir, dir, 0, 0)
		wantGit(t, "from below", dir+"/sub", dir, 0, 0)
		git(t, dir, "pack-refs", "--all")
		git(t, dir, "gc", "-q")
		wantGit(t, "packed", dir, dir, 0, 0)
		write(t, dir+"/.gitignore", "ignored\n")
		write(t, dir+"/.git/info/exclude", "excluded\n")
		write(t, dir+"/ignored", "x")
		write(t, dir+"/excluded", "x")
		wantGit(t, "new", dir, dir, 0, 1)
		git(t, dir, "add", ".gitignore")
		wantGit(t, "staged", dir, dir, 1, 0)
		write(t, dir+"/a", "b\n")
		if err := os.Remove(dir + "/sub/b"); err != nil {
			t.Fatal(err)
		}
		wantGit(t, "changed and removed", dir, dir, 3, 0)
		git(t, dir, "add", "--all")
		git(t, dir, "commit", "-q", "-m", "second")
		git(t, dir, "checkout", "-q", "--detach")
		wantGit(t, "detached", dir, dir, 0, 0)

		tree := filepath.Join(t.TempDir(), "tree")
		git(t, dir, "worktree", "add", "-q", "-b", "other", tree)
		write(t, tree+"/new", "x")
		wantGit(t, "worktree", tree, tree, 0, 1)
	}
}

func TestGitStateOfFewThings(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	if got := gitState(t.Context(), t.TempDir()); got != (Git{}) {
		t.Errorf("no repository: %+v", got)
	}
	if got := gitState(t.Context(), ""); got != (Git{}) {
		t.Errorf("no directory: %+v", got)
	}
	dir := t.TempDir()
	git(t, dir, "init", "-q")
	write(t, dir+"/a", "a")
	wantGit(t, "before the first commit", dir, dir, 0, 1)
	git(t, dir, "add", ".")
	wantGit(t, "added before the first commit", dir, dir, 1, 0)
}

// TestGitStateRunsNothing: an agent may have written the repository, and doctor
// runs on the host.
func TestGitStateRunsNothing(t *testing.T) {
	dir := repo(t)
	ran := filepath.Join(t.TempDir(), "ran")
	plant := "#!/bin/sh\ntouch '" + ran + "'\ncat\n"
	program := filepath.Join(dir, "planted")
	write(t, program, plant)
	hooks := filepath.Join(dir, ".git/hooks")
	for _, path := range []string{program, hooks + "/post-index-change", hooks + "/fsmonitor-watchman", hooks + "/reference-transaction", hooks + "/pre-auto-gc"} {
		write(t, path, plant)
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, dir+"/.gitattributes", "* filter=x diff=x\n")
	for _, kv := range [][2]string{
		{"core.fsmonitor", program}, {"core.hooksPath", hooks}, {"filter.x.clean", program}, {"filter.x.process", program},
		{"filter.x.smudge", program}, {"filter.x.required", "true"}, {"diff.x.textconv", program}, {"diff.x.command", program},
		{"core.pager", program}, {"alias.status", "!" + program}, {"core.sshCommand", program},
		{"core.worktree", "/"}, {"include.path", "/etc/passwd"},
	} {
		cmd := exec.Command("git", "config", "--file", dir+"/.git/config", kv[0], kv[1])
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	write(t, dir+"/a", "changed\n")
	// an embedded repository with a configuration of its own
	nested := filepath.Join(dir, "nested")
	git(t, dir, "init", "-q", nested)
	git(t, nested, "commit", "-q", "--allow-empty", "-m", "x")
	git(t, nested, "config", "core.fsmonitor", program)
	t.Setenv("GIT_DIR", "/nowhere")
	wantGit(t, "hostile", dir, dir, 1, 3)
	if _, err := os.Lstat(ran); err == nil {
		t.Error("a planted program ran")
	}
	// The plant works, or the above shows nothing.
	os.Unsetenv("GIT_DIR")
	for _, key := range []string{"include.path", "core.worktree"} {
		git(t, t.TempDir(), "config", "--file", dir+"/.git/config", "--unset", key)
	}
	cmd := exec.Command("git", "-C", dir, "status", "--porcelain")
	if out, _ := cmd.CombinedOutput(); len(out) == 0 {
		t.Error("git status says nothing")
	}
	if _, err := os.Lstat(ran); err != nil {
		t.Error("a plain git status runs nothing either")
	}
}

// TestGitStateEnds: files that can't be read to their end.
func TestGitStateEnds(t *testing.T) {
	for _, name := range []string{"HEAD", "index", "commondir"} {
		dir := repo(t)
		path := filepath.Join(dir, ".git", name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mkfifo(path, 0o644); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		got := gitState(t.Context(), dir)
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		if name == "HEAD" && !strings.Contains(got.Err, "no plain file") || name == "index" && got.Err == "" {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
