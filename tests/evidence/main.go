// Command evidence keeps docs/threat-model.md true. With -tests it prints the regular
// expression of the tests that the model names; with files of what these printed, each
// as BACKEND=FILE, it writes the page of what they saw, and fails if one of them failed.
package main

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
)

func main() {
	list := flag.Bool("tests", false, "print the tests that the model names")
	about := flag.String("about", "", "on what they ran")
	out := flag.String("out", "docs/evidence.md", "the page")
	flag.Parse()
	if err := run(*list, *about, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "evidence:", err)
		os.Exit(1)
	}
}

func run(list bool, about, out string, outputs []string) error {
	text, err := os.ReadFile("docs/threat-model.md")
	if err != nil {
		return err
	}
	rows, err := parseModel(string(text))
	if err != nil {
		return err
	}
	if list {
		fmt.Printf("^(%s)$\n", strings.Join(named(rows), "|"))
		return nil
	}
	tests, err := parseTests("tests/e2e")
	if err != nil {
		return err
	}
	var all []results
	for _, o := range outputs {
		backend, file, _ := strings.Cut(o, "=")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		all = append(all, results{backend, parseResults(string(text))})
	}
	text2, failed := page(rows, tests, all, about)
	if err := os.WriteFile(out, []byte(text2), 0o644); err != nil {
		return err
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d tests did not hold:\n%s", len(failed), strings.Join(failed, "\n"))
	}
	return nil
}

// named are all tests of the model, each once.
func named(rows []row) []string {
	var list []string
	for _, r := range rows {
		list = slices.Concat(list, r.attacks, r.bites)
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// results are the words of one run of the tests, by name.
type results struct {
	backend string
	words   map[string]string
}

var resultLine = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\w+) \(`)

// parseResults reads what go test -v has printed of tests, not of their parts.
func parseResults(text string) map[string]string {
	words := map[string]string{}
	for _, m := range resultLine.FindAllStringSubmatch(text, -1) {
		words[m[2]] = map[string]string{"PASS": "held", "FAIL": "FAILED", "SKIP": "not run"}[m[1]]
	}
	return words
}

// page writes the evidence, and lists what failed or is not shown by any run.
func page(rows []row, tests map[string]string, all []results, about string) (text string, failed []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "# Evidence\n\nWritten by `make evidence`; don't edit it. What the tests of docs/threat-model.md saw, on\n%s.\n\n", about)
	b.WriteString("`held`: what the test wants is so, which for \"can it fail?\" means that the attack succeeds with what stops it switched off.\n" +
		"`not run`: the test is not for that backend.\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "\n## %s: %s\n\nStopped by: %s.\n\n| test | what it tries |", r.id, r.attack, r.stopped)
		for _, res := range all {
			fmt.Fprintf(&b, " %s |", res.backend)
		}
		fmt.Fprintf(&b, "\n|---|---|%s\n", strings.Repeat("---|", len(all)))
		for i, name := range slices.Concat(r.attacks, r.bites) {
			label := name
			if i >= len(r.attacks) {
				label += " (can it fail?)"
			}
			fmt.Fprintf(&b, "| %s | %s |", label, strings.ReplaceAll(tests[name], "|", "\\|"))
			for _, res := range all {
				fmt.Fprintf(&b, " %s |", word(res.words, name))
			}
			b.WriteString("\n")
		}
	}
	for _, name := range named(rows) {
		held := false
		for _, res := range all {
			if w := word(res.words, name); w == "FAILED" {
				failed = append(failed, name+" with "+res.backend+": "+w)
			} else if w == "held" {
				held = true
			}
		}
		if !held && !slices.ContainsFunc(failed, func(f string) bool { return strings.HasPrefix(f, name+" ") }) {
			failed = append(failed, name+": not run at all")
		}
	}
	return b.String(), failed
}

func word(words map[string]string, name string) string {
	if w, ok := words[name]; ok {
		return w
	}
	return "not run"
}
