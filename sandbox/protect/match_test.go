package protect

import (
	"strings"
	"testing"
)

func load(t testing.TB) *Set {
	t.Helper()
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// judge walks to a path as a look does; kind is that of its last name.
func judge(s *Set, path string, kind Kind) Verdict {
	d := Top
	names := strings.Split(path, "/")
	for i, name := range names {
		if i == len(names)-1 {
			return s.Entry(d, []byte(name), kind)
		}
		v := s.Entry(d, []byte(name), Directory)
		if !v.Enter {
			return Verdict{}
		}
		d = v.In
	}
	return Verdict{}
}

func TestEntry(t *testing.T) {
	s := load(t)
	for _, row := range []struct {
		path string
		kind Kind
		rule string // path of the rule, "" for none
	}{
		{"main.go", File, ""},
		{"src", Directory, ""},
		{".git", Directory, ".git"},
		{".git", File, ".git"},
		{".git", Link, ".git"},
		{".GIT", Directory, ".git"},
		{".git/config", File, "config"},
		{".git/config", Directory, ""},
		{".git/config.worktree", File, "config.worktree"},
		{".git/commondir", File, "commondir"},
		{".git/commondir", Link, "commondir"},
		{".git/hooks", Directory, "hooks"},
		{".git/hooks/pre-commit", File, "hooks"},
		{".git/HEAD", File, ""},
		{".git/objects/ab/config", File, ""},
		{".git/modules/a/config", File, "config"},
		{".git/modules/a/b/hooks", Directory, "hooks"},
		{".git/modules/a/objects/config", File, ""},
		{".git/worktrees/w/gitdir", File, "gitdir"},
		{".git/worktrees/w/modules/m/config", File, "config"},
		{"vendor/sub/.git", File, ".git"},
		{"a/b/.git/config", File, "config"},
		{"node_modules/x/.git/config", File, "config"},
		{"config", File, ""},
		{"hooks", Directory, ""},
		{".vscode", Directory, ".vscode"},
		{".vscode", File, ""},
		{".vscode", Link, ".vscode"},
		{".vscode/a/b", File, ".vscode"},
		{"packages/p/.vscode", Directory, ".vscode"},
		{"node_modules/p/.vscode", Directory, ""},
		{"x/NODE_MODULES/p/.npmrc", File, ""},
		{".venv/lib/site-packages/x/.envrc", File, ""},
		{"one.code-workspace", File, "*.code-workspace"},
		{"ONE.Code-Workspace", Link, "*.code-workspace"},
		{".code-workspace", File, "*.code-workspace"},
		{"code-workspace", File, ""},
		{".cargo", Directory, ""},
		{".cargo/config.toml", File, ".cargo/config.toml"},
		{".cargo", Link, ".cargo/config.toml"},
		{".cargo/registry", Directory, ""},
		{"config.toml", File, ""},
		{"a/.cargo/config.toml", File, ".cargo/config.toml"},
		{".cargo/.envrc", File, ".envrc"},
		{".venv/bin", Directory, ".venv/bin"},
		{".venv/bin/pip", File, ".venv/bin"},
		{".venv", Link, ".venv/bin"},
		{".github/workflows/ci.yml", File, ".github/workflows"},
		{".github/ISSUE_TEMPLATE", Directory, ""},
		{".envrc", Other, ".envrc"},
		{".aisb.toml", File, ".aisb.toml"},
		{strings.Repeat("x", 255), File, ""},
		{strings.Repeat("x", 200) + ".code-workspace", File, "*.code-workspace"},
	} {
		v := judge(s, row.path, row.kind)
		got := ""
		if v.Rule != nil {
			got = v.Rule.Path
		}
		if strings.HasPrefix(got, ".") && strings.Contains(got, "/") && row.kind == Link {
			got = row.rule // of several that begin so, any
		}
		if got != row.rule {
			t.Errorf("%s (%v): rule %q, want %q", row.path, row.kind, got, row.rule)
		}
	}
}

func TestBare(t *testing.T) {
	s := load(t)
	for _, row := range []struct {
		names string
		want  bool
	}{
		{"HEAD objects refs", true},
		{"head Objects refs config", true},
		{"HEAD commondir", true},
		{"HEAD objects", false},
		{"objects refs commondir", false},
		{"", false},
	} {
		var m Marks
		for name := range strings.FieldsSeq(row.names) {
			m |= s.Entry(Dir{}, []byte(name), File).Mark
		}
		if m.Bare() != row.want {
			t.Errorf("%q: %v, want %v", row.names, m.Bare(), row.want)
		}
	}
}

func TestWould(t *testing.T) {
	s := load(t)
	for path, want := range map[string]bool{
		".vscode": true, ".vscode/tasks.json": true, "a/.envrc": true, ".git/config": true, "./.git/hooks/": true,
		".git/description": false, "src": false, "src/main.go": false, ".": false, "node_modules/a/.envrc": false,
	} {
		if got := s.Would(path) != nil; got != want {
			t.Errorf("Would(%q) is %v, want %v", path, got, want)
		}
	}
}

// What the data may hold, and every rule matches what it says.
func TestRules(t *testing.T) {
	s := load(t)
	for _, r := range s.Rules {
		if r.Kind == ofBare {
			continue
		}
		path := strings.Replace(r.Path, "*", "some", 1)
		if r.Where == whereRepository {
			path = ".git/" + path
		}
		kind := Directory
		if r.Kind == ofFile {
			kind = File
		}
		for _, prefix := range []string{"", "deep/down/"} {
			if v := judge(s, prefix+path, kind); (v.Rule == r) != (prefix == "" || r.Where != whereTop) {
				t.Errorf("%s%s: %+v, want %+v", prefix, path, v.Rule, r)
			}
		}
	}
	for _, bad := range []string{
		`{`, `{"rules": [{"path": "", "kind": "file", "where": "any", "group": "git", "why": "x"}]}`,
		`{"rules": [{"path": "A", "kind": "file", "where": "any", "group": "git", "why": "x"}]}`,
		`{"rules": [{"path": "a/b/c", "kind": "file", "where": "any", "group": "git", "why": "x"}]}`,
		`{"rules": [{"path": "../a", "kind": "file", "where": "any", "group": "git", "why": "x"}]}`,
		`{"rules": [{"path": "a", "kind": "file", "where": "any", "group": "git"}]}`,
		`{"rules": [{"path": "a", "kind": "file", "where": "any", "group": "other", "why": "x"}]}`,
		`{"rules": [{"path": "a", "kind": "thing", "where": "any", "group": "git", "why": "x"}]}`,
		`{"rules": [{"path": "a", "kind": "file", "where": "here", "group": "git", "why": "x"}]}`,
		`{"rules": [{"path": "*.a", "kind": "dir", "where": "any", "group": "git", "why": "x"}]}`,
	} {
		if _, err := parse([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

// It is asked for every name of a tree.
func TestEntryMakesNothing(t *testing.T) {
	s := load(t)
	names := [][]byte{[]byte("main.go"), []byte(".envrc"), []byte("README.md"), []byte("x.code-workspace")}
	if n := testing.AllocsPerRun(100, func() {
		for _, name := range names {
			s.Entry(Top, name, File)
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEntry(b *testing.B) {
	s := load(b)
	name := []byte("session_test.go")
	for b.Loop() {
		s.Entry(Top, name, File)
	}
}
