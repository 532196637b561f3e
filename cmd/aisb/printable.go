package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// printable escapes what is not simply shown: controls, also those above ASCII,
// what turns the direction of text around or has no width, spaces but the usual
// one, and bytes that are no UTF-8.
func printable(s string) string {
	if !strings.ContainsFunc(s, hidden) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\n':
			b.WriteString(`\n`)
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hidden reports whether printable escapes r. U+FFFD stands for a byte that is no
// UTF-8.
func hidden(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// printLines writes the lines of a text, each printable.
func printLines(w io.Writer, text string) error {
	for line := range strings.Lines(text) {
		if _, err := io.WriteString(w, printable(strings.TrimSuffix(line, "\n"))+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// jsonEncoder writes JSON, a value a line, that is shown as it is: the standard
// library escapes the controls of ASCII, and those above it in the same way
// are what a terminal may obey.
func jsonEncoder(w io.Writer) *json.Encoder {
	enc := json.NewEncoder(shownJSON{w})
	enc.SetEscapeHTML(false) // it stands in no web page
	return enc
}

// printJSON writes a value over several lines, in the same way.
func printJSON(w io.Writer, v any) error {
	enc := jsonEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

type shownJSON struct{ w io.Writer }

// Write takes whole values, as json.Encoder writes them. Outside of strings JSON
// has nothing above ASCII.
func (j shownJSON) Write(p []byte) (int, error) {
	odd := func(r rune) bool { return r >= 0x7f && hidden(r) }
	if bytes.IndexFunc(p, odd) < 0 {
		return j.w.Write(p)
	}
	var out []byte
	for _, r := range string(p) {
		switch {
		case !odd(r):
			out = utf8.AppendRune(out, r)
		case r > 0xffff: // RFC 8259, section 7
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	if _, err := j.w.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}
