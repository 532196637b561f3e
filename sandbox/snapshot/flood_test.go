package snapshot

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// An agent that fills the tree, for the next look to meet a limit, doesn't hide the
// repository from it.
func TestFlood(t *testing.T) {
	dir := t.TempDir()
	fill := func(names ...string) {
		for _, name := range names {
			for i := range 40 {
				write(t, fmt.Sprintf("%s/%s%d/.envrc", dir, name, i), "")
				write(t, fmt.Sprintf("%s/.vscode/%s%d", dir, name, i), "")
			}
		}
	}
	fill("a", "b")
	write(t, dir+"/.git/config", "[core]\n\tbare = false\n")
	write(t, dir+"/.git/hooks/pre-commit", "")
	write(t, dir+"/.git/modules/m/config", "")
	fill("c", "d")
	for _, l := range []Limits{{Entries: 1000, Time: time.Minute, Found: 100}, {Entries: 300, Time: time.Minute, Found: 10_000}} {
		look := Take(trees(t, dir), set(t), l, nil)
		for _, name := range []string{".vscode", ".git/config", ".git/hooks", ".git/modules/m/config"} {
			if _, ok := look.Entries[name]; !ok || !look.Cut {
				t.Errorf("%+v: %s was found: %v, cut: %v", l, name, ok, look.Cut)
			}
		}
	}
}

// Nor does one that fills one directory.
func TestFloodOfOneDirectory(t *testing.T) {
	for _, in := range []string{"", ".vscode/"} {
		dir := t.TempDir()
		for i := range 200 {
			write(t, fmt.Sprintf("%s/%s%d.code-workspace", dir, in, i), "")
		}
		write(t, dir+"/.git/config", "")
		write(t, dir+"/.vscode/x", "")
		look := Take(trees(t, dir), set(t), Limits{Entries: 1000, Time: time.Minute, Found: 100}, nil)
		for _, name := range []string{".vscode", ".git/config"} {
			if _, ok := look.Entries[name]; !ok || !look.Cut || len(look.Entries) > 60 {
				t.Errorf("%q: %s was found: %v, cut: %v, %d in all", in, name, ok, look.Cut, len(look.Entries))
			}
		}
	}
}

// What git's configuration says is read however much else there is to be read.
func TestConfigurationIsRead(t *testing.T) {
	dir := t.TempDir()
	blob := strings.Repeat("x", largeFile)
	for i := range readInAll/largeFile + 8 {
		write(t, fmt.Sprintf("%s/%d.code-workspace", dir, i), blob)
	}
	write(t, dir+"/.git/config", "[core]\n\thooksPath = tools\n")
	look := Take(trees(t, dir), set(t), plenty, nil)
	if e := look.Entries[".git/config"]; len(protect.NewlyExecutes(nil, e.Settings)) != 1 || look.Cut {
		t.Errorf("%+v, cut %v", e, look.Cut)
	}
	// One that is too large to be read is said to be.
	if err := os.WriteFile(dir+"/.git/config", []byte("[core]\n#"+blob), 0o644); err != nil {
		t.Fatal(err)
	}
	if look := Take(trees(t, dir), set(t), plenty, nil); !look.Cut {
		t.Error("it is taken for read")
	}
}
