package home

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/newer"
	"github.com/aisb-dev/aisb/tests/fakes"
)

func TestCheckName(t *testing.T) {
	for name, ok := range map[string]bool{
		"aisb-home": true, "a": true, "A.b_c-1": true, strings.Repeat("a", 200): true,
		"": false, ".": false, "..": false, ".a": false, "-a": false, "a/b": false, "/": false, "a:b": false, "a b": false,
		"a\n": false, "ä": false, strings.Repeat("a", 201): false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := CheckName("../x"); err == nil || err.Error() != `the home volume "../x" is a name, not a path` {
		t.Error(err)
	}
}

func TestParseVolumes(t *testing.T) {
	list, err := ParseVolumes([]byte(`[
		{"Name":"b","Driver":"local","Mountpoint":"/v/b/_data","CreatedAt":"2026-11-30T04:00:00.5+01:00","Labels":{"dev.aisb.home":"1"},"Options":{}},
		{"Name":"a","Mountpoint":"/v/a/_data","CreatedAt":"2026-11-30T04:00:00Z","Labels":null}]`))
	if err != nil || len(list) != 2 || list[0].Name != "a" || list[0].Home || !list[1].Home || list[1].Mountpoint != "/v/b/_data" ||
		!list[1].Created.Equal(time.Date(2026, 11, 30, 3, 0, 0, 5e8, time.UTC)) {
		t.Errorf("%+v, %v", list, err)
	}
	for _, odd := range []string{"", "{}", `[{"Name":"../x","Mountpoint":"/v"}]`, `[{"Name":"x","Mountpoint":"v"}]`} {
		if list, err := ParseVolumes([]byte(odd)); err == nil {
			t.Errorf("%q: %v", odd, list)
		}
	}
}

func put(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func seen(t *testing.T, dir string) []Entry {
	t.Helper()
	list, err := Look(dir, slices.Concat(StartUp, Credentials))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func names(list []Entry) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.Path)
	}
	return out
}

func TestLook(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".bashrc", ".config/git/config", ".config/git/hooks/post-checkout", ".ssh/id_x", ".ssh/known_hosts",
		".local/bin/git", "other", ".cache/.bashrc", ".npmrc"} {
		put(t, dir, name, "x")
	}
	list := seen(t, dir)
	if want := []string{".bashrc", ".config/git/config", ".config/git/hooks/post-checkout", ".local/bin/git", ".npmrc", ".ssh/id_x", ".ssh/known_hosts"}; !slices.Equal(names(list), want) {
		t.Errorf("got %q, want %q", names(list), want)
	}
	for _, e := range list {
		if e.Path == ".ssh/id_x" && !slices.Equal(e.Kinds, []Kind{SSH, Credential}) || e.Path == ".bashrc" && (e.Size != 1 || e.Modified.IsZero()) {
			t.Errorf("%+v", e)
		}
	}
	if list, err := Look(filepath.Join(dir, "none"), StartUp); err == nil {
		t.Errorf("a home that isn't there: %v", list)
	}
}

// changes are what do makes of a home with a few files.
func changes(t *testing.T, do func(dir string)) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{".bashrc", ".config/git/config", ".ssh/config"} {
		put(t, dir, name, "one\n")
	}
	before := seen(t, dir)
	do(dir)
	var out []string
	for _, c := range Compare(before, seen(t, dir)) {
		out = append(out, c.Path+" "+c.What)
	}
	return strings.Join(out, ", ")
}

func TestCompare(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("as root no directory is shut")
	}
	for _, tt := range []struct {
		what, want string
		do         func(dir string) error
	}{
		{"nothing", "", func(string) error { return nil }},
		{"what doesn't matter", "", func(dir string) error { return os.WriteFile(dir+"/notes", nil, 0o644) }},
		{"read and written again", "", func(dir string) error { return os.WriteFile(dir+"/.bashrc", []byte("one\n"), 0o644) }},
		{"a new one", ".zshrc new", func(dir string) error { return os.WriteFile(dir+"/.zshrc", nil, 0o644) }},
		{"one less", ".bashrc removed", func(dir string) error { return os.Remove(dir + "/.bashrc") }},
		{"the same size and time", ".bashrc changed", func(dir string) error {
			old := time.Unix(1, 0)
			return errors.Join(os.WriteFile(dir+"/.bashrc", []byte("two\n"), 0o644), os.Chtimes(dir+"/.bashrc", old, old))
		}},
		{"made executable", ".bashrc changed", func(dir string) error { return os.Chmod(dir+"/.bashrc", 0o755) }},
		{"a link for a file", ".bashrc changed", func(dir string) error {
			return errors.Join(os.Remove(dir+"/.bashrc"), os.Symlink("/etc/passwd", dir+"/.bashrc"))
		}},
		{"a link for a directory", ".ssh new, .ssh/config removed", func(dir string) error {
			return errors.Join(os.Rename(dir+"/.ssh", dir+"/elsewhere"), os.Symlink("elsewhere", dir+"/.ssh"))
		}},
		{"a link on the way", ".config new, .config/git/config removed", func(dir string) error {
			return errors.Join(os.Rename(dir+"/.config", dir+"/elsewhere"), os.Symlink("/", dir+"/.config"))
		}},
		{"a FIFO, which nobody waits for", ".bashrc changed", func(dir string) error {
			return errors.Join(os.Remove(dir+"/.bashrc"), unix.Mkfifo(dir+"/.bashrc", 0o644))
		}},
		{"a directory for a file", ".bashrc removed", func(dir string) error {
			return errors.Join(os.Remove(dir+"/.bashrc"), os.Mkdir(dir+"/.bashrc", 0o755))
		}},
		{"a file for a directory", ".ssh/config removed", func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/.ssh"), os.WriteFile(dir+"/.ssh", nil, 0o644))
		}},
		{"a large one", ".zshrc new", func(dir string) error {
			return errors.Join(os.WriteFile(dir+"/.zshrc", nil, 0o644), os.Truncate(dir+"/.zshrc", 1<<40))
		}},
	} {
		got := changes(t, func(dir string) {
			if err := tt.do(dir); err != nil {
				t.Fatal(err)
			}
		})
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.what, got, tt.want)
		}
	}
}

// TestLookInto: of a directory with very many names, and of one that is shut, the
// look says that it hasn't seen all.
func TestLookInto(t *testing.T) {
	got := changes(t, func(dir string) {
		for i := range maxNames + 1 {
			put(t, dir, fmt.Sprintf(".local/bin/n%d", i), "")
		}
	})
	if !strings.HasPrefix(got, ".local/bin new, .local/bin/n") {
		t.Errorf("%.100q", got)
	}
	if os.Getuid() == 0 {
		return // nothing is shut for root
	}
	got = changes(t, func(dir string) {
		if err := os.Chmod(dir+"/.ssh", 0); err != nil {
			t.Fatal(err)
		}
	})
	if got != ".ssh new, .ssh/config removed" {
		t.Errorf("%q", got)
	}
	got = changes(t, func(dir string) {
		if err := os.Chmod(dir+"/.config", 0); err != nil {
			t.Fatal(err)
		}
	})
	if got != ".config new, .config/git/config removed" {
		t.Errorf("%q", got)
	}
}

func TestMeasure(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a/b", strings.Repeat("x", 100000))
	if err := os.Symlink("/", dir+"/root"); err != nil {
		t.Fatal(err)
	}
	if u, err := Measure(dir); err != nil || u.Files != 2 || u.Bytes < 100000 || u.Bytes > 1<<20 || u.Partial {
		t.Errorf("%+v, %v", u, err)
	}
}

// TestMeasureDeep: directories in one another, without an end in sight.
func TestMeasureDeep(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "a/b", "x")
	t.Cleanup(func() {
		if err := fakes.Shallow(dir); err != nil {
			t.Error(err)
		}
	})
	if err := fakes.Deepen(dir, 3000, 0o700); err != nil {
		t.Fatal(err)
	}
	if u, err := Measure(dir); err != nil || !u.Partial || u.Files != 1 {
		t.Errorf("%+v, %v", u, err)
	}
}

func TestRecords(t *testing.T) {
	r := Records{Dir: filepath.Join(t.TempDir(), "homes")}
	if !r.LastUse("h").IsZero() || r.Names() != nil {
		t.Error("used before there was one")
	}
	lies := func(h *Held) string {
		t.Helper()
		dir, err := h.Mountpoint()
		if err != nil {
			t.Error(err)
		}
		return dir
	}
	one, err := r.Use("h")
	if err != nil || lies(one) != "" {
		t.Fatal(err)
	}
	place := t.TempDir()
	if err := errors.Join(one.Note("/a/longer/path/that/is/not/there/at/all/"+strings.Repeat("x", 200)), one.Note(place), one.Used(time.Unix(1e9, 0))); err != nil {
		t.Fatal(err)
	}
	two, err := r.Use("h")
	if err != nil || lies(two) != place || r.LastUse("h").Unix() != 1e9 || !slices.Equal(r.Names(), []string{"h"}) {
		t.Errorf("%v, %v, %v", err, lies(two), r.LastUse("h"))
	}
	if _, err := r.Take("h"); !errors.Is(err, ErrInUse) {
		t.Errorf("taken from two that use it: %v", err)
	}
	two.Close()
	if _, err := r.Take("h"); !errors.Is(err, ErrInUse) {
		t.Errorf("taken from one that uses it: %v", err)
	}
	one.Close()
	taken, err := r.Take("h")
	if err != nil {
		t.Fatal(err)
	}
	// Who comes meanwhile waits, and then begins with nothing.
	next := make(chan *Held)
	go func() {
		h, err := r.Use("h")
		if err != nil {
			t.Error(err)
		}
		next <- h
	}()
	if err := taken.Forget(); err != nil {
		t.Fatal(err)
	}
	taken.Close()
	h := <-next
	defer h.Close()
	if lies(h) != "" || len(r.Names()) != 1 {
		t.Errorf("%q, %q", lies(h), r.Names())
	}
	if err := os.RemoveAll(place); err != nil {
		t.Fatal(err)
	}
	if err := h.Note(place); err != nil || lies(h) != "" {
		t.Errorf("a volume that is gone: %q, %v", lies(h), err)
	}
	// A record from before there were formats is read, one of a newer aisb isn't.
	for text, want := range map[string]string{
		`{"mountpoint":"/tmp"}`: "/tmp", `{"format":1,"mountpoint":"/tmp"}`: "/tmp", `{"format":1,"mountpoint":7}`: "",
		`{"format":2,"mountpoint":"/tmp"}`: "newer", `{"format":2,"mountpoint":{"at":"/tmp"}}`: "newer", `{"format":"x"}`: "",
	} {
		if err := os.WriteFile(filepath.Join(r.Dir, "h"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := h.Mountpoint()
		if e, ok := errors.AsType[*newer.Error](err); ok && e.Known == 1 {
			got = "newer"
		}
		if got != want {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, bad := range []string{"../x", ".", ""} {
		if _, err := r.Use(bad); err == nil {
			t.Errorf("%q was held", bad)
		}
	}
}
