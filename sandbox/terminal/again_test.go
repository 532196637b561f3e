package terminal

import (
	"strings"
	"testing"
)

// TestAgain: a terminal that comes later is set up as the first one was.
func TestAgain(t *testing.T) {
	for written, want := range map[string]string{
		"text\x1b[1mbold\x1b[H":                  "",
		"\x1b[?2004h\x1b[?25l\x1b[?7l":           "\x1b[?7l\x1b[?25l\x1b[?2004h",
		"\x1b[?2004h\x1b[?25l\x1b[?25h":          "\x1b[?2004h",
		"\x1b[>1u\x1b[?1049h\x1b[>5u":            "\x1b[>1u\x1b[?1049h\x1b[>5u",
		"\x1b[>1u\x1b[?1049h\x1b[>5u\x1b[?1049l": "\x1b[>1u",
		"\x1b[>1u\x1b[>3u\x1b[<1u":               "\x1b[>1u",
		"\x1b[>1u\x1b[>3u\x1b[<u":                "\x1b[>1u",
		"\x1b[>1u\x1b[>3u\x1b[<9u":               "",
		"\x1b[<1u\x1b[>7u":                       "\x1b[>7u",
		"\x1b[=5u\x1b[>4;2m\x1b=\x1b[5 q":        "\x1b[=5u\x1b=\x1b[5 q\x1b[>4;2m",
		"\x1b[=5u\x1b[=0u\x1b[5 q\x1b[0 q":       "",
		"\x1b[=5u\x1b[?1049h\x1b[=3u":            "\x1b[=5u\x1b[?1049h\x1b[=3u",
		"\x1b[?1049h\x1b[?1003h\x1b[?1006h\x1bc": "\x1b[?1003h\x1b[?1006h",
		"\x1b[?2026hhalf a screen\x1b[?6h":       "",
		"\x1b[4h":                                "\x1b[4h",
		// the end is still to come
		"\x1b[38;5":             "\x1b[38;5",
		"\x1b]8;;http://a.test": "\x1b]8;;http://a.test",
		"\x1b]0;title\x1b":      "\x1b]0;title\x1b",
		"\x1b[?2004hcaf\xc3":    "\x1b[?2004h\xc3",
		"\x1b":                  "\x1b",
		"\x1b]P12":              "",
		"\x1b]52;c;\x01x":       "\x1b]52;c;",
	} {
		s := NewSetup()
		for _, b := range []byte(written) {
			s.Write([]byte{b})
		}
		if got := string(s.Again()); got != want {
			t.Errorf("after %q: %q, want %q", written, got, want)
		}
	}
}

// TestAgainIsBounded: nobody fills memory by pushing for ever.
func TestAgainIsBounded(t *testing.T) {
	s := NewSetup()
	s.Write([]byte(strings.Repeat("\x1b[>1u", 10_000) + "\x1b[>3u"))
	again := string(s.Again())
	if n := strings.Count(again, "u"); n != maxKeys || !strings.HasSuffix(again, "\x1b[>1u\x1b[>3u") {
		t.Errorf("%d are kept: %q", n, again)
	}
}

// TestAgainIsPutBack: what is set again by way of another filter is put back by it
// as the first would have.
func TestAgainIsPutBack(t *testing.T) {
	for _, r := range table(t) {
		for _, text := range r.examples {
			if strings.Contains(text, "\x1b[?6h") || strings.Contains(text, "\x1b[?2026h") || strings.Contains(text, "\x1b[?69h") {
				continue // the program says so once more
			}
			s := NewSetup()
			s.Write([]byte(text))
			again := string(s.Again())
			_, end, _ := run(t, Options{Answers: true}, again)
			_, first, _ := run(t, Options{Answers: true}, text)
			if again != "" && end != first {
				t.Errorf("%q: set again by %q, put back by %q and not %q", text, again, end, first)
			}
		}
	}
}
