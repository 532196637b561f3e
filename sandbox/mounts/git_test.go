package mounts

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// git runs the real git without anyone's configuration.
func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// newRepo makes a repository with one commit of some files.
func newRepo(t *testing.T, dir string) {
	t.Helper()
	git(t, filepath.Dir(dir), "init", "-q", "-b", "main", dir)
	for _, name := range []string{"top", "a/one", "a/b/two", "other/three", "odd [name]*/four"} {
		write(t, filepath.Join(dir, name), name+"\n")
	}
	symlink(t, "../top", dir+"/other/link")
	git(t, dir, "add", ".")
	git(t, dir, "commit", "-q", "-m", "first")
}

func targets(p *Plan) []string {
	var ts []string
	for _, m := range p.Mounts {
		s := m.Target
		if m.Source != m.Target {
			s = m.Source + "=" + s
		}
		if m.ReadOnly {
			s += ":ro"
		}
		ts = append(ts, s)
	}
	return ts
}

// wantMounts compares the mounts, with HOME for the host's home.
func wantMounts(t *testing.T, h Host, p *Plan, want ...string) {
	t.Helper()
	for i := range want {
		want[i] = strings.ReplaceAll(want[i], "HOME", h.Home)
	}
	slices.Sort(want)
	got := targets(p)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("mounts:\ngot  %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func TestGitLayouts(t *testing.T) {
	h := testHost(t)
	w := h.Home + "/code"
	newRepo(t, w+"/repo")
	git(t, w+"/repo", "worktree", "add", "-q", w+"/tree")
	git(t, w+"/repo", "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "file://"+w+"/repo", "vendor/sub") // no hard links
	git(t, w, "clone", "-q", "--bare", "--no-hardlinks", w+"/repo", w+"/bare.git")
	git(t, w+"/bare.git", "worktree", "add", "-q", "-b", "x", w+"/fromBare")
	scratch := h.Home + "/scratch"

	for _, row := range []struct {
		name, dir string
		want      []string
		workdir   string
		prelude   bool
	}{
		{"top", "/repo", []string{"HOME/code/repo=/project"}, "/project", false},
		{"linked work tree", "/tree", []string{"HOME/code/tree=/project", "HOME/code/repo/.git"}, "/project", false},
		{"work tree of a bare repository", "/fromBare", []string{"HOME/code/fromBare=/project", "HOME/code/bare.git"}, "/project", false},
		{"subdirectory", "/repo/a/b", []string{
			"HOME/code/repo/a/b=/project", "HOME/code/repo/a/b", "HOME/code/repo/.git", "HOME/scratch/worktree=HOME/code/repo",
		}, w + "/repo/a/b", true},
		{"subdirectory of a linked work tree", "/tree/a", []string{
			"HOME/code/tree/a=/project", "HOME/code/tree/a", "HOME/code/repo/.git", "HOME/code/tree/.git:ro", "HOME/scratch/worktree=HOME/code/tree",
		}, w + "/tree/a", true},
		{"submodule", "/repo/vendor/sub", []string{
			"HOME/code/repo/vendor/sub=/project", "HOME/code/repo/vendor/sub", "HOME/code/repo/.git/modules/vendor/sub",
		}, w + "/repo/vendor/sub", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			mkdir(t, scratch)
			t.Cleanup(func() { os.RemoveAll(scratch) })
			p := plan(t, h, Options{Dir: w + row.dir, Scratch: scratch})
			wantMounts(t, h, p, row.want...)
			if p.Workdir != row.workdir || (p.Prelude != nil) != row.prelude || len(p.Warnings) > 0 {
				t.Errorf("workdir %q, prelude %q, warnings %q", p.Workdir, p.Prelude, p.Warnings)
			}
			if !slices.Contains(p.GitConfig, [2]string{"gc.worktreePruneExpire", "never"}) {
				t.Errorf("git configuration %q lets git gc forget work trees", p.GitConfig)
			}
			if p.Projects[0] != Project || len(p.Projects) > 1 && p.Projects[1] != w+row.dir {
				t.Errorf("projects %q", p.Projects)
			}
		})
	}
}

func TestGitReadOnlyOrLeftOut(t *testing.T) {
	h := testHost(t)
	repo := h.Home + "/code/repo"
	newRepo(t, repo)
	p := plan(t, h, Options{Dir: repo + "/a"}) // no scratch directory
	wantMounts(t, h, p, "HOME/code/repo/a=/project", "HOME/code/repo/a", "HOME/code/repo/.git:ro")
	if !strings.Contains(strings.Join(p.Notes, "\n"), "-w a") || !slices.Contains(p.GitConfig, [2]string{"safe.directory", repo}) {
		t.Errorf("notes %q, git configuration %q", p.Notes, p.GitConfig)
	}

	mkdir(t, h.Home+"/scratch")
	p = plan(t, h, Options{Dir: repo + "/a", Scratch: h.Home + "/scratch", ReadOnly: true})
	wantMounts(t, h, p, "HOME/code/repo/a=/project:ro", "HOME/code/repo/a:ro", "HOME/code/repo/.git:ro")

	p = plan(t, h, Options{Dir: repo + "/a", Scratch: h.Home + "/scratch", NoGit: true})
	wantMounts(t, h, p, "HOME/code/repo/a=/project")

	// The head of an index that says that it has a million entries.
	write(t, repo+"/.git/index", "DIRC\x00\x00\x00\x02\x00\x0f\x42\x40")
	p = plan(t, h, Options{Dir: repo + "/a", Scratch: h.Home + "/scratch"})
	if p.Prelude != nil || !strings.Contains(strings.Join(p.Notes, "\n"), "1000000 files") {
		t.Errorf("a huge work tree is filled: notes %q", p.Notes)
	}
}

// What an agent could have written into its project never makes aisb mount
// another directory.
func TestForgedGitLinks(t *testing.T) {
	h := testHost(t)
	w := h.Home + "/code"
	newRepo(t, w+"/victim")
	git(t, w+"/victim", "worktree", "add", "-q", w+"/theirs")
	newRepo(t, w+"/separate")
	git(t, w+"/separate", "init", "-q", "--separate-git-dir", w+"/apart")
	mkdir(t, h.Home+"/.ssh", w+"/plain/objects", w+"/plain/refs")
	write(t, w+"/plain/HEAD", "ref: refs/heads/main\n")
	evil := w + "/evil"

	// fake is a git directory in the project that names a common directory.
	fake := func(common string) func(t *testing.T) {
		return func(t *testing.T) {
			write(t, evil+"/.git", "gitdir: "+evil+"/fake\n")
			write(t, evil+"/fake/commondir", common+"\n")
			write(t, evil+"/fake/gitdir", evil+"/.git\n")
			write(t, evil+"/fake/HEAD", "ref: refs/heads/main\n")
		}
	}
	link := func(to string) func(t *testing.T) {
		return func(t *testing.T) { write(t, evil+"/.git", "gitdir: "+to+"\n") }
	}
	for _, row := range []struct {
		name string
		make func(t *testing.T)
		why  string
	}{
		{"a repository", link(w + "/victim/.git"), "nothing in"},
		{"by a relative path", link("../victim/.git"), "nothing in"},
		{"a work tree of another", link(w + "/victim/.git/worktrees/theirs"), "belongs to"},
		{"a directory of keys", link(h.Home + "/.ssh"), "ssh keys"},
		{"the home directory", link(h.Home), "home directory"},
		{"any directory", link(w), "not a git directory"},
		{"what looks like one", link(w + "/plain"), "config"},
		{"a missing one", link(w + "/missing"), "no such file"},
		{"the system", link("/etc"), "host's system"},
		{"a forged work tree directory", fake(w + "/victim/.git"), "not a work tree of"},
		{"a forged common directory", fake(h.Home + "/.ssh"), "ssh keys"},
		{"a separate git directory", link(w + "/apart"), "nothing in"},
		{"no git file", func(t *testing.T) { write(t, evil+"/.git", "whatever") }, "not a git file"},
		{"a huge git file", func(t *testing.T) { write(t, evil+"/.git", "gitdir: "+strings.Repeat("x", gitFileLimit)) }, "larger than"},
	} {
		t.Run(row.name, func(t *testing.T) {
			mkdir(t, evil)
			t.Cleanup(func() { os.RemoveAll(evil) })
			row.make(t)
			p := plan(t, h, Options{Dir: evil})
			wantMounts(t, h, p, "HOME/code/evil=/project")
			if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], row.why) || p.Workdir != Project {
				t.Errorf("warnings %q, want one with %q; workdir %q", p.Warnings, row.why, p.Workdir)
			}
		})
	}
	symlink(t, w+"/victim/.git", evil+"/.git")
	wantRefusal(t, h, Options{Dir: evil}, `".git" is a symbolic link`, "--no-protect .git")
}

// A git directory that lies in the project is there already.
func TestGitDirectoryInProject(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/mine"
	newRepo(t, dir)
	if err := os.Rename(dir+"/.git", dir+"/.hidden"); err != nil {
		t.Fatal(err)
	}
	write(t, dir+"/.git", "gitdir: .hidden\n")
	wantMounts(t, h, plan(t, h, Options{Dir: dir}), "HOME/code/mine=/project")
	write(t, dir+"/.git", "gitdir: "+dir+"/.hidden\n")
	p := plan(t, h, Options{Dir: dir})
	wantMounts(t, h, p, "HOME/code/mine=/project", "HOME/code/mine")
	if p.Workdir != dir {
		t.Errorf("workdir %q", p.Workdir)
	}
}

// A repository of the whole home directory has the history of all in it.
func TestHomeRepositoryIsLeftOut(t *testing.T) {
	h := testHost(t)
	newRepo(t, h.Home)
	p := plan(t, h, Options{Dir: h.Home + "/code/project"})
	wantMounts(t, h, p, "HOME/code/project=/project")
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "home directory") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

func TestForeignRepositoryIsLeftOut(t *testing.T) {
	h := testHost(t)
	newRepo(t, h.Home+"/code/repo")
	h.UID++
	p := plan(t, h, Options{Dir: h.Home + "/code/repo/a"})
	wantMounts(t, h, p, "HOME/code/repo/a=/project")
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "not to you") {
		t.Errorf("warnings %q", p.Warnings)
	}
}

func TestAlternatesAreNamed(t *testing.T) {
	h := testHost(t)
	w := h.Home + "/code"
	newRepo(t, w+"/repo")
	git(t, w, "clone", "-q", "--shared", w+"/repo", w+"/clone")
	p := plan(t, h, Options{Dir: w + "/clone"})
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "repo/.git/objects") {
		t.Errorf("warnings %q", p.Warnings)
	}
	wantMounts(t, h, p, "HOME/code/clone=/project")
}

func TestCoreWorktree(t *testing.T) {
	for config, want := range map[string]string{
		"[core]\n\tworktree = ../../../x\n":                        "../../../x",
		"[core]\n\tbare = false\n\tworktree = \"../a b\"\n[user]":  "../a b",
		"[Core]\nWorkTree=/x\n":                                    "/x",
		"[user]\n\tworktree = /x\n":                                "",
		"[core]\n[remote \"core\"]\n\tworktree = /x\n":             "",
		"[core]\n\tworktree = \"a\\\\b\"\n":                        "",
		"[core]\n\tworktree = /x ; comment\n":                      "",
		"[core]\n\tworktree = /x\n[remote]\n[core]\nworktree=/y\n": "/y",
		"": "",
	} {
		if got := coreWorktree(config); got != want {
			t.Errorf("%q: got %q, want %q", config, got, want)
		}
	}
}
