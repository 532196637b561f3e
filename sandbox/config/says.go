package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Says are lines that tell a person what values do, in the order of Keys. No line
// holds the value of a variable.
func Says(values []Value) []string {
	var lines []string
	for i := range Keys {
		for _, v := range values {
			if v.Key == &Keys[i] {
				lines = append(lines, v.says())
			}
		}
	}
	return lines
}

func (v Value) says() string {
	if v.Key.Kind == Switch && v.Text == "false" {
		return "sets " + v.Key.Name + " to false"
	}
	if name, _, assigned := strings.Cut(v.Text, "="); v.Key.Name == "env" && assigned {
		return "sets the variable " + quoteOdd(name)
	}
	if !strings.Contains(v.Key.Says, "%s") {
		return v.Key.Says
	}
	return fmt.Sprintf(v.Key.Says, quoteOdd(v.Text))
}

// quoteOdd quotes a value that could be taken for a part of the sentence.
func quoteOdd(text string) string {
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == ',' || r == '"' || r > '~' }) {
		return strconv.Quote(text)
	}
	return text
}

// Changes are the lines that came and went between two lists of Says: "+ line" and
// "- line", those that went first.
func Changes(old, now []string) []string {
	var lines []string
	left := slices.Clone(now)
	for _, line := range old {
		if i := slices.Index(left, line); i >= 0 {
			left = slices.Delete(left, i, i+1)
			continue
		}
		lines = append(lines, "- "+line)
	}
	for _, line := range left {
		lines = append(lines, "+ "+line)
	}
	return lines
}
