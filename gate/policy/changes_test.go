package policy

import (
	"fmt"
	"strings"
	"testing"
)

func TestChanges(t *testing.T) {
	parse := func(allow, deny string) *Policy {
		t.Helper()
		lines := func(text string) (out []Line) {
			for r := range strings.FieldsSeq(text) {
				out = append(out, Line{Text: r, Origin: "test"})
			}
			return out
		}
		p, _, err := Parse(lines(allow), lines(deny), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	tests := []struct{ allow1, deny1, allow2, deny2, want string }{
		{"a.test b.test", "", "b.test a.test b.test", "", "[]"},
		{"a.test", "", "b.test", "", "[-a.test +b.test]"},
		{"a.test", "", "a.test+tcp", "", "[-a.test +a.test+tcp]"},
		{"", "a.test", "a.test", "", "[+a.test -deny a.test]"},
		{"", "", "", "z.test", "[+deny z.test]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(Changes(parse(tt.allow1, tt.deny1), parse(tt.allow2, tt.deny2))); got != tt.want {
			t.Errorf("%+v: got %s", tt, got)
		}
	}
	if got := Changes(&Policy{}, parse("a.test", "")); len(got) != 1 {
		t.Errorf("from the zero policy: %q", got)
	}
}
