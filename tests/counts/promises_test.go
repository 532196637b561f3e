package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// suite are the test files of a directory.
type suite struct {
	tests   []*ast.FuncDecl
	helpers map[string][]*ast.FuncDecl // by name, methods too
}

// suites reads all test files of the tree, whatever their build tags.
func suites(t *testing.T) map[string]*suite {
	t.Helper()
	all := map[string]*suite{}
	const top = "../.."
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != top && strings.HasPrefix(d.Name(), ".") {
			return fs.SkipDir
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") {
			return nil
		}
		dir, err := filepath.Rel(top, filepath.Dir(path))
		if err != nil {
			return err
		}
		if all[dir] == nil {
			all[dir] = newSuite()
		}
		return all[dir].add(path, nil)
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func newSuite() *suite {
	return &suite{helpers: map[string][]*ast.FuncDecl{}}
}

func (s *suite) add(path string, text any) error {
	file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, d := range file.Decls {
		f, ok := d.(*ast.FuncDecl)
		switch {
		case !ok || f.Body == nil:
		case isTest(f, "Test") || isTest(f, "Fuzz"):
			s.tests = append(s.tests, f)
		default:
			s.helpers[f.Name.Name] = append(s.helpers[f.Name.Name], f)
		}
	}
	return nil
}

func isTest(f *ast.FuncDecl, prefix string) bool {
	return f.Recv == nil && strings.HasPrefix(f.Name.Name, prefix) && f.Name.Name != "TestMain" && len(f.Type.Params.List) == 1 && f.Type.Results == nil
}

// fails are what a test calls to fail (testing.T, and testscript's TestScript).
var fails = []string{"Error", "Errorf", "Fatal", "Fatalf", "Fail", "FailNow", "Check"}

// judges reports whether a function can fail its test for what it has found out. A
// helper that returns something only prepares: if it fails, nothing was found out.
func (s *suite) judges(f *ast.FuncDecl, seen map[string]bool) bool {
	found := false
	ast.Inspect(f.Body, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || found {
			return !found
		}
		name, of := "", ""
		switch fun := call.Fun.(type) {
		case *ast.Ident:
			name = fun.Name
		case *ast.SelectorExpr:
			name = fun.Sel.Name
			if x, ok := fun.X.(*ast.Ident); ok {
				of = x.Name
			}
			// A script is judged by what stands in it.
			found = slices.Contains(fails, name) && of != "errors" && of != "fmt" || of == "testscript" && name == "Run"
		}
		if !found && !seen[name] {
			seen[name] = true
			for _, h := range s.helpers[name] {
				found = found || h.Type.Results == nil && s.judges(h, seen)
			}
		}
		return !found
	})
	return found
}

// promise is what is wrong with a test, "" when nothing is.
func (s *suite) promise(f *ast.FuncDecl, mustSay bool) string {
	says := strings.Fields(strings.TrimPrefix(f.Doc.Text(), f.Name.Name))
	switch {
	case !s.judges(f, map[string]bool{}):
		return "no call in it can fail"
	case mustSay && len(says) < 4:
		return "no comment says what it holds"
	}
	return ""
}

// TestPromises: no test of the tree is one that can't fail, and each that runs aisb as a
// whole says what it holds.
func TestPromises(t *testing.T) {
	n := 0
	for dir, s := range suites(t) {
		for _, f := range s.tests {
			n++
			if wrong := s.promise(f, dir == "tests/e2e" || dir == "tests/wire"); wrong != "" {
				t.Errorf("%s: %s: %s", dir, f.Name.Name, wrong)
			}
		}
	}
	if n < 500 {
		t.Errorf("only %d tests were read", n)
	}
}

// TestPromisesBite: what the above looks for is found.
func TestPromisesBite(t *testing.T) {
	const helpers = `package a
func made(t *testing.T) int { t.Fatal(); return 1 }
func want(t *testing.T) { t.Helper(); deep(t) }
func deep(t *testing.T) { t.Errorf("x") }
func idle(t *testing.T) { idle(t) }
func (o out) wantStatus(t *testing.T, n int) { t.Fatalf("x") }
`
	for body, want := range map[string]string{
		`t.Error("x")`:                        "",
		`want(t)`:                             "",
		`o.wantStatus(t, 1)`:                  "",
		`t.Run("x", func(t T) { t.Fatal() })`: "",
		`for _, c := range cases { c.check(t) }; want(t)`: "",
		`testscript.Run(t, p)`:                            "",
		`made(t)`:                                         "no call in it can fail",
		`_ = made(t); t.Log("x"); errors.Error()`:         "no call in it can fail",
		`idle(t)`: "no call in it can fail",
		``:        "no call in it can fail",
	} {
		for doc, says := range map[string]string{"// TestA: x is y, whatever z.": "", "": "no comment says what it holds", "// TestA: does it.": "no comment says what it holds"} {
			s := newSuite()
			if err := s.add("a.go", helpers+doc+"\nfunc TestA(t *testing.T) { "+body+" }\n"); err != nil {
				t.Fatal(err)
			}
			wants := want
			if want == "" {
				wants = says
			}
			if got := s.promise(s.tests[0], true); got != wants {
				t.Errorf("%s %q: got %q, want %q", doc, body, got, wants)
			}
		}
	}
}

// TestScriptsSay: each command of a script stands below a comment, which testscript
// takes for the name of what it holds.
func TestScriptsSay(t *testing.T) {
	paths, err := filepath.Glob("../../cmd/aisb/testdata/script/*.txtar")
	if err != nil || len(paths) < 20 {
		t.Fatalf("%d scripts, %v", len(paths), err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s: it begins with no comment that says what it holds", filepath.Base(path))
		}
	}
}
