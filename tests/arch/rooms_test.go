package arch

import (
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// room is a package, as docs/architecture.md draws it.
type room struct {
	about  string
	arrows []string
}

// drawn reads the block under "Rooms and arrows": a line a room, its name, what
// it is, and after the arrow what it may import; a list may go on in the next
// line, which then starts with a space.
func drawn(text string) map[string]room {
	_, text, _ = strings.Cut(text, "## Rooms and arrows\n")
	_, text, _ = strings.Cut(text, "```\n")
	text, _, _ = strings.Cut(text, "```\n")
	rooms := map[string]room{}
	last := ""
	for line := range strings.Lines(text) {
		about, list, arrow := strings.Cut(line, "──►")
		if line[0] == ' ' {
			about, list = "", line
		} else {
			last, about, _ = strings.Cut(about, " ")
			if !arrow {
				list = ""
			}
		}
		r := rooms[last]
		r.about += strings.TrimSpace(about)
		for name := range strings.SplitSeq(list, ",") {
			if name = strings.TrimSpace(name); name != "" {
				r.arrows = append(r.arrows, name)
			}
		}
		rooms[last] = r
	}
	return rooms
}

func rooms(t *testing.T) map[string]room {
	t.Helper()
	text, err := os.ReadFile(top + "/docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	return drawn(string(text))
}

// command is the one package that may import all others.
const command = "cmd/aisb"

// TestArrows holds that what imports what is what is drawn: no other arrow, no
// arrow that isn't there, no room without its line.
func TestArrows(t *testing.T) {
	rooms := rooms(t)
	seen := map[string]map[string]bool{} // room, imported room
	for _, f := range goFiles(t) {
		if strings.HasPrefix(f.dir(), "tests/") {
			continue
		}
		r, ok := rooms[f.dir()]
		if !ok {
			t.Errorf("%s: docs/architecture.md has no room %q", f.path, f.dir())
			continue
		}
		if seen[f.dir()] == nil {
			seen[f.dir()] = map[string]bool{}
		}
		for _, name := range f.imports() {
			if !ours(name) || f.test() && allowedInTests(f.dir(), name) {
				continue
			}
			if f.dir() != command && !slices.Contains(r.arrows, name) {
				t.Errorf("%s imports %s: docs/architecture.md draws no such arrow", f.path, name)
			}
			if !f.test() {
				seen[f.dir()][name] = true
			}
		}
	}
	for name, r := range rooms {
		if name == "tests" || name == command {
			continue
		}
		if seen[name] == nil {
			t.Errorf("docs/architecture.md: there is no room %s", name)
		}
		for _, to := range r.arrows {
			if !seen[name][to] {
				t.Errorf("docs/architecture.md: %s doesn't import %s", name, to)
			}
		}
	}
}

// ours reports whether an import, as file.imports has it, is of this module.
// The standard library has no package under these names.
func ours(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{"cmd", "gate", "netpolicy", "sandbox", "image", "tests"}, first)
}

// allowedInTests: tests may use the tests' own packages, and the package that
// they test from outside.
func allowedInTests(dir, name string) bool {
	return name == "tests/need" || name == "tests/fakes" || name == "tests/mutants" || name == "tests/screen" || name == dir
}

// TestArrowsOfTests holds that nothing but tests needs what is under tests, and
// that the line "tests" names what there is.
func TestArrowsOfTests(t *testing.T) {
	have := map[string]bool{}
	for _, f := range tree(t) {
		if name, ok := strings.CutPrefix(f.dir(), "tests/"); ok {
			first, _, _ := strings.Cut(name, "/")
			have[first] = true
			continue
		}
		if f.ast == nil {
			continue
		}
		for _, name := range f.imports() {
			if strings.HasPrefix(name, "tests/") && !f.test() {
				t.Errorf("%s imports %s: that is for tests", f.path, name)
			}
		}
	}
	listed := strings.Fields(strings.ReplaceAll(rooms(t)["tests"].about, ",", " "))
	if got := slices.Sorted(maps.Keys(have)); !slices.Equal(got, slices.Sorted(slices.Values(listed))) {
		t.Errorf("docs/architecture.md lists tests %v, there are %v", listed, got)
	}
}

// pureExceptions are files of pure rooms that touch the system all the same.
var pureExceptions = map[string]string{
	"gate/policy/load.go": "opens the file of --allow-file, and hands lines to the rest",
}

// TestPure holds that rooms which are said to be pure can't touch the system.
func TestPure(t *testing.T) {
	impure := []string{"os", "os/exec", "os/user", "net", "net/http", "syscall", "golang.org/x/sys/unix", "time", "math/rand", "crypto/rand"}
	found := 0
	for name, r := range rooms(t) {
		if !strings.HasSuffix(r.about, ": pure") {
			continue
		}
		found++
		for _, f := range goFiles(t) {
			if f.dir() != name || f.test() || pureExceptions[f.path] != "" {
				continue
			}
			for _, imported := range f.imports() {
				if slices.Contains(impure, imported) {
					t.Errorf("%s imports %s, and %s is said to be pure", f.path, imported, name)
				}
			}
		}
	}
	if found < 3 {
		t.Errorf("only %d rooms are said to be pure", found)
	}
}

// TestEntryLinks holds what pid 1 may be made of: it starts before each command
// and runs until its end, and what it doesn't hold nobody can turn against it.
func TestEntryLinks(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./sandbox/entry")
	cmd.Dir = top
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, module+"/sandbox/seccomp") {
		t.Fatalf("not the list of what sandbox/entry links: %s", out)
	}
	for _, name := range linked {
		for _, bad := range []string{
			"net/http", "crypto/tls", "os/user", "github.com/spf13/", "github.com/elazarl/", "go.uber.org/", "github.com/miekg/",
			module + "/gate/policy", module + "/gate/resolve", module + "/sandbox/podman", module + "/image",
		} {
			if name == bad || strings.HasSuffix(bad, "/") && strings.HasPrefix(name, bad) {
				t.Errorf("sandbox/entry links %s", name)
			}
		}
	}
}

// TestDrawn holds the reading of the picture, on which TestArrows stands.
func TestDrawn(t *testing.T) {
	got := drawn("x ──► no\n## Rooms and arrows\n\n```\ncmd/aisb ──► all\na     first ──► b, c/d,\n      e\nb     second: pure\n```\nz ──► no\n")
	want := map[string]room{
		command: {"", []string{"all"}},
		"a":     {"first", []string{"b", "c/d", "e"}},
		"b":     {"second: pure", nil},
	}
	same := func(a, b room) bool { return a.about == b.about && slices.Equal(a.arrows, b.arrows) }
	if !maps.EqualFunc(got, want, same) {
		t.Errorf("got %v, want %v", got, want)
	}
}
