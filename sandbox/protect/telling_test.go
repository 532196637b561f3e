package protect

import (
	"fmt"
	"slices"
	"testing"
)

func TestMostTelling(t *testing.T) {
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	of := func(path string) Change {
		r := s.Would(path)
		if r == nil {
			t.Fatalf("%s: no rule", path)
		}
		return Change{Path: path, New: true, Rule: r}
	}
	var changes []Change
	for i := range 50 {
		changes = append(changes, of(fmt.Sprintf("a%d/.npmrc", i)), of(fmt.Sprintf("a%d/b/.git", i)))
	}
	changes = append(changes, of(".git/hooks"), of("z/.git"), of(".vscode"), of(".envrc"))
	var got []string
	for _, c := range MostTelling(changes, 6) {
		got = append(got, c.Path)
	}
	if want := []string{".git/hooks", "z/.git", ".envrc", ".vscode", "a0/.npmrc", "a0/b/.git"}; !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	if got := MostTelling(changes[:6], 6); len(got) != 6 || got[0].Path != "a0/.npmrc" {
		t.Errorf("where there is room for all: %v", got)
	}
}
