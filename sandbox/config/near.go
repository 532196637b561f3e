package config

import (
	"slices"
	"strings"
)

// nearest is the key that a wrong name may have meant, "" when none is near.
func nearest(name string) string {
	plain := strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	if plain == "" {
		return ""
	}
	best, least := "", 3
	for _, k := range Keys {
		if k.FlagName() == plain || slices.Contains(k.Also, plain) || plain == strings.TrimSuffix(k.Name, "s") ||
			strings.ReplaceAll(plain, "-", "") == strings.ToLower(k.Alias) {
			return k.Name
		}
		// A word of three letters is two letters from any other.
		if d := distance(plain, k.Name); d < least && d*2 < len(plain) {
			best, least = k.Name, d
		}
	}
	return best
}

// distance is the number of letters to put in, take out or change to make b of a
// (Levenshtein).
func distance(a, b string) int {
	if len(a) > 64 {
		return len(a) // nobody mistypes that much
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
