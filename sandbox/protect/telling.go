package protect

import (
	"cmp"
	"slices"
	"strings"
)

// MostTelling are n of the changes, those that are told where there isn't room for all.
// Of each rule it has one, the one nearest to the top, before a second of any: an agent
// could otherwise leave a crowd of harmless things that come first.
func MostTelling(changes []Change, n int) []Change {
	if len(changes) <= n {
		return changes
	}
	depth := func(c Change) int { return strings.Count(c.Path, "/") }
	list := slices.Clone(changes)
	slices.SortStableFunc(list, func(a, b Change) int { return cmp.Compare(depth(a), depth(b)) })
	turn := make(map[string]int, n)
	seen := map[*Rule]int{}
	for _, c := range list {
		turn[c.Path] = seen[c.Rule]
		seen[c.Rule]++
	}
	slices.SortStableFunc(list, func(a, b Change) int {
		return cmp.Or(
			cmp.Compare(turn[a.Path], turn[b.Path]),
			cmp.Compare(slices.Index(Groups, a.Rule.Group), slices.Index(Groups, b.Rule.Group)))
	})
	return list[:n]
}
