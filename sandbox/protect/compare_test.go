package protect

import (
	"fmt"
	"slices"
	"testing"
)

func TestCompare(t *testing.T) {
	s := load(t)
	vscode, envrc := s.Would(".vscode"), s.Would(".envrc")
	git, config := s.Would(".git"), s.Would(".git/config")
	runs := []Setting{{Section: "core", Name: "fsmonitor", Value: "./x"}}
	before := Snapshot{
		".envrc":          {Kind: File, Rule: envrc, Sum: "1"},
		"same/.envrc":     {Kind: File, Rule: envrc, Sum: "1"},
		"gone/.envrc":     {Kind: File, Rule: envrc, Sum: "1"},
		"link/.envrc":     {Kind: File, Rule: envrc, Sum: "1"},
		".vscode":         {Kind: Directory, Rule: vscode, Sum: "a"},
		".vscode/a":       {Kind: File, Rule: vscode, Member: true, Sum: "1"},
		".git":            {Kind: Directory, Rule: git},
		".git/config":     {Kind: File, Rule: config, Sum: "1"},
		"old/.git/config": {Kind: File, Rule: config, Sum: "1", Settings: runs},
	}
	now := Snapshot{
		".envrc":           {Kind: File, Rule: envrc, Sum: "2"},
		"same/.envrc":      {Kind: File, Rule: envrc, Sum: "1"},
		"link/.envrc":      {Kind: Link, Rule: envrc, Sum: "1"},
		".vscode":          {Kind: Directory, Rule: vscode, Sum: "b"},
		".vscode/a":        {Kind: File, Rule: vscode, Member: true, Sum: "1"},
		".vscode/b":        {Kind: File, Rule: vscode, Member: true, Sum: "1"},
		".git":             {Kind: Directory, Rule: git},
		".git/config":      {Kind: File, Rule: config, Sum: "2", Settings: runs},
		"old/.git/config":  {Kind: File, Rule: config, Sum: "2", Settings: runs},
		"sub/.vscode":      {Kind: Directory, Rule: vscode},
		"sub/.vscode/x":    {Kind: File, Rule: vscode, Member: true},
		"sub/.vscode/x/y":  {Kind: File, Rule: vscode, Member: true},
		"sub/.vscode-not":  {Kind: File, Rule: envrc},
		"new/.git":         {Kind: Directory, Rule: git},
		"new/.git/config":  {Kind: File, Rule: config, Settings: runs},
		"new/.git/hooks":   {Kind: Directory, Rule: s.Would(".git/hooks")},
		"new/.git/hooks/x": {Kind: File, Rule: s.Would(".git/hooks"), Member: true},
		"bare":             {Kind: Directory, Rule: s.Bare()},
		"bare/config":      {Kind: File, Rule: config, Settings: runs},
		"bare/sub/.envrc":  {Kind: File, Rule: envrc},
	}
	var got []string
	for _, c := range Compare(before, now) {
		got = append(got, fmt.Sprintf("%s %v %q", c.Path, c.New, c.Keys))
	}
	want := []string{
		`.envrc false []`, `.git/config false ["core.fsmonitor"]`, `.vscode/b true []`,
		`bare true ["core.fsmonitor"]`, `bare/sub/.envrc true []`, `link/.envrc false []`,
		`new/.git true ["core.fsmonitor"]`, `old/.git/config false []`, `sub/.vscode-not true []`, `sub/.vscode true []`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
	if c := Compare(before, before); c != nil {
		t.Errorf("nothing has changed: %+v", c)
	}
}

func TestWithin(t *testing.T) {
	for _, row := range []struct {
		path, dir string
		want      bool
	}{{"a", "a", true}, {"a/b", "a", true}, {"ab", "a", false}, {"a", ".", true}, {"/a", "/", true}, {"a", "a/b", false}} {
		if got := Within(row.path, row.dir); got != row.want {
			t.Errorf("Within(%q, %q) is %v", row.path, row.dir, got)
		}
	}
}
