package trust

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// write makes a file with a mode, whatever the umask is.
func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	check(t, os.WriteFile(path, []byte(text), 0o600))
	check(t, os.Chmod(path, mode))
}

func home(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	check(t, err)
	check(t, os.Chmod(dir, 0o700))
	return dir
}

func wantProblem(t *testing.T, what string, err error, part string) {
	t.Helper()
	var p *Problem
	if !errors.As(err, &p) || !strings.Contains(p.Error(), part) || p.Hint == "" {
		t.Errorf("%s: got %#v, want a problem with %q and a hint", what, err, part)
	}
}

func TestReadUser(t *testing.T) {
	uid := os.Getuid()
	dir := home(t)
	path := filepath.Join(dir, "config.toml")
	data, real, err := ReadUser(path, uid)
	if data != nil || real != path || err != nil {
		t.Errorf("none: got %q, %q, %v", data, real, err)
	}
	for _, mode := range []os.FileMode{0o600, 0o644, 0o400} {
		write(t, path, "x", mode)
		if data, real, err = ReadUser(path, uid); string(data) != "x" || real != path || err != nil {
			t.Errorf("mode %o: got %q, %q, %v", mode, data, real, err)
		}
	}
	write(t, path, "", 0o600)
	if data, _, err = ReadUser(path, uid); data == nil || err != nil {
		t.Errorf("empty: got %v, %v", data, err)
	}
	for _, mode := range []os.FileMode{0o664, 0o602, 0o666} {
		write(t, path, "x", mode)
		_, _, err = ReadUser(path, uid)
		wantProblem(t, mode.String(), err, "can be written by other users")
	}
	write(t, path, strings.Repeat("#", maxSize+1), 0o600)
	_, _, err = ReadUser(path, uid)
	wantProblem(t, "large", err, "has more than 256 KiB")
	write(t, path, "x", 0o600)
	check(t, os.Chmod(dir, 0o770))
	_, _, err = ReadUser(path, uid)
	wantProblem(t, "directory", err, "can be written by other users (mode 0770)")
}

// A file of somebody else's decides nothing; one of root's does, who can do all.
func TestReadUserOwner(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, "config.toml")
	write(t, path, "x", 0o600)
	if os.Getuid() == 0 {
		if data, _, err := ReadUser(path, 4711); string(data) != "x" || err != nil {
			t.Errorf("root's: got %q, %v", data, err)
		}
		check(t, os.Chown(dir, 4711, -1))
		check(t, os.Chown(path, 4712, -1))
		_, _, err := ReadUser(path, 4711)
		wantProblem(t, "file", err, "belongs to another user")
		check(t, os.Chown(path, 4711, -1))
		check(t, os.Chown(dir, 4712, -1))
		_, _, err = ReadUser(path, 4711)
		wantProblem(t, "directory", err, "belongs to another user")
		return
	}
	_, _, err := ReadUser(path, os.Getuid()+1)
	wantProblem(t, "file", err, "belongs to another user")
}

// Files of settings are often links into a directory of dotfiles. What it leads to is
// judged, and told.
func TestReadUserLinks(t *testing.T) {
	dir, dotfiles := home(t), home(t)
	path, target := filepath.Join(dir, "config.toml"), filepath.Join(dotfiles, "aisb")
	check(t, os.Symlink(target, path))
	_, _, err := ReadUser(path, os.Getuid())
	wantProblem(t, "leads nowhere", err, "can't be read: no such file")
	write(t, target, "x", 0o600)
	if data, real, err := ReadUser(path, os.Getuid()); string(data) != "x" || real != target || err != nil {
		t.Errorf("got %q, %q, %v", data, real, err)
	}
	check(t, os.Chmod(dotfiles, 0o777))
	_, _, err = ReadUser(path, os.Getuid())
	wantProblem(t, "directory of the target", err, "can be written by other users")
}

func TestReadUserNoFile(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, "config.toml")
	check(t, unix.Mkfifo(path, 0o600))
	_, _, err := ReadUser(path, os.Getuid())
	wantProblem(t, "FIFO", err, "is no file")
	check(t, os.Remove(path))
	check(t, os.Mkdir(path, 0o700))
	_, _, err = ReadUser(path, os.Getuid())
	wantProblem(t, "directory", err, "is no file")
}

// Whatever an agent puts in the place of a project's file, nothing but a file there
// is read, and nobody waits.
func TestReadProject(t *testing.T) {
	dir := home(t)
	path := filepath.Join(dir, ProjectName)
	p, err := ReadProject(dir)
	if p.Data != nil || p.Dir != dir || err != nil {
		t.Errorf("none: got %+v, %v", p, err)
	}
	write(t, path, "x", 0o666) // the agent's to write
	if p, err = ReadProject(dir); string(p.Data) != "x" || p.Dir != dir || err != nil {
		t.Errorf("got %+v, %v", p, err)
	}
	write(t, path, "", 0o600)
	if p, err = ReadProject(dir); p.Data == nil || err != nil {
		t.Errorf("empty: got %+v, %v", p, err)
	}
	secret := filepath.Join(home(t), "secret")
	write(t, secret, "secret", 0o600)
	for what, put := range map[string]func() error{
		"a link":            func() error { return os.Symlink(secret, path) },
		"a link beside it":  func() error { return os.Symlink("other", path) },
		"a link to nowhere": func() error { return os.Symlink("/nowhere", path) },
		"a link to itself":  func() error { return os.Symlink(ProjectName, path) },
		"a magic link":      func() error { return os.Symlink("/proc/self/environ", path) },
		"a FIFO":            func() error { return unix.Mkfifo(path, 0o600) },
		"a directory":       func() error { return os.Mkdir(path, 0o700) },
		"a large file":      func() error { return os.WriteFile(path, make([]byte, maxSize+1), 0o600) },
		"a socket":          func() error { return listen(t, path) },
	} {
		check(t, os.RemoveAll(path))
		check(t, put())
		p, err := ReadProject(dir)
		var problem *Problem
		if p.Data != nil || !errors.As(err, &problem) || problem.Hint == "" || p.Dir != dir {
			t.Errorf("%s: got %+v, %v", what, p, err)
		}
	}
}

func listen(t *testing.T, path string) error {
	t.Helper()
	ln, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err == nil {
		t.Cleanup(func() { ln.Close() })
	}
	return err
}

// The file is looked for at the top alone, and the project is named without links.
func TestReadProjectAtTheTop(t *testing.T) {
	dir := home(t)
	write(t, filepath.Join(dir, ProjectName), "above", 0o600)
	below := filepath.Join(dir, "below")
	check(t, os.Mkdir(below, 0o700))
	link := filepath.Join(home(t), "link")
	check(t, os.Symlink(below, link))
	for _, name := range []string{below, link} {
		if p, err := ReadProject(name); p.Data != nil || p.Dir != below || err != nil {
			t.Errorf("%s: got %+v, %v", name, p, err)
		}
	}
}

func TestStore(t *testing.T) {
	s := Store{Dir: filepath.Join(home(t), "state", "trust"), UID: os.Getuid()}
	const project, other = "/p/with \xff bytes", "/p"
	if a, err := s.Find(project); err != nil || a.Covers(nil) || a.Covers([]byte("x")) {
		t.Errorf("none: got %+v, %v", a, err)
	}
	now := time.Date(2026, 11, 30, 4, 0, 0, 0, time.UTC)
	check(t, s.Approve(project, []byte("x"), []string{"does x"}, now))
	a, err := s.Find(project)
	if err != nil || !a.Covers([]byte("x")) || a.Covers([]byte("x\n")) || a.Covers(nil) || !slices.Equal(a.Says, []string{"does x"}) || !a.Approved.Equal(now) {
		t.Errorf("got %+v, %v", a, err)
	}
	if a, err := s.Find(other); err != nil || a.Covers([]byte("x")) {
		t.Errorf("of another project: got %+v, %v", a, err)
	}
	check(t, s.Approve(project, []byte("y"), nil, now))
	if a, err := s.Find(project); err != nil || a.Covers([]byte("x")) || !a.Covers([]byte("y")) {
		t.Errorf("the second: got %+v, %v", a, err)
	}
	for path, mode := range map[string]os.FileMode{s.Dir: 0o700, s.path(project): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if entries, err := os.ReadDir(s.Dir); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	for _, want := range []bool{true, false} {
		if had, err := s.Forget(project); had != want || err != nil {
			t.Errorf("forget: %v, %v", had, err)
		}
	}
	if a, err := s.Find(project); err != nil || a.Covers([]byte("y")) {
		t.Errorf("taken back: got %+v, %v", a, err)
	}
}

// An approval that another could have written, or that is none, approves nothing.
func TestStoreIsPrivate(t *testing.T) {
	s := Store{Dir: filepath.Join(home(t), "trust"), UID: os.Getuid()}
	check(t, s.Approve("/p", []byte("x"), nil, time.Now()))
	path := s.path("/p")
	check(t, os.Chmod(path, 0o620))
	if a, err := s.Find("/p"); err == nil || a.Covers([]byte("x")) {
		t.Errorf("written by a group: %+v, %v", a, err)
	}
	good := filepath.Join(home(t), "good")
	check(t, os.Chmod(path, 0o600))
	check(t, os.Rename(path, good))
	check(t, os.Symlink(good, path))
	if a, err := s.Find("/p"); err == nil || a.Covers([]byte("x")) {
		t.Errorf("a link: %+v, %v", a, err)
	}
	check(t, os.Remove(path))
	write(t, path, `{"sha256": ""}`, 0o600)
	if a, err := s.Find("/p"); err != nil || a.Covers(nil) || a.Covers([]byte("")) {
		t.Errorf("no content: %+v, %v", a, err)
	}
	write(t, path, "nonsense", 0o600)
	a, err := s.Find("/p")
	if problem, ok := errors.AsType[*Problem](err); !ok || problem.Reason != "is damaged: it holds no approval" || problem.Hint == "" || a.Covers([]byte("nonsense")) {
		t.Errorf("nonsense: %+v, %v", a, err)
	}
}

// TestApprovalsOfOtherFormats: one from before there were formats counts, one of a newer
// aisb never does: what narrows it may stand in a field that isn't read here.
func TestApprovalsOfOtherFormats(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "trust"), UID: os.Getuid()}
	data := []byte("allow = [\"example.com\"]\n")
	if err := s.Approve("/p", data, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	sum := Sum(data)
	for text, covers := range map[string]bool{
		`{"project":"/p","sha256":"` + sum + `"}`:                            true,
		`{"format":1,"sha256":"` + sum + `"}`:                                true,
		`{"format":2,"sha256":"` + sum + `","until":"2026-12-01T00:00:00Z"}`: false,
		`{"format":-1,"sha256":"` + sum + `"}`:                               false,
		`{"format":2,"sha256":["` + sum + `"]}`:                              false,
		`{"format":"2","sha256":"` + sum + `"}`:                              false,
	} {
		if err := os.WriteFile(s.path("/p"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a, err := s.Find("/p")
		if a.Covers(data) != covers || (err == nil) != covers {
			t.Errorf("%s: covers %v, %v", text, a.Covers(data), err)
		}
		if problem, ok := errors.AsType[*Problem](err); !covers && (!ok || problem.Hint == "") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if had, err := s.Forget("/p"); !had || err != nil {
		t.Errorf("it can't be taken back: %v, %v", had, err)
	}
}
