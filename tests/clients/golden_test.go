package clients

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata and the table of docs/clients.md from what the clients do now")

// changing is what differs from run to run, from machine to machine, and from
// one version to the next.
var changing = []struct {
	pattern *regexp.Regexp
	to      string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d[:_]\d\d[:_]\d\d([.,_]\d+Z?)?`), "TIME"},
	{regexp.MustCompile(`0x[0-9a-f]{6,}`), "0xADDRESS"},
	{regexp.MustCompile(`\b[0-9A-F]{16}:error`), "THREAD:error"},
	{regexp.MustCompile(`DIR(/[\w.+-]+)+/TIME[\w-]*\.log`), "LOG"},
	{regexp.MustCompile(`(?m)^Ign:.*\n`), ""}, // apt's attempts, in an order of chance
	{regexp.MustCompile(`Node\.js v[\d.]+`), "Node.js VERSION"},
	// Where in a program's own sources the error was made is nobody's promise.
	{regexp.MustCompile(`(?m)^\s+at .*\n`), ""},
	{regexp.MustCompile(`(?m)^node:internal/.*\n(?:.*\n)?\s*\^\n`), ""},
	{regexp.MustCompile(`(?m)(^Traceback .*\n)(?:[ \t]+.*\n)+`), "$1"},
	{regexp.MustCompile(`(?m)[ \t]+$`), ""},
	{regexp.MustCompile(`\n\n\n+`), "\n\n"},
}

// normal is a text without what changes.
func normal(text, dir string) string {
	text = strings.ReplaceAll(text, dir, "DIR")
	text = strings.ReplaceAll(text, "\r\n", "\n")
	if i := strings.LastIndex(text, "\r"); i >= 0 { // a progress line that was written over
		text = regexp.MustCompile(`(?m)^.*\r`).ReplaceAllString(text, "")
	}
	for _, c := range changing {
		text = c.pattern.ReplaceAllString(text, c.to)
	}
	return strings.Trim(text, "\n")
}

// golden is the text of one client's refusals, with the version that gave it.
type golden struct {
	version string
	text    strings.Builder
}

func (g *golden) add(command, out string, exit int) {
	fmt.Fprintf(&g.text, "\n$ %s\n", command)
	if out != "" {
		g.text.WriteString(out + "\n")
	}
	fmt.Fprintf(&g.text, "[exit %d]\n", exit)
}

// compare holds it against testdata. Another version of a client may find other
// words, so there only the same commands must be refused.
func (g *golden) compare(t *testing.T, name string) {
	t.Helper()
	file := filepath.Join("testdata", name+".txt")
	got := g.version + "\n" + g.text.String()
	if *update {
		check(t, os.WriteFile(file, []byte(got), 0o644))
		return
	}
	text, err := os.ReadFile(file)
	check(t, err)
	version, _, _ := strings.Cut(string(text), "\n")
	switch {
	case version != g.version:
		t.Logf("%s is of %q, here is %q: the words are not compared", file, version, g.version)
	case got != string(text):
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, text)
	}
}
