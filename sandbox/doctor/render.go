package doctor

import (
	"fmt"
	"strings"
)

// words are the states in the table. What needs a look is loud.
var words = map[State]string{OK: "ok", Note: "note", Fail: "FAIL", Unknown: "unknown"}

// String is the report for people: a line a check, grouped, with hints below
// what isn't ok, and the verdict last. The text that programs and files said is
// in it as they said it.
func (r Report) String() string {
	width := 0
	for _, c := range r.Checks {
		width = max(width, len(c.Title))
	}
	var b strings.Builder
	for _, group := range r.Groups() {
		b.WriteString(group + "\n")
		for _, c := range r.Checks {
			if c.Group != group {
				continue
			}
			fmt.Fprintf(&b, "  %-7s  %-*s  %s\n", words[c.State], width, c.Title, c.Detail)
			if c.Hint != "" && c.State != OK {
				fmt.Fprintf(&b, "  %-7s  %-*s  -> %s\n", "", width, "", c.Hint)
			}
		}
	}
	b.WriteString(r.Summary() + "\n")
	return b.String()
}
