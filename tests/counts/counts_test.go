package main

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// stream is what "go test -json" writes, in short: "ACTION PACKAGE TEST OUTPUT".
func stream(lines ...string) string {
	var b strings.Builder
	for _, l := range lines {
		f := strings.SplitN(l, " ", 4)
		f = append(f, "", "", "")
		if f[2] == "-" {
			f[2] = ""
		}
		b.WriteString(`{"Action":"` + f[0] + `","Package":"` + module + f[1] + `","Test":"` + f[2] + `","Output":"` + strings.ReplaceAll(f[3], `"`, `\"`) + `"}` + "\n")
	}
	return b.String()
}

func counted(t *testing.T, verbose bool, lines ...string) (record, string) {
	t.Helper()
	var out strings.Builder
	tally := newTally()
	if err := read(strings.NewReader(stream(lines...)), newRelay(&out, verbose), tally); err != nil {
		t.Fatal(err)
	}
	return tally.record(), out.String()
}

// TestRecord: what counts as one, and how it ended.
func TestRecord(t *testing.T) {
	for name, tt := range map[string]struct {
		lines           []string
		passed, failed  string
		skipped, reason string
	}{
		"a test is one":              {[]string{"run a TestA", "pass a TestA", "pass a"}, "a TestA", "", "", ""},
		"a test with parts is these": {[]string{"run a TestA", "run a TestA/x", "pass a TestA/x", "run a TestA/y", "run a TestA/y/z", "pass a TestA/y/z", "pass a TestA/y", "pass a TestA", "pass a"}, "a TestA/x,a TestA/y/z", "", "", ""},
		"numbers are no names":       {[]string{"run a TestA", "pass a TestA/#00", "pass a TestA/#01", "pass a TestA/x", "pass a TestA/x#01", "pass a TestA", "pass a"}, "a TestA,a TestA/x", "", "", ""},
		"seeds of a fuzz target":     {[]string{"pass a FuzzA/seed#0", "pass a FuzzA/5f3e", "pass a FuzzA", "pass a"}, "a FuzzA", "", "", ""},
		"one of a name that fails":   {[]string{"pass a TestA/#00", "fail a TestA/#01", "fail a TestA", "fail a"}, "", "a TestA", "", ""},
		"a part that fails":          {[]string{"pass a TestA/x", "fail a TestA/y", "fail a TestA", "fail a"}, "a TestA/x", "a TestA/y", "", ""},
		"it fails beside its parts":  {[]string{"pass a TestA/x", "fail a TestA", "fail a"}, "a TestA/x", "a TestA", "", ""},
		"it never ends":              {[]string{"run a TestA", "run a TestA/x", "fail a"}, "", "a TestA/x", "", ""},
		"it is not built":            {[]string{"build-output a - x.go:1:1: wrong", "fail a", "pass b TestB", "pass b"}, "b TestB", "a as a whole", "", ""},
		"skipped":                    {[]string{`output a TestA     a_test.go:7: nft is missing: no such file\n`, `output a TestA --- SKIP: TestA (0.00s)\n`, "skip a TestA", "pass a"}, "", "", "a TestA", "nft is missing: no such file"},
	} {
		r, _ := counted(t, false, tt.lines...)
		skipped, reason := "", ""
		if len(r.Skipped) > 0 {
			skipped, reason = r.Skipped[0].Case, r.Skipped[0].Why
		}
		if got := strings.Join(r.Passed, ","); got != tt.passed || strings.Join(r.Failed, ",") != tt.failed || skipped != tt.skipped || reason != tt.reason {
			t.Errorf("%s: got %+v", name, r)
		}
	}
}

// TestScriptLines: commands of scripts count that can fail and have not failed.
func TestScriptLines(t *testing.T) {
	log := func(script string) []string {
		var lines []string
		for _, l := range []string{"# a phase", "> env A=1", "> exec aisb version", "> status 2 aisb run", "> stdout '^x$'", "> ! stderr .", "> cmp a b",
			"> ! exists a", "> exec git init", "> [exec:git] stdout x", "[stdout]", "stdout of aisb"} {
			lines = append(lines, "output c TestScript/"+script+"         "+l+`\n`)
		}
		return lines
	}
	r, _ := counted(t, false, slices.Concat([]string{"run c TestScript"}, log("one"), []string{"pass c TestScript/one"}, log("two"), []string{"fail c TestScript/two", "fail c TestScript", "fail c"})...)
	if r.Scripts != 1 || r.Lines != 6 || len(r.Passed) != 0 || !slices.Equal(r.Failed, []string{"c TestScript/two"}) {
		t.Errorf("got %+v, want 6 lines of one script, and one that failed", r)
	}
}

// TestRelay: who looks at a run sees what "go test" shows: nothing of what passed, all
// of what failed, and what can't be counted.
func TestRelay(t *testing.T) {
	lines := []string{
		`output a TestA === RUN   TestA\n`, `output a TestA     a_test.go:1: fine\n`, `output a TestA --- PASS: TestA (0.00s)\n`, "pass a TestA",
		`output a TestB/x     a_test.go:2: fine too\n`, "pass a TestB/x", `output a TestB/y     a_test.go:3: wrong\n`, "fail a TestB/y",
		`output a TestB --- FAIL: TestB (0.00s)\n`, "fail a TestB", `output a TestC panic: at once\n`,
		`output a - FAIL\n`, `output a - FAIL\ta\t0.1s\n`, "fail a",
		`output b - PASS\n`, `output b - ok  \tb\t0.1s\n`, "pass b", `output c - ?   \tc\t[no test files]\n`, "skip c",
	}
	if _, got := counted(t, false, lines...); got != "    a_test.go:3: wrong\n--- FAIL: TestB (0.00s)\npanic: at once\nFAIL\nFAIL\ta\t0.1s\nok  \tb\t0.1s\n" {
		t.Errorf("got %q", got)
	}
	_, got := counted(t, true, lines...)
	for _, want := range []string{"=== RUN", "fine too", "PASS\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("with -v there is no %q: %q", want, got)
		}
	}
	var out strings.Builder
	if err := read(strings.NewReader("no event\n{}\n"), newRelay(&out, false), newTally()); err != nil || out.String() != "no event\n{}\n" {
		t.Errorf("got %q, %v", out.String(), err)
	}
}

// TestJudge: fewer than there were is a failure, unless it is said what was left out.
func TestJudge(t *testing.T) {
	names := func(n int) []string { return slices.Repeat([]string{"x"}, n) }
	floors := map[string]int{unit: 3, scripts: 2, pasta: 4, inner: 4, without: 5, with: 1}
	full := func() results {
		return results{left: map[string][]string{}, records: map[string]record{
			"unit": {Passed: names(3), Lines: 2, Scripts: 1}, "e2e-pasta": {Passed: names(4)}, "e2e-inner": {Passed: names(4)},
		}}
	}
	for name, tt := range map[string]struct {
		change func(results)
		strict bool
		want   string
	}{
		"as many":               {func(results) {}, true, ""},
		"a unit test less":      {func(res results) { res.records["unit"] = record{Passed: names(2), Lines: 3} }, false, "unit: 2 passed, and there were 3"},
		"a script line less":    {func(res results) { res.records["unit"] = record{Passed: names(4), Lines: 1} }, false, "script lines: 1 passed"},
		"fewer, some skipped":   {func(res results) { res.records["e2e-inner"] = record{Passed: names(1), Skipped: []skip{{"a", "b"}}} }, false, ""},
		"the same, none may be": {func(res results) { res.records["e2e-inner"] = record{Passed: names(1), Skipped: []skip{{"a", "b"}}} }, true, "e2e with inner: 1 passed"},
		"not run":               {func(res results) { delete(res.records, "e2e-pasta") }, false, "e2e with pasta: not run"},
		"left out": {func(res results) {
			delete(res.records, "e2e-pasta")
			res.left["e2e-pasta"] = []string{"it needs root"}
		}, false, ""},
	} {
		res := full()
		tt.change(res)
		rows := res.rows()
		got := judge(rows, floors, tt.strict)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || !strings.HasPrefix(got[0], tt.want)) {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
		var out strings.Builder
		res.print(&out, rows, floors)
		if name == "left out" && (!strings.Contains(out.String(), "not run: it needs root") || !strings.Contains(out.String(), "left out: e2e-pasta: it needs root")) {
			t.Errorf("the table doesn't say what was left out:\n%s", out.String())
		}
	}
}

// TestFloors: the file can be read, and holds at least what the system before had.
func TestFloors(t *testing.T) {
	floors, err := parseFloors(floorsText)
	if err != nil || floors[without] < 161 || floors[with] < 256 {
		t.Errorf("%v, %v", floors, err)
	}
	for _, bad := range []string{"unit: many", "unit: 0", "unit 3", "unit: 3", ""} {
		if got, err := parseFloors(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}

// TestWith: the table comes last, a failure of the command's stays one, and tests of
// which nothing is heard are one.
func TestWith(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	for script, want := range map[string]int{"exit 3": 1, "true": 1} {
		var out strings.Builder
		status, err := run([]string{"with", "/bin/sh", "-c", "echo ran; " + script}, &out)
		if status != want || err == nil || !strings.HasPrefix(out.String(), "ran\n\ncounts: ") {
			t.Errorf("%q: status %d, %v: %s", script, status, err, out.String())
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return strings.HasPrefix(e.Name(), "aisb-counts-") }) {
		t.Errorf("left behind: %v", err)
	}
}
