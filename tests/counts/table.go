package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// row is a line of the table.
type row struct {
	name                    string
	passed, skipped, failed int
	ran                     bool
	left                    string // why it did not run, if somebody has said it
	note                    string
}

// results are all that tests have left: a record for each of their runs, and what was
// left out of each and why.
type results struct {
	records map[string]record
	left    map[string][]string
}

// The rows, in order: the records, and what they come to.
const (
	unit, scripts, pasta, inner = "unit", "script lines", "e2e with pasta", "e2e with inner"
	without, with               = "without containers", "with containers"
)

func (res results) rows() []row {
	of := func(name, record string) row {
		r, ran := res.records[record]
		return row{name: name, passed: len(r.Passed), skipped: len(r.Skipped), failed: len(r.Failed), ran: ran, left: strings.Join(res.left[record], "; ")}
	}
	u, p, i := of(unit, "unit"), of(pasta, "e2e-pasta"), of(inner, "e2e-inner")
	r := res.records["unit"]
	s := row{name: scripts, passed: r.Lines, ran: u.ran, left: u.left, note: fmt.Sprintf("in %d scripts", r.Scripts)}
	// The same tests run with both backends: there each name counts once.
	names := slices.Concat(res.records["e2e-pasta"].Passed, res.records["e2e-inner"].Passed)
	slices.Sort(names)
	return []row{u, s, p, i,
		{name: without, passed: u.passed + s.passed, skipped: u.skipped, failed: u.failed, ran: u.ran, left: u.left},
		{name: with, passed: len(slices.Compact(names)), skipped: max(p.skipped, i.skipped), failed: p.failed + i.failed,
			ran: p.ran || i.ran, left: cmp.Or(p.left, i.left), note: "each once, whatever the backend"},
	}
}

// parseFloors reads the file of the least numbers: "NAME: NUMBER", and comments.
func parseFloors(text string) (map[string]int, error) {
	floors := map[string]int{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, number, _ := strings.Cut(line, ":")
		n, err := strconv.Atoi(strings.TrimSpace(number))
		if err != nil || n < 1 {
			return nil, fmt.Errorf("floors: %q is not NAME: NUMBER", line)
		}
		floors[name] = n
	}
	for _, name := range []string{unit, scripts, pasta, inner, without, with} {
		if floors[name] == 0 {
			return nil, fmt.Errorf("floors: no number for %q", name)
		}
	}
	return floors, nil
}

// judge returns what is a step back, and adds to rows why others aren't judged. What
// was skipped excuses a lower number, but not on a machine that must skip nothing.
func judge(rows []row, floors map[string]int, strict bool) (bad []string) {
	for i := range rows {
		r := &rows[i]
		switch least := floors[r.name]; {
		case !r.ran && r.left != "":
			r.note = "not run: " + r.left
		case !r.ran:
			bad = append(bad, r.name+": not run, and nothing has said why")
		case r.passed >= least:
		case r.skipped > 0 && !strict:
			r.note = "fewer than at least, but some were skipped"
		default:
			bad = append(bad, fmt.Sprintf("%s: %d passed, and there were %d: that is a step back", r.name, r.passed, least))
		}
	}
	return bad
}

// print writes the table, with what was left out and what the words mean.
func (res results) print(out io.Writer, rows []row, floors map[string]int) {
	fmt.Fprintln(out, "\ncounts: what ran, each under a name that says what it holds")
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tpassed\tskipped\tfailed\tat least\t")
	for _, r := range rows {
		if r.ran {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t  %s\n", r.name, r.passed, r.skipped, r.failed, floors[r.name], r.note)
		} else {
			fmt.Fprintf(w, "%s\t-\t-\t-\t%d\t  %s\n", r.name, floors[r.name], r.note)
		}
	}
	w.Flush()
	for _, name := range []string{"unit", "e2e-pasta", "e2e-inner"} {
		for _, s := range res.records[name].Skipped {
			fmt.Fprintf(out, "skipped: %s: %s: %s\n", name, s.Case, cmp.Or(s.Why, "it doesn't say why"))
		}
		for _, f := range res.records[name].Failed {
			fmt.Fprintf(out, "FAILED: %s: %s\n", name, f)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(res.left)) {
		for _, why := range res.left[name] {
			fmt.Fprintf(out, "left out: %s: %s\n", name, why)
		}
	}
	fmt.Fprintln(out, `One counts for each test, or part of one, that has a name of its own and no parts; what is
only numbered, such as the seeds of a fuzz target, counts nothing. A script line is a command of
a script that can fail. "at least" stands in tests/counts/floors: fewer fails.`)
}
