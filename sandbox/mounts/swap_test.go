package mounts

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A file with other names is refused: what is written under one shows under all.
func TestHardLinks(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, dir, h.Home+"/data")
	write(t, h.Home+"/data/file", "x")
	write(t, h.Home+"/data/alone", "x")
	if err := os.Link(h.Home+"/data/file", dir+"/innocent"); err != nil {
		t.Fatal(err)
	}
	for _, extra := range []string{"/data/file:/mnt/x:ro", "/data/file:/mnt/x", "/code/project/innocent:/mnt/x:ro"} {
		wantRefusal(t, h, Options{Dir: dir, Extra: []string{h.Home + extra}}, "2 hard links", "a copy")
	}
	for _, extra := range []string{"/data/alone:/mnt/x:ro", "/data:/mnt/x:ro"} { // a directory has many
		plan(t, h, Options{Dir: dir, Extra: []string{h.Home + extra}})
	}
	// So is the file that names the git directory, since it is mounted to be read only.
	newRepo(t, h.Home+"/code/repo")
	git(t, h.Home+"/code/repo", "worktree", "add", "-q", h.Home+"/code/tree")
	if err := os.Link(h.Home+"/code/tree/.git", h.Home+"/code/tree/a/other"); err != nil {
		t.Fatal(err)
	}
	p := plan(t, h, Options{Dir: h.Home + "/code/tree/a"})
	if len(p.Mounts) != 1 || !slices.ContainsFunc(p.Warnings, func(w string) bool { return strings.Contains(w, "git won't work") && strings.Contains(w, "hard links") }) {
		t.Errorf("%+v %q", p.Mounts, p.Warnings)
	}
}

// A link that an earlier agent may have left leads nowhere else.
func TestLinkLeftInTheProject(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, dir+"/v1", h.Home+"/.ssh", h.Home+"/tools", h.Home+"/shared")
	write(t, h.Home+"/.ssh/key", "secret")
	symlink(t, "v1", dir+"/current")
	symlink(t, "../../.ssh", dir+"/up")
	symlink(t, h.Home+"/.ssh/key", dir+"/v1/key")
	symlink(t, dir+"/up", h.Home+"/mine") // the user's own, but then one of the agent's
	symlink(t, h.Home+"/tools", h.Home+"/own")
	symlink(t, h.Home+"/tools", h.Home+"/shared/out")
	for _, extra := range []string{dir + "/up", "up", "up/key", dir + "/v1/key", dir + "/current/key", h.Home + "/mine"} {
		for _, ro := range []bool{false, true} { // the next run's being read-only undoes nothing
			wantRefusal(t, h, Options{Dir: dir, Extra: []string{extraPath(extra) + ":/mnt/x:ro"}, ReadOnly: ro}, "an agent can have made it", "name what it leads to")
		}
	}
	shared := h.Home + "/shared:/mnt/shared"
	for _, extra := range [][]string{{shared, h.Home + "/shared/out:/mnt/x"}, {h.Home + "/shared/out:/mnt/x", shared}} {
		wantRefusal(t, h, Options{Dir: dir, Extra: extra}, "leads out of", "")
	}
	for _, o := range []Options{
		{Extra: []string{dir + "/current:/mnt/x"}}, // it stays in the project
		{Extra: []string{h.Home + "/own:/mnt/x"}},
		{Extra: []string{shared + ":ro", h.Home + "/shared/out:/mnt/x"}},
	} {
		o.Dir = dir
		plan(t, h, o)
	}
}

// extraPath is a path of the project in the form that --mount takes.
func extraPath(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return "./" + path
}

func TestFollow(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	mkdir(t, base+"/a/b")
	write(t, base+"/a/file", "")
	symlink(t, "a", base+"/l")
	symlink(t, "../l/b", base+"/a/m")
	symlink(t, base+"/l/m/..", base+"/abs")
	symlink(t, "loop", base+"/loop")
	symlink(t, "/", base+"/top")
	for path, links := range map[string]int{
		"/": 0, "": 0, "/a/b": 0, "/l": 1, "/l/m": 3, "/abs/b": 4, "/abs/../l": 5, "/a//b/./": 0, "/top/..": 1,
		"/loop": -1, "/missing": -1, "/a/file/x": -1, "/l/missing": -1,
	} {
		got, via, err := follow(base + path)
		want, wantErr := filepath.EvalSymlinks(base + path)
		if got != want || (err != nil) != (wantErr != nil) || err == nil && len(via) != links || (links < 0) != (err != nil) {
			t.Errorf("%q: got %q by %q, %v; want %q, %v", path, got, via, err, want, wantErr)
		}
	}
}

// The directory that the user is in is meant, whatever lies at its path by now.
func TestProjectIsTheOneTheUserIsIn(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, dir)
	here, err := os.Stat(dir)
	if err != nil {
		t.Fatal(err)
	}
	plan(t, h, Options{Dir: dir, Here: here})
	if err := os.Rename(dir, dir+".away"); err != nil {
		t.Fatal(err)
	}
	mkdir(t, dir)
	wantRefusal(t, h, Options{Dir: dir, Here: here}, "not the directory that you are in", "once more")
}

// Somebody exchanges the project for a link to the keys, or a directory above it,
// all the time: no plan ever holds anything but the project.
func TestExchangedAllTheTime(t *testing.T) {
	const plans, least = 150, 500 // attempts, exchanges
	for _, c := range []struct{ name, swapped string }{{"the project", "/code/project"}, {"the directory above", "/code"}} {
		t.Run(c.name, func(t *testing.T) {
			h := testHost(t)
			dir, target := h.Home+"/code/project", h.Home+"/.ssh"
			mkdir(t, dir, h.Home+"/.ssh/project")
			symlink(t, target, h.Home+"/decoy")
			here, err := os.Stat(dir)
			if err != nil {
				t.Fatal(err)
			}
			var swapper sync.WaitGroup
			var n atomic.Int64
			stop := make(chan struct{})
			swapper.Go(func() {
				for ; ; n.Add(1) {
					select {
					case <-stop:
						return
					default:
					}
					if err := unix.Renameat2(unix.AT_FDCWD, h.Home+"/decoy", unix.AT_FDCWD, h.Home+c.swapped, unix.RENAME_EXCHANGE); err != nil {
						t.Error(err)
						return
					}
				}
			})
			defer swapper.Wait()
			defer close(stop)
			planned, refused := 0, 0
			// On a busy machine one of the two may stand still for a while.
			for end := time.Now().Add(time.Minute); planned+refused < plans || planned == 0 || refused == 0 || n.Load() < least; {
				if time.Now().After(end) {
					t.Fatalf("%d exchanges, %d planned, %d refused show nothing", n.Load(), planned, refused)
				}
				p, err := Make(h, Options{Dir: dir, Here: here})
				if err == nil && (p.Mounts[0].Ino != here.Sys().(*syscall.Stat_t).Ino) {
					t.Fatalf("planned %+v", p.Mounts[0])
				}
				if err != nil {
					refused++
					continue
				}
				planned++
				p.Close()
			}
			t.Logf("%d exchanges, %d planned, %d refused", n.Load(), planned, refused)
		})
	}
}

// Whoever writes to a hard link writes outside of the project: the user is told.
func TestHardLinksInTheProject(t *testing.T) {
	h := testHost(t)
	w := h.Home + "/code"
	newRepo(t, w+"/repo")
	git(t, w, "clone", "-q", w+"/repo", w+"/linked")
	git(t, w, "clone", "-q", "--no-hardlinks", w+"/repo", w+"/alone")
	for dir, want := range map[string]bool{"/linked": true, "/alone": false} {
		p := plan(t, h, Options{Dir: w + dir})
		if got := strings.Contains(strings.Join(p.Warnings, "\n"), "hard links"); got != want {
			t.Errorf("%s: warnings %q", dir, p.Warnings)
		}
		if p := plan(t, h, Options{Dir: w + dir, ReadOnly: true}); len(p.Warnings) > 0 {
			t.Errorf("%s, read-only: warnings %q", dir, p.Warnings)
		}
	}
}
