package policy

import (
	"cmp"
	"slices"
	"strings"
)

// Changes says in what the rules of now differ from those of before: "+RULE" is
// new, "-RULE" is gone, denials have "deny " before the rule. It is sorted.
func Changes(before, now *Policy) []string {
	var out []string
	compare := func(prefix string, before, now []*Rule) {
		count := make(map[string]int)
		for _, r := range now {
			count[r.Text] = 1
		}
		for _, r := range before {
			count[r.Text] |= 2
		}
		for text, where := range count {
			switch where {
			case 1:
				out = append(out, "+"+prefix+text)
			case 2:
				out = append(out, "-"+prefix+text)
			}
		}
	}
	compare("", before.allowed.rules, now.allowed.rules)
	compare("deny ", before.denied.rules, now.denied.rules)
	slices.SortFunc(out, func(a, b string) int {
		return cmp.Or(strings.Compare(a[1:], b[1:]), strings.Compare(a, b))
	})
	return out
}
