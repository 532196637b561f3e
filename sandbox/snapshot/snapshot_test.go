package snapshot

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

var plenty = Limits{Entries: 1_000_000, Time: time.Minute, Found: 10_000}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func set(t testing.TB) *protect.Set {
	t.Helper()
	s, err := protect.Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func openTree(t testing.TB, dir string) *os.File {
	t.Helper()
	f, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func trees(t testing.TB, dir string) []Tree {
	return []Tree{{File: openTree(t, dir), Path: dir, From: protect.Top}}
}

// paths of all that counts, links marked.
func paths(l Look) string {
	var list []string
	for p, e := range l.Entries {
		if e.Kind == protect.Link {
			p += "@" + e.Sum
		}
		list = append(list, p)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

func TestTake(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{
		".git/HEAD", ".git/config", ".git/objects/ab/config", ".git/hooks/pre-commit", ".git/modules/a/b/config", ".git/worktrees/w/gitdir",
		"src/main.go", "src/.envrc", "node_modules/x/.npmrc", "node_modules/x/.git/config", ".vscode/tasks.json",
		"bare/HEAD", "bare/objects/x", "bare/refs/x", "bare/config", "bare/.envrc", "plain/HEAD", "plain/config",
		"named/a", ".cargo/other",
	} {
		write(t, filepath.Join(dir, name), name)
	}
	secret := t.TempDir()
	write(t, secret+"/.envrc", "x")
	for name, to := range map[string]string{".idea": secret, "away": secret, "src/.exrc": "main.go"} {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	ts := trees(t, dir)
	ts[0].Named = map[string]*protect.Rule{"named": protect.UserRule, "missing": protect.UserRule}
	l := Take(ts, set(t), plenty, nil)
	want := ".git .git/config .git/hooks .git/hooks/pre-commit .git/modules .git/modules/a/b/config .git/worktrees .git/worktrees/w/gitdir " +
		".idea@" + secret + " .vscode .vscode/tasks.json bare bare/.envrc bare/config named named/a node_modules/x/.git node_modules/x/.git/config src/.envrc src/.exrc@main.go"
	if got := paths(l); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if l.Cut || l.Closed > 0 || l.Names < 40 {
		t.Errorf("%+v", l)
	}
	if e := l.Entries["named"]; e.Rule != protect.UserRule || e.Member {
		t.Errorf("%+v", e)
	}
}

func TestLimits(t *testing.T) {
	dir := t.TempDir()
	for i := range 50 {
		write(t, fmt.Sprintf("%s/%d/.envrc", dir, i), "")
	}
	for _, l := range []Limits{{10, time.Minute, 100}, {1000, time.Minute, 10}, {1000, 0, 1000}} {
		if look := Take(trees(t, dir), set(t), l, nil); !look.Cut {
			t.Errorf("%+v: %d seen, %d found, not cut", l, look.Names, len(look.Entries))
		}
	}
	if look := Take(trees(t, dir), set(t), Limits{100, time.Minute, 50}, nil); look.Cut || len(look.Entries) != 50 {
		t.Errorf("%d seen, %d found, cut %v", look.Names, len(look.Entries), look.Cut)
	}
}

func watch(t *testing.T, dir string) *Watch {
	t.Helper()
	ts := trees(t, dir)
	return NewWatch(set(t), ts, Take(ts, set(t), plenty, nil))
}

func TestAfter(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/.git/config", "[core]\n\tbare = false\n")
	write(t, dir+"/.envrc", "one")
	write(t, dir+"/touched/.envrc", "one")
	write(t, dir+"/big/.vscode/blob", strings.Repeat("x", largeFile+1))
	w := watch(t, dir)
	if o := w.After(plenty); o.Changes != nil || o.Cut || o.Closed > 0 {
		t.Fatalf("%+v", o)
	}
	write(t, dir+"/.git/config", "[core]\n\tbare = false\n\tfsmonitor = ./x\n")
	write(t, dir+"/.envrc", "two") // of the same length
	write(t, dir+"/sub/.vscode/tasks.json", "{}")
	write(t, dir+"/touched/.envrc", "one")
	write(t, dir+"/big/.vscode/blob", strings.Repeat("y", largeFile+1))
	for _, name := range []string{"HEAD", "objects/x", "refs/x", "config"} {
		write(t, filepath.Join(dir, name), "[alias]\n\tx = !sh\n")
	}
	if err := os.Symlink("/etc/passwd", dir+"/.exrc"); err != nil {
		t.Fatal(err)
	}
	o := w.After(plenty)
	var got []string
	for _, c := range o.Changes {
		got = append(got, fmt.Sprintf("%s %v %v", c.Path, c.New, c.Keys))
	}
	want := []string{". true [alias.x]", ".envrc false []", ".exrc true []", ".git/config false [core.fsmonitor]", "big/.vscode/blob false []", "sub/.vscode true []"}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// What a name is there for but can't be opened is told of.
func TestNotLookedAt(t *testing.T) {
	dir := t.TempDir()
	w := watch(t, dir)
	at, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	for path := 0; err == nil && path < unix.PathMax-20; path += 201 {
		name := strings.Repeat("d", min(200, unix.PathMax-path-6))
		var next int
		if err = unix.Mkdirat(at, name, 0o755); err == nil {
			next, err = unix.Openat(at, name, unix.O_PATH|unix.O_DIRECTORY, 0)
		}
		unix.Close(at)
		at = next
	}
	if err == nil {
		err = unix.Mknodat(at, ".envrc", unix.S_IFREG|0o644, 0)
	}
	unix.Close(at)
	if err != nil {
		t.Fatal(err)
	}
	if o := w.After(plenty); o.Closed != 1 || o.Changes != nil {
		t.Errorf("%+v", o)
	}
}

// What git's configuration names can come to lie behind a link.
func TestNamedBehindLink(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/real/hooks/pre-commit", "")
	ts := trees(t, dir)
	l := Take(ts, set(t), plenty, nil)
	for _, rel := range []string{"tools/git/hooks", "gone/hooks"} {
		if _, err := l.Name(ts, 0, rel, protect.NamedRule, set(t), plenty); err != nil {
			t.Fatal(err)
		}
	}
	w := NewWatch(set(t), ts, l)
	if err := os.Symlink("real", dir+"/tools"); err != nil {
		t.Fatal(err)
	}
	if c := w.After(plenty).Changes; len(c) != 1 || c[0].Path != "tools" || c[0].Kind != protect.Link || !c[0].New {
		t.Errorf("%+v", c)
	}
}

func TestAppeared(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/.envrc", "")
	w := watch(t, dir)
	if got := w.Appeared(); got != nil {
		t.Errorf("%q", got)
	}
	write(t, dir+"/.git/hooks/x", "")
	write(t, dir+"/.cargo/config.toml", "")
	if err := os.Symlink("nowhere", dir+"/.mcp.json"); err != nil {
		t.Fatal(err)
	}
	got := w.Appeared()
	slices.Sort(got)
	if want := []string{".cargo/config.toml", ".git", ".git/hooks", ".mcp.json"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := w.Appeared(); got != nil {
		t.Errorf("told again: %q", got)
	}
	var none *Watch
	if got := none.Appeared(); got != nil {
		t.Errorf("%q", got)
	}
}

// A link on the way is not followed, though its end is looked at.
func TestNameThroughLink(t *testing.T) {
	dir := t.TempDir()
	write(t, dir+"/real/hooks/x", "")
	if err := os.Symlink("real", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	ts := trees(t, dir)
	l := Take(ts, set(t), plenty, nil)
	if kind, err := l.Name(ts, 0, "link/hooks", protect.NamedRule, set(t), plenty); err == nil {
		t.Errorf("%v", kind)
	}
	if kind, err := l.Name(ts, 0, "link", protect.NamedRule, set(t), plenty); err != nil || kind != protect.Link {
		t.Errorf("%v, %v", kind, err)
	}
	if kind, err := l.Name(ts, 0, "missing", protect.NamedRule, set(t), plenty); err != nil || kind != protect.Other || ts[0].Named["missing"] == nil {
		t.Errorf("%v, %v", kind, err)
	}
	if kind, err := l.Name(ts, 0, "real", protect.NamedRule, set(t), plenty); err != nil || kind != protect.Directory || l.Entries["real/hooks/x"].Rule != protect.NamedRule {
		t.Errorf("%v, %v, %v", kind, err, paths(l))
	}
}

func TestQuarantine(t *testing.T) {
	for _, other := range []bool{false, true} {
		t.Run(fmt.Sprintf("another file system %v", other), func(t *testing.T) {
			dir, aside := t.TempDir(), t.TempDir()
			if other {
				dir = onMemory(t)
			}
			write(t, dir+"/kept/HEAD.txt", "mine")
			write(t, dir+"/app/config/routes", "mine")
			write(t, dir+"/app/hooks/use.js", "mine")
			write(t, dir+"/.envrc", "old")
			w := watch(t, dir)
			w.Left = []string{"left"}
			write(t, dir+"/.envrc", "changed")
			write(t, dir+"/left/.envrc", "the user lets it")
			write(t, dir+"/.vscode/deep/er/tasks.json", "{}")
			write(t, dir+"/sub/.git/config", "")
			for _, name := range []string{"kept/HEAD", "kept/objects/x", "kept/refs/x", "kept/config", "app/HEAD", "app/objects/x", "app/refs/x"} {
				write(t, filepath.Join(dir, name), "")
			}
			victim := t.TempDir()
			write(t, victim+"/precious", "1")
			for _, link := range []string{dir + "/.idea", dir + "/.vscode/out"} {
				if err := os.Symlink(victim, link); err != nil {
					t.Fatal(err)
				}
			}
			write(t, aside+"/run/sub/.git", "is there already")
			var bad []string
			for _, m := range w.Quarantine(aside+"/run", w.After(plenty).Changes) {
				if m.Err != nil {
					bad = append(bad, m.Path)
				}
			}
			if !slices.Equal(bad, []string{"sub/.git"}) {
				t.Errorf("not moved: %q", bad)
			}
			want := map[string]bool{
				dir + "/.envrc": true, dir + "/left/.envrc": true, dir + "/.vscode": false, dir + "/.idea": false, dir + "/sub/.git/config": true,
				dir + "/kept/HEAD": false, dir + "/kept/config": false, dir + "/kept/HEAD.txt": true, dir + "/kept/objects/x": true,
				dir + "/app/HEAD": false, dir + "/app/config/routes": true, dir + "/app/hooks/use.js": true,
				victim + "/precious": true, aside + "/run/.vscode/deep/er/tasks.json": true, aside + "/run/kept/config": true,
			}
			for path, there := range want {
				if _, err := os.Lstat(path); (err == nil) != there {
					t.Errorf("%s: %v, want it there: %v", path, err, there)
				}
			}
			for _, link := range []string{"/run/.idea", "/run/.vscode/out"} {
				if to, err := os.Readlink(aside + link); err != nil || to != victim {
					t.Errorf("%s leads to %q, %v", link, to, err)
				}
			}
			if b, err := os.ReadFile(aside + "/run/sub/.git"); err != nil || string(b) != "is there already" {
				t.Errorf("replaced: %q, %v", b, err)
			}
		})
	}
}

// onMemory is a directory on another file system than that of t.TempDir.
func onMemory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "aisb-test-") //nolint:usetesting // t.TempDir is on the other one
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// The bar: under a second for 500,000 files.
func BenchmarkAfter(b *testing.B) {
	const dirs, files = 5000, 100
	dir := b.TempDir()
	for i := range dirs {
		sub := fmt.Sprintf("%s/%d/%d", dir, i%50, i)
		if err := os.MkdirAll(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range files {
			if err := unix.Mknod(fmt.Sprintf("%s/file-%d.go", sub, j), unix.S_IFREG|0o644, 0); err != nil {
				b.Fatal(err)
			}
		}
	}
	write(b, dir+"/.git/config", "")
	ts := trees(b, dir)
	limits := AtEnd
	limits.Time = time.Hour // how long it takes is the question
	before := Take(ts, set(b), limits, nil)
	w := NewWatch(set(b), ts, before)
	for b.Loop() {
		if o := w.After(limits); o.Names < dirs*files || o.Cut {
			b.Fatalf("%+v", o)
		}
	}
	b.ReportMetric(float64(before.Names), "names")
}
