package mounts

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/need"
)

// mountNamespaces needs unshare(1) to make one.
func mountNamespaces(t *testing.T) {
	t.Helper()
	cmd := unshare("true")
	if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
		need.Missing(t, "userns", fmt.Errorf("%q: %w: %s", cmd, err, out))
	}
}

// uid the commands run as when the tests are root's: another than that of the
// directories on the way to mount points, as in a container.
const otherUID = 12345

// container runs a script in a root file system that holds the system's
// programs and p's mounts, as a container engine would set it up.
func container(t *testing.T, p *Plan, script string) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("set -eu\nroot=$1; mount -t tmpfs none $root; chmod 755 $root\n")
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/sbin", "/etc", "/dev"} {
		fmt.Fprintf(&b, "if [ -e %[1]s ]; then mkdir -p $root%[1]s; mount --rbind %[1]s $root%[1]s; fi\n", dir)
	}
	b.WriteString("mkdir -m 1777 $root/tmp; umask 022\n")
	for _, m := range slices.Concat(p.Mounts, p.Protected) {
		fmt.Fprintf(&b, "if [ -d %[1]s ]; then mkdir -p $root%[2]s; else mkdir -p $root%[3]s; [ -e $root%[2]s ] || : >$root%[2]s; fi\nmount --rbind %[1]s $root%[2]s\n",
			sh(m.Source), sh(m.Target), sh(filepath.Dir(m.Target)))
		if m.ReadOnly {
			fmt.Fprintf(&b, "mount -o remount,bind,ro $root%s\n", sh(m.Target))
		}
	}
	b.WriteString("mount -o remount,bind,ro $root\nexec chroot ")
	if os.Getuid() == 0 {
		fmt.Fprintf(&b, "--userspec=%d:%d --groups=%d ", otherUID, otherUID, otherUID)
	}
	b.WriteString("$root /usr/bin/env -i PATH=/usr/bin:/bin HOME=/tmp GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 " +
		"GIT_AUTHOR_NAME=b GIT_AUTHOR_EMAIL=b@example.com GIT_COMMITTER_NAME=b GIT_COMMITTER_EMAIL=b@example.com ")
	for _, v := range p.Env {
		b.WriteString(sh(v) + " ")
	}
	fmt.Fprintf(&b, "GIT_CONFIG_COUNT=%d ", len(p.GitConfig))
	for i, kv := range p.GitConfig {
		fmt.Fprintf(&b, "GIT_CONFIG_KEY_%d=%s GIT_CONFIG_VALUE_%d=%s ", i, sh(kv[0]), i, sh(kv[1]))
	}
	command := append(slices.Clone(p.Prelude), "/bin/sh", "-euc", "cd "+sh(p.Workdir)+"\n"+script)
	for _, arg := range command {
		b.WriteString(sh(arg) + " ")
	}
	call := unshare("/bin/sh", "-c", b.String(), "sh", t.TempDir())
	out, err := exec.Command(call[0], call[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return strings.TrimSpace(string(out))
}

func sh(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// give makes everything in dir the uid's that container runs commands as.
func give(t *testing.T, h *Host, dirs ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		return
	}
	h.UID = otherUID
	for _, dir := range dirs {
		if out, err := exec.Command("chown", "-R", fmt.Sprint(otherUID), dir).CombinedOutput(); err != nil {
			t.Fatalf("chown: %v\n%s", err, out)
		}
	}
	// Temporary directories of tests are 0700 (testing.T.TempDir): let the uid through.
	for dir := h.Home; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// asOwner runs git on the host in spite of another owner.
func asOwner(t *testing.T, dir string, args ...string) string {
	t.Helper()
	return git(t, dir, append([]string{"-c", "safe.directory=*", "-c", "core.fileMode=true"}, args...)...)
}

// The point of addGit: git works in the sandbox, commits land in the user's
// repository, and nothing but the change is in them.
func TestGitWorksInside(t *testing.T) {
	mountNamespaces(t)
	h := testHost(t)
	w := h.Home + "/code"
	newRepo(t, w+"/repo")
	git(t, w+"/repo", "worktree", "add", "-q", w+"/tree")
	git(t, w+"/repo", "worktree", "add", "-q", w+"/rel")
	write(t, w+"/rel/.git", "gitdir: ../repo/.git/worktrees/rel\n")
	newRepo(t, w+"/super")
	git(t, w+"/super", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "file://"+w+"/repo", "vendor/sub") // no hard links
	// Old enough for git gc to forget a work tree that it doesn't see.
	old := time.Now().AddDate(-1, 0, 0)
	for _, name := range []string{"index", "gitdir", "HEAD", "."} {
		if err := os.Chtimes(w+"/repo/.git/worktrees/tree/"+name, old, old); err != nil {
			t.Fatal(err)
		}
	}
	give(t, &h, h.Home)
	for _, row := range []struct{ name, dir, path string }{
		{"top", "/repo", "made"},
		{"linked work tree", "/tree", "made"},
		{"subdirectory", "/repo/a/b", "a/b/made"},
		{"odd subdirectory", "/repo/odd [name]*", "odd [name]*/made"},
		{"subdirectory of a linked work tree", "/tree/a", "a/made"},
		{"relative link", "/rel", "made"},
		{"submodule", "/super/vendor/sub", "made"},
	} {
		t.Run(row.name, func(t *testing.T) {
			scratch := h.Home + "/" + strings.ReplaceAll(row.name, " ", "-")
			mkdir(t, scratch)
			dir := w + row.dir

			p := plan(t, h, Options{Dir: dir, Scratch: scratch})
			give(t, &h, scratch)
			out := container(t, p, `git status --porcelain
				echo new >made
				git add -A
				git commit -q -a -m `+sh(row.name)+`
				git gc -q --prune=now
				git status --porcelain
				git show --format=%s --name-status -z HEAD | tr '\000' '|'`)
			if want := row.name + "||A|" + row.path + "|"; strings.ReplaceAll(out, "\n", "|") != want {
				t.Errorf("inside: %q, want %q", out, want)
			}
			if got := asOwner(t, dir, "log", "-1", "--format=%s"); got != row.name {
				t.Errorf("the host's last commit is %q", got)
			}
			if got := asOwner(t, dir, "status", "--porcelain"); got != "" {
				t.Errorf("the host's status: %q", got)
			}
			if got := asOwner(t, w+"/repo", "worktree", "list", "--porcelain"); !strings.Contains(got, w+"/tree") {
				t.Errorf("work trees: %s", got)
			}
		})
	}
}

// The user's own uncommitted work around a subdirectory is neither seen nor
// committed nor lost.
func TestWorkAroundSubdirectory(t *testing.T) {
	mountNamespaces(t)
	h := testHost(t)
	repo := h.Home + "/code/repo"
	newRepo(t, repo)
	write(t, repo+"/secret", "untracked")
	write(t, repo+"/top", "changed on the host\n")
	if err := errors.Join(os.Remove(repo+"/a/one"), os.Remove(repo+"/other/three")); err != nil {
		t.Fatal(err)
	}
	mkdir(t, h.Home+"/scratch")
	give(t, &h, h.Home)
	p := plan(t, h, Options{Dir: repo + "/a", Scratch: h.Home + "/scratch"})
	give(t, &h, h.Home+"/scratch")
	out := container(t, p, `git status --porcelain; ls -A ..; cat ../top; readlink ../other/link; cat ../other/three
		echo new >made; git add made; git commit -q -m inside`)
	if want := " D a/one|.git|a|odd [name]*|other|top|top|../top|other/three"; strings.ReplaceAll(out, "\n", "|") != strings.TrimSpace(want) {
		t.Errorf("inside: %q", out)
	}
	got := asOwner(t, repo, "status", "--porcelain")
	if want := "D a/one| D other/three| M top|?? secret"; strings.ReplaceAll(got, "\n", "|") != want {
		t.Errorf("on the host: %q, want %q", got, want)
	}
	if b, err := os.ReadFile(repo + "/top"); err != nil || string(b) != "changed on the host\n" {
		t.Errorf("the host's file: %q, %v", b, err)
	}
}

// unshare is a call in a new mount namespace.
func unshare(command ...string) []string {
	args := []string{"unshare", "-m"}
	if os.Getuid() != 0 {
		args = []string{"unshare", "-U", "-r", "-m"}
	}
	return append(args, command...)
}

// Where the rest of the work tree can't be filled git reads and can't commit.
func TestGitReadsInside(t *testing.T) {
	mountNamespaces(t)
	h := testHost(t)
	newRepo(t, h.Home+"/code/repo")
	give(t, &h, h.Home)
	p := plan(t, h, Options{Dir: h.Home + "/code/repo/a"})
	out := container(t, p, `git log --format=%s; git diff HEAD --stat -- .; echo x >>one; git commit -qam x 2>&1 && echo committed || true; cat b/two`)
	if !strings.HasPrefix(out, "first\n") || strings.Contains(out, "committed") || !strings.Contains(out, "Read-only file system") || !strings.HasSuffix(out, "a/b/two") {
		t.Errorf("inside: %s", out)
	}
}

// A bind mount of a refused directory is the same directory.
func TestBindMountOfHome(t *testing.T) {
	mountNamespaces(t)
	if os.Getenv("AISB_TEST_INSIDE") == "" {
		call := unshare("env", "AISB_TEST_INSIDE=1", os.Args[0], "-test.run=^TestBindMountOfHome$", "-test.v")
		out, err := exec.Command(call[0], call[1:]...).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	h := testHost(t)
	base := filepath.Dir(h.Home)
	mkdir(t, base+"/view", base+"/keys", h.Home+"/.ssh", h.Home+"/code/project/data")
	mount := func(from, to string) {
		if out, err := exec.Command("mount", "--bind", from, to).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		t.Cleanup(func() { exec.Command("umount", to).Run() })
	}
	mount(h.Home, base+"/view")
	mount(h.Home+"/.ssh", base+"/keys")
	wantRefusal(t, h, Options{Dir: base + "/view"}, "home directory", "")
	wantRefusal(t, h, Options{Dir: base + "/keys"}, "ssh keys", "")
	wantRefusal(t, h, Options{Dir: base + "/view/.ssh"}, "ssh keys", "")

	// Another file system in the project comes along, and is named.
	mount(base+"/keys", h.Home+"/code/project/data")
	p := plan(t, h, Options{Dir: h.Home + "/code/project"})
	if len(p.Nested) != 1 || p.Nested[0].Target != Project+"/data" || len(p.Warnings) != 1 {
		t.Errorf("nested %+v, warnings %q", p.Nested, p.Warnings)
	}
	wantRefusal(t, h, Options{Dir: h.Home + "/code/project", ReadOnly: true}, "read-only", "unmount")
}
