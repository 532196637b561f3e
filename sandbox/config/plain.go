package config

import "strings"

const (
	keyHint   = `a line is written as KEY = VALUE: allow = ["example.com"]`
	quoteHint = `text stands in quotes: memory = "8g"`
)

// plain is what the parser says in words for who has written the file, with a hint.
func plain(problem string) (text, hint string) {
	for _, p := range []struct{ has, text, hint string }{
		{"U+000A at start of value", "the value is missing", keyHint},
		{"U+000D at start of value", "the value is missing", keyHint},
		{"expected value, not end", "the value is missing", keyHint},
		{"at start of value", "the value is not in quotes, and is no number, true or false", quoteHint},
		{"expected keyword", "the value is not in quotes, and is no number, true or false", quoteHint},
		{"must be quoted", "the value is not in quotes, and is no number, true or false", quoteHint},
		{"expected newline", "the line goes on where it should end", quoteHint},
		{"expected '='", "", keyHint},
		{"start of key", "", keyHint},
		{"after a key", "", keyHint},
		{"", "", ""},
	} {
		if strings.Contains(problem, p.has) {
			text, hint = p.text, p.hint
			break
		}
	}
	if text == "" {
		text = withoutCode(problem)
	}
	return text, hint
}

// withoutCode leaves of U+0067 'g' the letter.
func withoutCode(text string) string {
	before, code, ok := strings.Cut(text, "U+")
	digits, letter, shown := strings.Cut(code, " ")
	if !ok || !shown || !strings.HasPrefix(letter, "'") || strings.Trim(digits, "0123456789ABCDEF") != "" {
		return text
	}
	return before + letter
}
