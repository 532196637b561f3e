package main

import (
	"maps"
	"regexp"
	"slices"
	"strings"
)

// record is what one run of tests came to.
type record struct {
	Passed  []string // names of cases
	Failed  []string
	Skipped []skip
	Scripts int // that ran
	Lines   int // commands of scripts that can fail, and did not
}

// skip is a case that was left out.
type skip struct{ Case, Why string }

// tally gathers a record from events.
type tally struct {
	ended    map[string]string // by package and test: pass, fail, skip, or "" while it runs
	reasons  map[string]string // the last line that each wrote
	lines    map[string]int    // of scripts
	packages map[string]string
}

func newTally() *tally {
	return &tally{ended: map[string]string{}, reasons: map[string]string{}, lines: map[string]int{}, packages: map[string]string{}}
}

func (t *tally) event(e event) {
	key := e.Package + " " + e.Test
	switch {
	case e.Test == "" && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip"):
		t.packages[e.Package] = e.Action
	case e.Test == "":
	case e.Action == "run":
		t.ended[key] = ""
	case e.Action == "pass" || e.Action == "fail" || e.Action == "skip":
		t.ended[key] = e.Action
	case e.Action == "output":
		if isScript(e.Test) && scriptLine.MatchString(e.Output) {
			t.lines[key]++
		}
		if reason := said(e.Output); reason != "" {
			t.reasons[key] = reason
		}
	}
}

// scriptLine is a command of a script that can fail, as testscript writes it into its
// log. What only prepares (cp, cd, env) isn't one, nor what stands under a condition:
// the log doesn't tell whether that ran.
var scriptLine = regexp.MustCompile(`^ +> (! )?(stdout|stderr|cmp|cmpenv|exists|grep|status|exec aisb) `)

// isScript reports whether a test is one script.
func isScript(test string) bool { return strings.HasPrefix(test, "TestScript/") }

var position = regexp.MustCompile(`^\w+\.go:\d+: `)

// said is the text of a line that a test has logged, "" for one of the machinery.
func said(line string) string {
	line = strings.TrimSpace(line)
	at := position.FindString(line)
	if at == "" {
		return ""
	}
	return line[len(at):]
}

var number = regexp.MustCompile(`#\d+$`)

// caseName is the name that a test counts under. What was numbered because it has no
// name of its own, such as the seeds of a fuzz target, counts as a part of what has.
func caseName(pkg, test string) string {
	parts := strings.Split(test, "/")
	if strings.HasPrefix(test, "Fuzz") {
		parts = parts[:1]
	}
	var kept []string
	for _, p := range parts {
		if p = number.ReplaceAllString(p, ""); p != "" {
			kept = append(kept, p)
		}
	}
	return strings.TrimPrefix(pkg, module) + " " + strings.Join(kept, "/")
}

const module = "github.com/aisb-dev/aisb/"

// record sums up. A test with parts is its parts; one that has begun and not ended has
// failed.
func (t *tally) record() record {
	var r record
	cases, why := map[string]string{}, map[string]string{}
	failedIn := map[string]bool{} // packages
	for key, action := range t.leaves() {
		pkg, test, _ := strings.Cut(key, " ")
		failedIn[pkg] = failedIn[pkg] || action == "fail"
		if isScript(test) && action == "pass" {
			r.Scripts++
			r.Lines += t.lines[key]
			continue
		}
		if name := caseName(pkg, test); rank[action] > rank[cases[name]] {
			cases[name], why[name] = action, t.reasons[key]
		}
	}
	for pkg, action := range t.packages {
		if action == "fail" && !failedIn[pkg] { // it wasn't built, or died
			cases[caseName(pkg, "as a whole")] = "fail"
		}
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		switch cases[name] {
		case "pass":
			r.Passed = append(r.Passed, name)
		case "skip":
			r.Skipped = append(r.Skipped, skip{name, why[name]})
		case "fail":
			r.Failed = append(r.Failed, name)
		}
	}
	return r
}

// rank orders the ends of several of one name: the worst counts.
var rank = map[string]int{"skip": 1, "pass": 2, "fail": 3}

// leaves are the tests without parts, and those that failed though no part of theirs did.
func (t *tally) leaves() map[string]string {
	parts, bad := map[string]bool{}, map[string]bool{}
	for key, action := range t.ended {
		for i := strings.LastIndexByte(key, '/'); i > strings.IndexByte(key, ' '); i = strings.LastIndexByte(key[:i], '/') {
			parts[key[:i]] = true
			bad[key[:i]] = bad[key[:i]] || action != "pass" && action != "skip"
		}
	}
	leaves := map[string]string{}
	for key, action := range t.ended {
		if action == "" {
			action = "fail"
		}
		if !parts[key] || action == "fail" && !bad[key] {
			leaves[key] = action
		}
	}
	return leaves
}
