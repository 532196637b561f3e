package policy

import (
	"strings"
)

// tidy takes away what slips into a rule from the place where it was written:
// quotes, separators, a comment, a second dot, a space before port or options. It
// is tried only on what is no rule, and what comes out only if it is one.
func tidy(text string) string {
	text, _, _ = strings.Cut(text, "#")
	text = strings.Trim(text, "\"'`;, \t")
	host, options, found := strings.Cut(text, "+")
	if found {
		options = "+" + strings.Join(strings.Fields(options), "")
	}
	switch words := strings.Fields(host); {
	case len(words) == 1:
		host = words[0]
	case len(words) == 2:
		if _, err := parsePort(words[1]); err != nil {
			return ""
		}
		host = words[0] + ":" + words[1]
	default:
		return ""
	}
	for strings.Contains(host, "..") {
		host = strings.ReplaceAll(host, "..", ".")
	}
	if rest, found := strings.CutPrefix(host, "*"); found && rest != "" && !strings.HasPrefix(rest, ".") && !strings.HasPrefix(rest, ":") {
		host = "*." + rest // *example.com, as other tools have it
	}
	return host + options
}
