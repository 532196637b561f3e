package config

import (
	"slices"
	"strings"
)

const (
	keyHint    = `a line is written as KEY = VALUE: allow = ["example.com"]`
	tableHint  = `leave the line out: keys stand alone, as allow = ["example.com"]`
	escapeHint = `in "..." a backslash is written \\; in '...' it stands for itself`
)

const (
	unquoted = "the value is not in quotes, and is no number, true or false"
	unclosed = "a quote, a comma or the closing ] is missing"
)

// sayings are the parser's problems by parts of their texts, in words for who has
// written the file; no text leaves the parser's. The first that fits counts.
var sayings = []struct {
	parts []string
	text  string
	hint  func(broken) string
}{
	{[]string{"U+0023 '#' at start of value"}, "the value is missing, as # begins a comment", broken.write},
	{[]string{"U+000A at start of value", "U+000D at start of value", "expected value, not end"}, "the value is missing", broken.write},
	{[]string{"U+003D '=' at start of value"}, "there is a second =", broken.write},
	{[]string{"at start of value", "expected keyword", "must be quoted"}, unquoted, broken.write},
	{[]string{"expected newline"}, "the line goes on where it should end", broken.split},
	{[]string{"cannot have new lines", "unterminated", "string not terminated"}, "the closing quote is missing", broken.write},
	{[]string{"after array value", "array is incomplete"}, unclosed, broken.array},
	{[]string{"expected value but got"}, "there is a comma, and no value before it", broken.write},
	{[]string{"expected '='"}, "there is no = after the key", broken.write},
	{[]string{"start of key"}, "there is no key at the start of the line", always(keyHint)},
	{[]string{"after a key"}, "", always(keyHint)},
	{[]string{"table name"}, "the closing ] is missing", always(tableHint)},
	{[]string{"already"}, "", broken.once},
	{[]string{"escape"}, "", always(escapeHint)},
	{[]string{"UTF-8"}, "a character is not UTF-8", always("save the file as UTF-8")},
	{[]string{"control characters", "carriage returns"}, "there is a control character", always(`take it out, or write it as an escape: "\u001b"`)},
	{[]string{"number", "integer", "digit", "decimal", "float", "radix"}, "the number can't be read", broken.write},
	{[]string{""}, "", broken.write},
}

func always(hint string) func(broken) string { return func(broken) string { return hint } }

// plain is what the parser says of a line in words for who has written the file, with a
// hint. The line is quoted where it can't hold a secret.
func plain(problem string, b broken) (text, hint string) {
	for _, s := range sayings {
		if slices.ContainsFunc(s.parts, func(part string) bool { return strings.Contains(problem, part) }) {
			text, hint = s.text, s.hint(b)
			break
		}
	}
	switch {
	case text == "":
		text = withoutCode(problem)
	case text == unquoted && b.key != nil && b.key.Kind == Switch:
		text = "the value is not true or false"
	case text == unclosed && b.rest == b.line:
		text += " before this"
	}
	if line := b.shown(b.line); line != "" {
		text += ": " + line
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
