package clients

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// page is the page whose table is made from the matrix and testdata.
const page = "../../docs/clients.md"

const (
	tableBegins = "<!-- table: go test ./tests/clients -update -->\n"
	tableEnds   = "<!-- end of table -->\n"
)

// TestPage holds that the page's table is what the matrix and testdata make it.
func TestPage(t *testing.T) {
	text, err := os.ReadFile(page)
	check(t, err)
	head, rest, ok := strings.Cut(string(text), tableBegins)
	old, tail, ok2 := strings.Cut(rest, tableEnds)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table", page)
	}
	made := table(t)
	if *update {
		check(t, os.WriteFile(page, []byte(head+tableBegins+made+tableEnds+tail), 0o644))
		return
	}
	if old != made {
		t.Errorf("%s: got\n%s\nwant\n%s", page, old, made)
	}
}

// table has a line for each client and one for each refusal.
func table(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("| client | version | allowed, bytes compared | refused | exit | what it prints of that |\n|---|---|---|---|---|---|\n")
	for _, c := range matrix {
		text, err := os.ReadFile("testdata/" + c.name + ".txt")
		check(t, err)
		version, rest, _ := strings.Cut(string(text), "\n")
		blocks := strings.Split(rest, "\n$ ")[1:]
		if len(blocks) != len(c.refused) {
			t.Errorf("testdata/%s.txt has %d commands, the matrix %d", c.name, len(blocks), len(c.refused))
			continue
		}
		name, does := c.name, c.does
		for i, block := range blocks {
			lines := strings.Split(strings.TrimSpace(block), "\n")
			exit := strings.Trim(lines[len(lines)-1], "[]exit ")
			fmt.Fprintf(&b, "| %s | %s | %s | `%s` | %s | %s |\n", name, version, does, cell(short(c.refused[i].command)), exit, cell(telling(lines[1:len(lines)-1])))
			name, version, does = "", "", ""
		}
	}
	return b.String()
}

// telling is the line of an output that says most.
func telling(lines []string) string {
	for _, sign := range []string{"Blocked by aisb", "403", "unrecognized", "rror"} {
		for _, line := range lines {
			if strings.Contains(line, sign) {
				return "`" + strings.TrimSpace(line) + "`"
			}
		}
	}
	if len(lines) > 0 {
		return "`" + strings.TrimSpace(lines[len(lines)-1]) + "`"
	}
	return "nothing"
}

// short is a command without the options of ssh, which the page has in full.
func short(command string) string { return strings.Replace(command, sshCommand, "ssh", 1) }

// cell can stand in a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }
