package screen

import (
	"io"
	"slices"
	"strings"
	"testing"
)

// TestDiffer: whatever a user could tell two screens by is found.
func TestDiffer(t *testing.T) {
	const same = "\x1b[31mred\x1b[0m\r\ntext"
	for name, c := range map[string]struct{ a, b, differ string }{
		"the same":         {same, same, ""},
		"another way":      {"\x1b[1;1Hab", "ab", ""},
		"of no effect":     {"\x1b]133;A\aab", "ab", ""},
		"a letter":         {"ab", "ac", "line 0, column 1"},
		"a colour":         {"\x1b[31ma", "\x1b[32ma", "line 0, column 0"},
		"a style":          {"\x1b[4:3ma", "\x1b[4ma", "line 0, column 0"},
		"a link":           {"\x1b]8;;http://a/\aa", "a", "line 0, column 0"},
		"the cursor":       {"a\x1b[1;1H", "a", "place"},
		"a hidden cursor":  {"\x1b[?25l", "", "hidden"},
		"its shape":        {"\x1b[5 q", "", "shape"},
		"alternate screen": {"\x1b[?1049h", "", "alternate"},
		"the title":        {"\x1b]2;a\a", "", "title"},
		"the ground":       {"\x1b]11;#ff0000\a", "", "ground"},
		"scrolled away":    {strings.Repeat("\n", 30), strings.Repeat("\n", 29), "lines"},
		"what was":         {"b" + strings.Repeat("\n", 30), "c" + strings.Repeat("\n", 30), "line -7"},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := shown(t, c.a), shown(t, c.b)
			if got := Differ(a, b); !strings.Contains(got, c.differ) || (got == "") != (c.differ == "") {
				t.Errorf("%q, want %q", got, c.differ)
			}
		})
	}
	a, b := shown(t, ""), shown(t, "")
	b.Resize(24, 81)
	if got := Differ(a, b); !strings.Contains(got, "columns") {
		t.Errorf("of another size: %q", got)
	}
}

func shown(t *testing.T, text string) *Screen {
	t.Helper()
	s := New(24, 80)
	t.Cleanup(func() { s.Close() })
	go s.Discard()
	io.WriteString(s, text)
	return s
}

// without is a filter that takes a word out of each step.
type without struct {
	w    io.Writer
	word string
}

func (f without) Write(p []byte) (int, error) {
	io.WriteString(f.w, strings.ReplaceAll(string(p), f.word, ""))
	return len(p), nil
}

// TestPlay: a difference is found even if what follows hides it.
func TestPlay(t *testing.T) {
	steps := []Step{{Text: "begin\r\n"}, {Rows: 30, Cols: 100}, {Text: "\x1b]133;Amiddle\x1b\\x"}, {Text: "\x1b[2J\x1b[H"}}
	for word, differ := range map[string]string{"nothing": "", "\x1b]133;Amiddle\x1b\\": "", "x": "after 3 of 4 steps", "begin": "after 1 of 4 steps"} {
		err := Play(steps, 24, 80, func(w io.Writer) io.Writer { return without{w, word} })
		if got := ""; err != nil {
			got = err.Error()
			if differ == "" || !strings.Contains(got, differ) {
				t.Errorf("without %q: %s", word, got)
			}
		} else if differ != "" {
			t.Errorf("without %q nothing differs", word)
		}
	}
}

// TestAnswers: questions get their answers in their order.
func TestAnswers(t *testing.T) {
	for question, want := range map[string]string{
		"\x1b[>q\x1b[?u\x1b[5n":         "\x1bP>|" + Name + "\x1b\\\x1b[?0u\x1b[0n",
		"\x1b[>1u\x1b[?u\x1b[<u\x1b[?u": "\x1b[?1u\x1b[?0u",
		"\x1b[?2026$p\x1b[?25$p":        "\x1b[?2026;2$y\x1b[?25;1$y",
		"\x1b[14t\x1b[18t":              "\x1b[4;384;640t\x1b[8;24;80t",
		"\x1b]4;1;?;2;?\a":              "\x1b]4;1;rgb:01/01/01\x1b\\\x1b]4;2;rgb:02/02/02\x1b\\",
		"\x1b[?996n\x1b[6n":             "\x1b[?997;1n\x1b[1;1R",
	} {
		s := New(24, 80)
		got := make(chan string)
		go func() {
			b, _ := io.ReadAll(s)
			got <- string(b)
		}()
		io.WriteString(s, question)
		s.Close()
		if got := <-got; got != want {
			t.Errorf("to %q the answer is %q, want %q", question, got, want)
		}
	}
}

// TestChanged: a shell would find these.
func TestChanged(t *testing.T) {
	for text, want := range map[string][]string{
		"":                                   nil,
		"\x1b[?1049h\x1b[?1049l\x1b[?2027h":  nil,
		"\x1b[?1006h":                        {"mode 1006 is true"},
		"\x1b[?25l":                          {"mode 25 is false"},
		"\x1b[>1u\x1b[>3u\x1b[<u":            {"1 flags of the keyboard are left"},
		"\x1b[?7l\x1b[?2004h\x1b[?7h\x1b[>u": {"mode 2004 is true", "1 flags of the keyboard are left"},
	} {
		if got := shown(t, text).Changed(); !slices.Equal(got, want) {
			t.Errorf("after %q: %q, want %q", text, got, want)
		}
	}
}
