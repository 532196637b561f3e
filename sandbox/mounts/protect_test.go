package mounts

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// protected lists the mounts of protection, "ro TARGET" or "rw TARGET".
func protected(p *Plan) []string {
	var list []string
	for _, m := range p.Protected {
		mode := "rw "
		if m.ReadOnly {
			mode = "ro "
		}
		list = append(list, mode+m.Target)
	}
	return list
}

func wantProtected(t *testing.T, p *Plan, want ...string) {
	t.Helper()
	if got := protected(p); !slices.Equal(got, want) {
		t.Errorf("protected:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, m := range p.Protected {
		s, _ := p.openReal(m.Source)
		if s == nil || s.dev != m.Dev || s.ino != m.Ino || m.Ino == 0 {
			t.Errorf("%+v: not what lies there", m)
		}
	}
}

func TestProtectedPaths(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	newRepo(t, dir)
	os.RemoveAll(dir + "/.git/hooks")
	for _, name := range []string{"packages/a/.npmrc", ".vscode/tasks.json", ".envrc", ".cargo/config.toml", "node_modules/x/.npmrc", ".cargo/bin/tool"} {
		write(t, dir+"/"+name, "x")
	}
	p := plan(t, h, Options{Dir: dir})
	wantProtected(t, p,
		"rw /project/.cargo", "ro /project/.cargo/config.toml", "ro /project/.envrc", "rw /project/.git", "ro /project/.git/config",
		"ro /project/.vscode", "rw /project/packages", "rw /project/packages/a", "ro /project/packages/a/.npmrc")
	if p.Watch == nil || len(p.Warnings) > 0 || len(p.Notes) > 0 {
		t.Errorf("%v %q %q", p.Watch, p.Warnings, p.Notes)
	}
	// Nothing can be written, so nothing is in need of it.
	p = plan(t, h, Options{Dir: dir, ReadOnly: true})
	wantProtected(t, p)
	if p.Watch != nil {
		t.Error("it is watched")
	}
	wantRefusal(t, h, Options{Dir: dir, ReadOnly: true, NoProtect: []string{".envrc"}}, "nothing that is mounted can be written", "")
	// Of the user's choice.
	write(t, dir+"/deploy/run.sh", "x")
	p = plan(t, h, Options{Dir: dir, Protect: []string{"deploy", "./Makefile"}[:1], NoProtect: []string{".cargo", "packages/", ".vscode/tasks.json", ".git", ".zed"}})
	wantProtected(t, p, "ro /project/.envrc", "ro /project/.vscode", "rw /project/.vscode/tasks.json", "ro /project/deploy")
	if left := p.Watch.Left; !slices.Equal(left, []string{".cargo", "packages", ".vscode/tasks.json", ".git", ".zed"}) {
		t.Errorf("left %q", left)
	}
	for _, row := range []struct {
		o            Options
		reason, hint string
	}{
		{Options{NoProtect: []string{"src"}}, "nothing there is protected", "docs/protect.md"},
		{Options{NoProtect: []string{".git/description"}}, "nothing there is protected", ""},
		{Options{NoProtect: []string{"../other"}}, "not a path in the project", ""},
		{Options{NoProtect: []string{""}}, "not a path in the project", ""},
		{Options{NoProtect: []string{".vscode/missing"}}, "doesn't exist", "--no-protect .vscode"},
		{Options{Protect: []string{"missing"}}, "no such file", ""},
		{Options{Protect: []string{"."}}, "not a part of", "--project-ro"},
		{Options{Protect: []string{h.Home}}, "not a part of", ""},
	} {
		row.o.Dir = dir
		wantRefusal(t, h, row.o, row.reason, row.hint)
	}
}

// What leads elsewhere or has another name is refused, and never followed.
func TestPlantedProtectedPaths(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	write(t, h.Home+"/.ssh/id", "secret")
	write(t, dir+"/plain", "x")
	for _, row := range []struct {
		name  string
		plant func(path string) error
		why   string
	}{
		{".envrc", func(p string) error { return os.Symlink(h.Home+"/.ssh/id", p) }, "a symbolic link"},
		{".envrc", func(p string) error { return os.Symlink("nowhere", p) }, "a symbolic link"},
		{".vscode", func(p string) error { return os.Symlink(h.Home+"/.ssh", p) }, "a symbolic link"},
		{".cargo", func(p string) error { return os.Symlink("sub", p) }, "a symbolic link"},
		{"sub/.git", func(p string) error { return os.Symlink("../.git", p) }, "a symbolic link"},
		{".git/hooks", func(p string) error { return os.Symlink(h.Home+"/.ssh", p) }, "a symbolic link"},
		{".git/config", func(p string) error { return os.Symlink(h.Home+"/.ssh/id", p) }, "a symbolic link"},
		{".envrc", func(p string) error { return os.Link(h.Home+"/.ssh/id", p) }, "2 hard links"},
		{".vscode/tasks.json", func(p string) error { return os.Link(dir+"/plain", p) }, "2 hard links"},
		{".git/hooks/pre-commit", func(p string) error { return os.Link(dir+"/plain", p) }, "2 hard links"},
	} {
		path := dir + "/" + row.name
		mkdir(t, dir+"/.git", path+"/..")
		os.Remove(path)
		if err := row.plant(path); err != nil {
			t.Fatal(err)
		}
		wantRefusal(t, h, Options{Dir: dir}, row.why, "--no-protect "+row.name)
		plan(t, h, Options{Dir: dir, NoProtect: []string{row.name}})
		os.RemoveAll(dir + "/" + strings.Split(row.name, "/")[0])
	}
}

// What git's configuration and protected links name is protected, too.
func TestNamedProtectedPaths(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	newRepo(t, dir)
	os.RemoveAll(dir + "/.git/hooks")
	for _, name := range []string{".githooks/pre-commit", "tools/clean.sh", "tools/other.sh", "shared.gitconfig", "scripts/post.sh", "diff.sh"} {
		write(t, dir+"/"+name, "x")
	}
	write(t, dir+"/shared.gitconfig", "[diff \"x\"]\n\ttextconv = bash diff.sh\n")
	write(t, h.Home+"/.gitconfig", "[core]\n\thooksPath = .githooks\n")
	symlink(t, "../../scripts/post.sh", dir+"/.git/hooks/post-commit")
	symlink(t, "../../missing.sh", dir+"/.git/hooks/post-merge")
	symlink(t, "/etc/passwd", dir+"/.git/hooks/post-checkout")
	git(t, dir, "config", "filter.f.clean", "./tools/clean.sh %f")
	git(t, dir, "config", "include.path", "../shared.gitconfig")
	p := plan(t, h, Options{Dir: dir})
	wantProtected(t, p, "rw /project/.git", "ro /project/.git/config", "ro /project/.git/hooks", "ro /project/.githooks", "ro /project/diff.sh",
		"rw /project/scripts", "ro /project/scripts/post.sh", "ro /project/shared.gitconfig", "rw /project/tools", "ro /project/tools/clean.sh")
	if len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "read-only inside, too") {
		t.Errorf("notes %q", p.Notes)
	}
	// What of it is left to the agent can be written to, and is told of.
	p = plan(t, h, Options{Dir: dir, NoProtect: []string{".githooks"}})
	if slices.ContainsFunc(p.Protected, func(m Mount) bool { return m.Target == "/project/.githooks" }) {
		t.Errorf("protected %+v", p.Protected)
	}
	write(t, dir+"/.githooks/pre-commit", "other")
	if changes := p.Watch.After(snapshot.AtEnd).Changes; len(changes) != 1 || changes[0].Path != ".githooks/pre-commit" || changes[0].New {
		t.Errorf("%+v", changes)
	}
	symlink(t, "real", dir+"/link")
	// What a command names and isn't there is told of when it comes to be.
	git(t, dir, "config", "alias.d", "!\"$(git rev-parse --show-toplevel)\"/tools/other.sh && ${X}/tools/new.sh && make build && link/away/x")
	p = plan(t, h, Options{Dir: dir})
	if !slices.ContainsFunc(p.Protected, func(m Mount) bool { return m.Target == "/project/tools/other.sh" && m.ReadOnly }) {
		t.Errorf("protected %+v", p.Protected)
	}
	write(t, dir+"/tools/new.sh", "x")
	mkdir(t, dir+"/build")
	if changes := p.Watch.After(snapshot.AtEnd).Changes; len(changes) != 1 || changes[0].Path != "tools/new.sh" || !changes[0].New {
		t.Errorf("%+v", changes)
	}
	git(t, dir, "config", "core.hooksPath", "link/hooks")
	mkdir(t, dir+"/real/hooks")
	wantRefusal(t, h, Options{Dir: dir}, "a symbolic link in that", "--no-protect .git/config")
	// One that would stop all work is told of.
	git(t, dir, "config", "core.hooksPath", dir)
	p = plan(t, h, Options{Dir: dir})
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "stays writable") }) {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// Wherever the agent sees it.
func TestProtectedInEachMount(t *testing.T) {
	h := testHost(t)
	w := h.Home + "/code"
	newRepo(t, w+"/repo")
	os.RemoveAll(w + "/repo/.git/hooks")
	git(t, w+"/repo", "worktree", "add", "-q", w+"/tree")
	tree := w + "/repo/.git/worktrees/tree"
	p := plan(t, h, Options{Dir: w + "/tree"})
	slices.SortFunc(p.Protected, func(a, b Mount) int { return -strings.Compare(a.Target, b.Target) })
	wantProtected(t, p,
		"ro "+tree+"/gitdir", "ro "+tree+"/commondir", "rw "+tree, "rw "+w+"/repo/.git/worktrees", "ro "+w+"/repo/.git/config", "ro /project/.git")
	// Below another one of the user's it doesn't lie.
	write(t, w+"/project/sub/.envrc", "x")
	write(t, w+"/project/.vscode/a", "x")
	mkdir(t, h.Home+"/data")
	p = plan(t, h, Options{Dir: w + "/project", Extra: []string{h.Home + "/data:/project/sub", w + "/project:/mnt/same", w + "/project/.vscode:/mnt/code"}})
	wantProtected(t, p, "ro /mnt/same/.vscode", "rw /mnt/same/sub", "ro /mnt/same/sub/.envrc", "ro /project/.vscode")
	if !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "at /mnt/code (--mount)") }) {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// More than can be mounted is told of, and the most telling comes first.
func TestProtectedOverTheCap(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	newRepo(t, dir)
	for i := range mostProtected {
		write(t, fmt.Sprintf("%s/p/%d/.npmrc", dir, i), "x")
	}
	p := plan(t, h, Options{Dir: dir})
	if n := len(p.Protected); n > mostProtected || n < mostProtected-10 {
		t.Errorf("%d mounts", n)
	}
	for _, want := range []string{"ro /project/.git/config", "ro /project/.git/hooks"} {
		if !slices.Contains(protected(p), want) {
			t.Errorf("no %q", want)
		}
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "not read-only inside") || !strings.Contains(p.Warnings[0], "more") {
		t.Errorf("warnings %q", p.Warnings)
	}
	// A name that podman can't mount is told of in the same way: an agent that leaves one
	// must not keep the next run from starting.
	other := h.Home + "/code/other"
	write(t, other+"/caf\xe9/.envrc", "x")
	write(t, other+"/a\r\nb/.envrc", "x")
	write(t, other+"/.npmrc", "x")
	p = plan(t, h, Options{Dir: other})
	wantProtected(t, p, "ro /project/.npmrc")
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], `caf\xe9`) || !strings.Contains(p.Warnings[0], `a\r\nb`) {
		t.Errorf("warnings %q", p.Warnings)
	}
}

// The kernel holds what the plan says: nothing of it can be changed, moved away or
// replaced, and nothing above it.
func TestProtectedInTheKernel(t *testing.T) {
	mountNamespaces(t)
	h := testHost(t)
	dir := h.Home + "/code/project"
	newRepo(t, dir)
	for _, name := range []string{"deep/down/.npmrc", ".vscode/tasks.json", ".cargo/config.toml"} {
		write(t, dir+"/"+name, "original\n")
	}
	give(t, &h, h.Home)
	p := plan(t, h, Options{Dir: dir})
	out := container(t, p, `
		set +e
		echo evil >evil
		try() { "$@" 2>/dev/null && echo "$*"; }
		for f in .git/config .git/hooks/pre-commit.sample deep/down/.npmrc .vscode/tasks.json .cargo/config.toml; do
			try sh -c 'echo x >"$1"' sh $f; try sh -c 'echo x >>"$1"' sh $f; try truncate -s 0 $f
			try mv evil $f; try ln -sf evil $f; try ln -f evil $f; try rm -f $f; try chmod 777 $f; try touch $f; try mv $f gone
		done
		for d in .git .git/hooks deep deep/down .vscode .cargo; do try mv $d gone; try rm -rf $d/.; try rmdir $d; done
		try ln deep/down/.npmrc name
		try mkdir -p .vscode/new .git/hooks/new
		try touch .vscode/new .git/hooks/new
		try mv -T deep .git
		ls -d .git/hooks deep/down .vscode .cargo`)
	if want := ".cargo\n.git/hooks\n.vscode\ndeep/down"; out != want {
		t.Errorf("it could:\n%s", out)
	}
	for _, name := range []string{"deep/down/.npmrc", ".vscode/tasks.json", ".cargo/config.toml"} {
		if b, err := os.ReadFile(dir + "/" + name); err != nil || string(b) != "original\n" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
