package arch

import (
	"strings"
	"testing"
)

// TestRulesBite holds that each rule finds what it is there for, and nothing
// beside it: a rule that finds nothing can't be told from a broken one.
func TestRulesBite(t *testing.T) {
	long := strings.Repeat("\t_ = 0\n", maxFunction)
	for _, c := range []struct {
		rule, path, text string
		want             []string
	}{
		{"size", "a/a.go", "package a\n" + strings.Repeat("\n", maxLines), []string{"301 lines"}},
		{"size", "a/a.go", "package a\n" + strings.Repeat("\n", maxLines-1), nil},
		{"size", "a/a_test.go", "package a\n" + strings.Repeat("\n", maxLines), nil},
		{"size", "a/a.go", "package a\nfunc f() {\n" + long + "}\n", []string{"line 2: function f has 62 lines"}},
		{"size", "a/a.go", "package a\nfunc f() {\n" + long[7*2:] + "}\n", nil},
		{"size", "a/a_test.go", "package a\nfunc f() {\n" + long + "}\n", nil},

		{"documented", "a/a.go", "package a\nfunc F() {}\ntype T int\nconst C = 1\nvar V int\n", []string{"F", "T", "C", "V"}},
		{"documented", "a/a.go", "package a\ntype (\n\tT int\n\tU int // of no use\n)\n", []string{"T", "U"}},
		{"documented", "a/a.go", "package a\ntype t int\nfunc (t) M() {}\nfunc f() {}\n", nil},
		{"documented", "a/a.go", "package a\n// T is.\ntype T[P any] int\nfunc (t *T[P]) M() {}\n", []string{"M"}},
		{"documented", "a/a.go", "package a\n// All.\nconst (\n\tC = 1\n\tD = 2\n)\nvar V = 1 // V is.\n", nil},
		{"documented", "a/a.go", "package a\n// E is.\ntype E int\nfunc (E) Error() string {}\nfunc Error() {}\n", []string{"Error"}},
		{"documented", "a/a_test.go", "package a\nfunc TestF() {}\n", nil},

		{"no init", "a/a.go", "package a\nfunc init() {}\n", []string{"line 2"}},
		{"no init", "a/a_test.go", "package a\nfunc init() {}\n", []string{"line 2"}},
		{"no init", "a/a.go", "package a\ntype t int\nfunc (t) init() {}\n", nil},
		{"no init", "a/a.go", "package a\nvar v = regexp.MustCompile(`a`)\n", []string{"line 2: a pattern"}},
		{"no init", "a/a.go", "package a\nvar v = sync.OnceValue(func() any { return regexp.MustCompile(`a`) })\n", nil},
		{"no init", "a/a_test.go", "package a\nvar v = regexp.MustCompile(`a`)\n", nil},

		{"names", "a/a.go", "package util\n", []string{"util"}},
		{"names", "util/a.go", "package a\n", nil},

		{"skips", "a/a_test.go", "package a\nfunc f(t T) { t.Skip(1); t.Skipf(2); t.SkipNow() }\n", []string{"Skip:", "Skipf:", "SkipNow:"}},
		{"skips", "a/a.go", "package a\nfunc f(t T) { t.Skip(1) }\n", []string{"Skip:"}},
		{"skips", "a/a_test.go", "package a\nvar v = os.Getenv(\"AISB_TEST" + "_REQUIRE\")\n", []string{"tests/need"}},
		{"skips", "a/a_test.go", "package a\nvar v = fs.SkipDir\nfunc f() { need.Root(t) }\n", nil},
		{"skips", "tests/need/need.go", "package need\nfunc f(t T) { t.Skip(1) }\n", nil},
	} {
		f, err := parse(c.path, c.text)
		if err != nil {
			t.Fatal(err)
		}
		got := rules[c.rule](f)
		if len(got) != len(c.want) {
			t.Errorf("%s: %.60q: got %q, want %q", c.rule, c.text, got, c.want)
			continue
		}
		for i := range got {
			if !strings.Contains(got[i], c.want[i]) {
				t.Errorf("%s: %.60q: got %q, want %q", c.rule, c.text, got[i], c.want[i])
			}
		}
	}
}
