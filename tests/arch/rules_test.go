package arch

import (
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

const (
	maxLines    = 300
	maxFunction = 60
)

// exceptions are files, or "file function", that may be longer, and files whose
// function init may be, each with the reason. One that is no longer needed fails.
var exceptions = map[string]string{
	"sandbox/entry/early/early.go init": "to be early is what it is for (docs/adr/0137)",
}

// rule finds what is wrong with one Go file.
type rule func(f file) []string

var rules = map[string]rule{
	"size":       size,
	"documented": documented,
	"no init":    noInit,
	"names":      names,
	"skips":      skips,
}

// size counts lines, comments and blank ones too: what is scrolled through.
// Tables in tests may be as long as they have to be.
func size(f file) []string {
	if f.test() {
		return nil
	}
	var bad []string
	if n := strings.Count(f.text, "\n"); n > maxLines && exceptions[f.path] == "" {
		bad = append(bad, fmt.Sprintf("%d lines, at most %d", n, maxLines))
	}
	for _, d := range f.ast.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue
		}
		n := f.line(fn.End()) - f.line(fn.Pos()) + 1
		if n > maxFunction && exceptions[f.path+" "+fn.Name.Name] == "" {
			bad = append(bad, fmt.Sprintf("line %d: function %s has %d lines, at most %d", f.line(fn.Pos()), fn.Name.Name, n, maxFunction))
		}
	}
	return bad
}

// documented wants a comment at each exported name; one over a group of
// constants or variables does for all of it. Methods that the standard library
// asks for say nothing of their own.
func documented(f file) []string {
	if f.test() {
		return nil
	}
	var bad []string
	missing := func(name *ast.Ident, docs ...*ast.CommentGroup) {
		if name.IsExported() && !slices.ContainsFunc(docs, func(c *ast.CommentGroup) bool { return c != nil }) {
			bad = append(bad, fmt.Sprintf("line %d: exported %s has no comment", f.line(name.Pos()), name.Name))
		}
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil || ast.IsExported(receiver(d)) && !wellKnown[d.Name.Name] {
				missing(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, s := range d.Specs {
				switch s := s.(type) {
				case *ast.TypeSpec:
					missing(s.Name, s.Doc, soleDoc(d))
				case *ast.ValueSpec:
					for _, name := range s.Names {
						missing(name, s.Doc, s.Comment, d.Doc)
					}
				}
			}
		}
	}
	return bad
}

var wellKnown = map[string]bool{"Error": true, "Unwrap": true, "String": true}

// soleDoc is the comment of a declaration without parentheses.
func soleDoc(d *ast.GenDecl) *ast.CommentGroup {
	if d.Lparen.IsValid() {
		return nil
	}
	return d.Doc
}

// receiver is the name of a method's type.
func receiver(d *ast.FuncDecl) string {
	name := ""
	ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && name == "" {
			name = id.Name
		}
		return true
	})
	return name
}

// noInit: what happens before main happens in each of the three roles.
func noInit(f file) []string {
	var bad []string
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && fn.Name.Name == "init" && exceptions[f.path+" init"] == "" {
			bad = append(bad, fmt.Sprintf("line %d: init()", f.line(fn.Pos())))
		}
		if vars, ok := d.(*ast.GenDecl); ok && !f.test() && !strings.HasPrefix(f.path, "tests/") {
			bad = append(bad, compiled(f, vars)...)
		}
	}
	return bad
}

// compiled are the patterns that each start pays for, whether it needs them or not.
func compiled(f file, vars *ast.GenDecl) []string {
	var bad []string
	ast.Inspect(vars, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok && sel.Sel.Name == "MustCompile" {
			bad = append(bad, fmt.Sprintf("line %d: a pattern: compile it when it is needed (sync.OnceValue)", f.line(n.Pos())))
		}
		_, later := n.(*ast.FuncLit)
		return !later
	})
	return bad
}

// names: a package is named after what it does.
func names(f file) []string {
	for _, bad := range []string{"util", "utils", "common", "helper", "helpers", "types", "misc", "manager", "shared"} {
		if f.ast.Name.Name == bad {
			return []string{"package " + bad + " says nothing of what it is for"}
		}
	}
	return nil
}

// skips: a test leaves itself out through tests/need alone, which knows what
// this machine must be able to do.
func skips(f file) []string {
	if f.dir() == "tests/need" {
		return nil
	}
	var bad []string
	ast.Inspect(f.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				bad = append(bad, fmt.Sprintf("line %d: %s: skip through tests/need", f.line(n.Pos()), sel.Sel.Name))
			}
		case *ast.BasicLit:
			if n.Kind == token.STRING && strings.Contains(n.Value, "AISB_TEST"+"_REQUIRE") {
				bad = append(bad, fmt.Sprintf("line %d: ask tests/need what is required", f.line(n.Pos())))
			}
		}
		return true
	})
	return bad
}

// TestRules runs every rule over every Go file.
func TestRules(t *testing.T) {
	for _, f := range goFiles(t) {
		for name, rule := range rules {
			for _, bad := range rule(f) {
				t.Errorf("%s: %s: %s", f.path, name, bad)
			}
		}
	}
}

// TestPackageComments: each package says in one place what it is for.
func TestPackageComments(t *testing.T) {
	docs := map[string]int{}
	for _, f := range goFiles(t) {
		if _, seen := docs[f.dir()]; !seen {
			docs[f.dir()] = 0
		}
		if f.ast.Doc != nil {
			docs[f.dir()]++
		}
	}
	for dir, n := range docs {
		if n == 0 {
			t.Errorf("%s: no package comment", dir)
		}
	}
}

// TestExceptions: an exception that isn't needed any more is a hole.
func TestExceptions(t *testing.T) {
	for name, reason := range exceptions {
		path, _, _ := strings.Cut(name, " ")
		delete(exceptions, name)
		needed := false
		for _, f := range goFiles(t) {
			needed = needed || f.path == path && len(size(f))+len(noInit(f)) > 0
		}
		exceptions[name] = reason
		if !needed {
			t.Errorf("%s needs no exception", name)
		}
	}
}
