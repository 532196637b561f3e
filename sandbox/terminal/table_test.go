package terminal

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// row is one of the table in docs/terminal.md.
type row struct {
	examples []string
	verdict  string
	ends     []string
}

var code = regexp.MustCompile("`[^`]+`")

// spans are the examples in a cell, as bytes.
func spans(t *testing.T, cell string) []string {
	t.Helper()
	var list []string
	for _, s := range code.FindAllString(cell, -1) {
		s = strings.ReplaceAll(strings.Trim(s, "`"), `\|`, "|")
		s = strings.NewReplacer(`\e`, `\x1b`, `"`, `\"`).Replace(s)
		text, err := strconv.Unquote(`"` + s + `"`)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		list = append(list, text)
	}
	return list
}

// table is what docs/terminal.md promises.
func table(t *testing.T) []row {
	t.Helper()
	text, err := os.ReadFile("../../docs/terminal.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	for line := range strings.Lines(string(text)) {
		cells := regexp.MustCompile(`(?:[^|\\]|\\.)*`).FindAllString(strings.Trim(line, "|\n"), -1)
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		if len(cells) != 4 {
			t.Fatalf("%d cells: %s", len(cells), line)
		}
		rows = append(rows, row{spans(t, cells[0]), strings.TrimSpace(cells[2]), spans(t, cells[3])})
	}
	if len(rows) < 40 {
		t.Fatalf("only %d rows found", len(rows))
	}
	return rows
}

// run filters text and returns what arrived before the end and at it.
func run(t testing.TB, o Options, text string) (during, end string, f *Filter) {
	t.Helper()
	var out bytes.Buffer
	f = New(&out, o)
	if n, err := f.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("wrote %d of %d bytes: %v", n, len(text), err)
	}
	during = out.String()
	out.Reset()
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return during, out.String(), f
}

// TestTable: the filter does with each example what the documentation says.
func TestTable(t *testing.T) {
	for _, r := range table(t) {
		for i, example := range r.examples {
			want := ""
			switch instead := spans(t, r.verdict); {
			case r.verdict == "passes":
				want = example
			case strings.HasSuffix(r.verdict, "passes"):
				want = instead[0] + example
			case r.verdict != "dropped":
				want = instead[0]
			}
			end := ""
			if len(r.ends) > 0 {
				end = r.ends[min(i, len(r.ends)-1)]
			}
			gotDuring, gotEnd, _ := run(t, Options{Answers: true}, example)
			if r.verdict == "dropped" && gotDuring != "" && isText(gotDuring) && !isText(example) {
				gotDuring = "" // what stood in the string, without its controls
			}
			if gotDuring != want || gotEnd != end {
				t.Errorf("%q gave %q and at the end %q, want %q and %q", example, gotDuring, gotEnd, want, end)
			}
		}
	}
}

// isText reports whether there is no control in s.
func isText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// TestUndoneTwice: what a reset wrote leaves nothing to put back.
func TestUndoneTwice(t *testing.T) {
	for _, r := range table(t) {
		for _, example := range r.examples {
			_, end, _ := run(t, Options{Answers: true}, example)
			if _, again, _ := run(t, Options{Answers: true}, example+end); again != "" {
				t.Errorf("%q, undone by %q, leaves %q", example, end, again)
			}
		}
	}
}

// TestNoAnswers: without anyone to read answers nothing passes that has some.
func TestNoAnswers(t *testing.T) {
	for _, r := range table(t) {
		for _, example := range r.examples {
			_, _, f := run(t, Options{}, example)
			if f.Asked() != (Asked{}) || f.Reporting() {
				t.Errorf("%q makes the terminal send something", example)
			}
		}
	}
	for _, asks := range []string{
		"\x1b[c", "\x1b[>c", "\x1b[>q", "\x1b[6n", "\x1b[?u", "\x1b[?7$p", "\x1b[14t", "\x1b]11;?\a", "\x1b]4;1;?\a", "\x1b_Gi=1,a=q;AAAA\x1b\\", "\x1b_Gm=0,q=1;AAAA\x1b\\",
		"\x1b[?1000h", "\x1b[?1004h", "\x1b[?2004h", "\x1b[?2031h", "\x1b[>1u", "\x1b[=1u", "\x1b[>4;2m", "\x1b=", "\x1b[?1h",
	} {
		if got, end, _ := run(t, Options{}, asks); got != "" || end != "" {
			t.Errorf("%q passes as %q, with %q at the end", asks, got, end)
		}
		if got, _, _ := run(t, Options{Answers: true}, asks); got != asks {
			t.Errorf("%q passes as %q where answers are read", asks, got)
		}
	}
}
