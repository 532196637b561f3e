// Package arch holds the tree to docs/architecture.md and to the house rules:
// each test reads files and runs nothing of aisb's.
package arch

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/aisb-dev/aisb"

// file is a text file of the tree. Go files are parsed whatever their build
// tags, so that no rule ends at a tag.
type file struct {
	path string // below the top, with slashes
	text string
	fset *token.FileSet
	ast  *ast.File // nil unless Go
}

func (f file) dir() string { return path.Dir(f.path) }

// test reports whether the file is code of a test binary and nothing else.
func (f file) test() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f file) line(p token.Pos) int { return f.fset.Position(p).Line }

// imports are the packages that the file imports, those of aisb without module.
func (f file) imports() []string {
	var list []string
	for _, spec := range f.ast.Imports {
		name := strings.Trim(spec.Path.Value, `"`)
		list = append(list, strings.TrimPrefix(name, module+"/"))
	}
	return list
}

func parse(name, text string) (file, error) {
	f := file{path: name, text: text}
	if !strings.HasSuffix(name, ".go") {
		return f, nil
	}
	f.fset = token.NewFileSet()
	var err error
	f.ast, err = parser.ParseFile(f.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return f, err
}

const top = "../.."

// hidden are the names with a dot that belong to the project.
var hidden = map[string]bool{".ci": true, ".gitignore": true, ".golangci.yml": true}

// read reads every text file of the tree, once.
var read = sync.OnceValues(func() ([]file, error) {
	var files []file
	err := filepath.WalkDir(top, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		rel, err := filepath.Rel(top, p)
		switch {
		case err != nil:
			return err
		case p != top && strings.HasPrefix(name, ".") && !hidden[name], rel == "dist":
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case d.IsDir() || !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil || bytes.IndexByte(text, 0) >= 0 { // a binary that was built here
			return err
		}
		f, err := parse(filepath.ToSlash(rel), string(text))
		files = append(files, f)
		return err
	})
	return files, err
})

// tree is what read reads. It fails where that is suspiciously little.
func tree(t *testing.T) []file {
	t.Helper()
	files, err := read()
	if err != nil {
		t.Fatal(err)
	}
	if len(files) < 100 {
		t.Fatalf("only %d files found: not the whole tree", len(files))
	}
	return files
}

func goFiles(t *testing.T) []file {
	t.Helper()
	var list []file
	for _, f := range tree(t) {
		if f.ast != nil {
			list = append(list, f)
		}
	}
	return list
}
