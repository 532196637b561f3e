package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	faultsPage  = "../../docs/faults.md"
	faultsTable = "../e2e/faulttable_test.go"
)

// Marks around the rows that TestFaultsPage writes.
const (
	rowsBegin = "<!-- rows: written by AISB_WRITE_DOCS=1 go test ./tests/evidence -->\n"
	rowsEnd   = "<!-- end of rows -->\n"
)

// faultRows are the rows of faultTable in a file, as the page has them.
func faultRows(text string) ([]string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), "table.go", text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var rows []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || spec.Names[0].Name != "faultTable" {
			return true
		}
		for _, e := range spec.Values[0].(*ast.CompositeLit).Elts {
			fields := map[string]string{}
			for _, f := range e.(*ast.CompositeLit).Elts {
				kv := f.(*ast.KeyValueExpr)
				value := types.ExprString(kv.Value)
				if plain, err := strconv.Unquote(value); err == nil {
					value = plain
				}
				fields[types.ExprString(kv.Key)] = value
			}
			rows = append(rows, faultRow(fields))
		}
		return false
	})
	return rows, nil
}

func faultRow(f map[string]string) string {
	who, by, status, says := f["who"], "SIGKILL", f["status"], "nothing"
	if f["backend"] != "" {
		who += " (" + f["backend"] + ")"
	}
	if f["how"] != "" {
		by = strings.TrimPrefix(f["how"], "syscall.")
	}
	switch {
	case status == "-1":
		status, says = "killed", "nothing can"
	case f["says"] != "":
		says = "error: ... " + f["says"]
	}
	if f["dir"] == "true" {
		says += "; its run directory stays until a later run"
	}
	command := "not started"
	if f["ran"] == "true" {
		command = "ran"
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", who, f["step"], by, command, status, says)
}

// TestFaultsPage: docs/faults.md has the rows of the table that is tried, and names no test
// that doesn't exist.
func TestFaultsPage(t *testing.T) {
	code, err := os.ReadFile(faultsTable)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := faultRows(string(code))
	if err != nil {
		t.Fatal(err)
	}
	if len(rows) < 40 {
		t.Errorf("%d rows, want 40 or more", len(rows))
	}
	text, err := os.ReadFile(faultsPage)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), rowsBegin)
	had, after, ended := strings.Cut(rest, rowsEnd)
	if !ok || !ended {
		t.Fatal("the page has no place for the rows")
	}
	if want := strings.Join(rows, ""); had != want {
		if os.Getenv("AISB_WRITE_DOCS") == "" {
			t.Errorf("the rows of %s are not those of %s: AISB_WRITE_DOCS=1 go test ./tests/evidence writes them", faultsPage, faultsTable)
		} else if err := os.WriteFile(faultsPage, []byte(before+rowsBegin+want+rowsEnd+after), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range missingTests(before+after, "../..") {
		t.Error(wrong)
	}
}

var namedTest = regexp.MustCompile("`(?:([a-z0-9/]+) )?(Test[A-Za-z0-9]+)`")

// missingTests are the names in a text, `TestX` of tests/e2e and `DIR TestX` of others, of
// tests that don't exist.
func missingTests(text, top string) []string {
	var wrong []string
	for _, m := range namedTest.FindAllStringSubmatch(text, -1) {
		dir := m[1]
		if dir == "" {
			dir = "tests/e2e"
		}
		tests, err := parseTests(filepath.Join(top, dir))
		if _, ok := tests[m[2]]; err != nil || !ok {
			wrong = append(wrong, fmt.Sprintf("there is no test %s in %s (%v)", m[2], dir, err))
		}
	}
	return wrong
}

// What holds the page can fail.
func TestFaultsPageBites(t *testing.T) {
	rows, err := faultRows("package x\n\nvar faultTable = []fault{{who: \"a\", step: \"b\", how: syscall.SIGTERM, status: 7, says: \"no\", ran: true, backend: \"inner\"},\n{who: \"c\", step: \"d\", status: -1}}\n")
	if got := strings.Join(rows, ""); err != nil || got != "| a (inner) | b | SIGTERM | ran | 7 | error: ... no |\n| c | d | SIGKILL | not started | killed | nothing can |\n" {
		t.Errorf("%q, %v", got, err)
	}
	if wrong := missingTests("`TestNoSuch`, `gate TestNoSuch`, `nowhere TestX`, `tests/evidence TestFaultsPage`", "../.."); len(wrong) != 3 {
		t.Errorf("%q", wrong)
	}
}
