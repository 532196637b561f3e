package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
)

// row is one of the threat table: what attacks it and what shows that these bite.
type row struct {
	id, attack, stopped string
	attacks, bites      []string // names of tests
}

var rowID = regexp.MustCompile(`^T[0-9]+$`)

// parseModel reads the rows of docs/threat-model.md.
func parseModel(text string) ([]row, error) {
	var rows []row
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if !rowID.MatchString(cells[0]) {
			continue
		}
		if len(cells) != 5 {
			return nil, fmt.Errorf("row %s has %d cells, want 5", cells[0], len(cells))
		}
		rows = append(rows, row{cells[0], cells[1], cells[2], names(cells[3]), names(cells[4])})
	}
	return rows, nil
}

func names(cell string) []string {
	var list []string
	for name := range strings.SplitSeq(cell, ",") {
		list = append(list, strings.TrimSpace(name))
	}
	return list
}

// parseTests reads the tests of a directory: by name, the first sentence of what they
// say they do.
func parseTests(dir string) (map[string]string, error) {
	paths, err := filepath.Glob(filepath.Join(dir, "*_test.go"))
	if err != nil || len(paths) == 0 {
		return nil, fmt.Errorf("tests in %s: %w", dir, orMissing(err))
	}
	tests := map[string]string{}
	for _, path := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Test") && f.Name.Name != "TestMain" {
				tests[f.Name.Name] = says(f.Name.Name, f.Doc.Text())
			}
		}
	}
	return tests, nil
}

func orMissing(err error) error {
	if err == nil {
		return fs.ErrNotExist
	}
	return err
}

// says is what a test's comment says of it, in one line.
func says(name, doc string) string {
	text := strings.Join(strings.Fields(doc), " ")
	text = strings.TrimPrefix(strings.TrimPrefix(text, name), ":")
	first, _, _ := strings.Cut(text, ". ")
	return strings.TrimSuffix(strings.TrimSpace(first), ".")
}
