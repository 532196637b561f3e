package protect

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The table of docs/protect.md is that of the data.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/protect.md")
	if err != nil {
		t.Fatal(err)
	}
	s := load(t)
	kinds := map[string]string{
		ofFile: "file", ofDir: "directory, with all in it", ofRepository: "git directory, or a file that names one",
		ofRepositories: "its git directories", ofBare: "a directory that has these",
	}
	places := map[string]string{
		whereAny: "anywhere", whereEverywhere: "anywhere, dependencies too", whereRepository: "in each git directory", whereTop: "at the top",
	}
	var rows strings.Builder
	for _, r := range s.Rules {
		name := r.Path
		if r.Kind == ofBare {
			name = "HEAD with objects and refs"
		}
		fmt.Fprintf(&rows, "| `%s` | %s | %s | %s | %s |\n", name, kinds[r.Kind], places[r.Where], r.Group, r.Why)
	}
	if !strings.Contains(string(text), "|---|---|---|---|---|\n"+rows.String()+"\n") {
		t.Errorf("docs/protect.md should have these rows, and no others:\n%s", rows.String())
	}
	if deps := "`" + strings.Join(s.Dependencies, "`, `") + "`"; !strings.Contains(string(text), deps) {
		t.Errorf("docs/protect.md should have %s", deps)
	}
}
