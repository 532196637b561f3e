package terminal

import (
	"bytes"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
)

// both are the options that a user's terminal may have, with what reads it.
var both = []struct {
	o       Options
	readers []reader
}{
	{Options{Answers: true}, readers[:4]},
	{Options{}, readers[:4]},
	{Options{Answers: true, EightBit: true}, readers},
}

// attack is a line of testdata/hostile.txt.
type attack struct{ does, text string }

func attacks(t testing.TB) []attack {
	t.Helper()
	all, err := os.ReadFile("testdata/hostile.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []attack
	for line := range strings.Lines(string(all)) {
		quoted, does, ok := strings.Cut(strings.TrimSpace(line), "\t")
		if line[0] == '#' {
			continue
		}
		text, err := strconv.Unquote(strings.ReplaceAll(quoted, `\e`, `\x1b`))
		if !ok || err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		list = append(list, attack{does, text})
	}
	return list
}

// TestHostile: nothing of the corpus arrives, however a terminal reads it.
func TestHostile(t *testing.T) {
	list := attacks(t)
	if len(list) < 100 {
		t.Fatalf("only %d", len(list))
	}
	for _, a := range list {
		if len(harm(a.text, readers...)) == 0 {
			t.Errorf("%s: %q does no harm without the filter: the test can't see it", a.does, a.text)
		}
		for _, b := range both {
			during, end, _ := run(t, b.o, a.text+"after")
			for _, h := range harm(during+end, b.readers...) {
				t.Errorf("%s: %q with %+v: %s arrives", a.does, a.text, b.o, h)
			}
		}
	}
}

// split filters text in pieces of n bytes.
func split(t testing.TB, o Options, text string, n int) string {
	t.Helper()
	var out bytes.Buffer
	f := New(&out, o)
	for len(text) > 0 {
		piece := text[:min(n, len(text))]
		if _, err := f.Write([]byte(piece)); err != nil {
			t.Fatal(err)
		}
		text = text[len(piece):]
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// checkAny checks what holds for all output.
func checkAny(t testing.TB, text string, sizes ...int) {
	t.Helper()
	for _, b := range both {
		during, end, f := run(t, b.o, text)
		for _, n := range sizes {
			if got := split(t, b.o, text, n); got != during+end {
				t.Errorf("%q in pieces of %d gives %q, and as a whole %q", text, n, got, during+end)
			}
		}
		for _, h := range harm(during+end, b.readers...) {
			t.Errorf("%q with %+v: %s arrives", text, b.o, h)
		}
		if again, _, _ := run(t, b.o, during); again != during {
			t.Errorf("%q becomes %q and, filtered once more, %q", text, during, again)
		}
		if _, left, _ := run(t, b.o, during+end); left != "" {
			t.Errorf("%q, put back by %q, leaves %q", text, end, left)
		}
		if cap(f.seq) > 4*maxText {
			t.Errorf("%d bytes are held", cap(f.seq))
		}
	}
}

// TestAnySplit: where a sequence is cut by a read makes no difference.
func TestAnySplit(t *testing.T) {
	var all strings.Builder
	for _, r := range table(t) {
		for _, example := range r.examples {
			checkAny(t, example, 1, 2, 3)
			all.WriteString(example)
		}
	}
	for _, a := range attacks(t) {
		checkAny(t, a.text, 1, 2, 3)
		all.WriteString(a.text)
	}
	checkAny(t, all.String(), 1, 2, 5, 7, 64, 1000)
}

func FuzzFilter(f *testing.F) {
	for _, a := range attacks(f) {
		f.Add(a.text)
	}
	f.Add("ü—✳\x1b[1;31mred\x1b[0m\x1b[?1049h\x1b[<1u\x1b[>1u\x1b]0;x\a\x1b[?1000;1001h\x0e\x1b)0")
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			text = text[:4<<10]
		}
		checkAny(t, text, 1, 3)
	})
}

// TestEndless: a string without an end takes no memory, and what follows its end
// is shown.
func TestEndless(t *testing.T) {
	for _, begin := range []string{"\x1b]52;c;", "\x1bP", "\x1b_G", "\x1b[", "\x1b ", "\x1bk", "\x1b]0;"} {
		var out bytes.Buffer
		f := New(&out, Options{})
		piece := bytes.Repeat([]byte{'1'}, 256<<10)
		if strings.HasSuffix(begin, " ") {
			piece = bytes.Repeat([]byte{' '}, 256<<10)
		}
		f.Write([]byte(begin))
		for range 8 {
			if _, err := f.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		if cap(f.seq) > 4*maxText || cap(f.out) > 4*maxText || out.Len() > 0 {
			t.Errorf("%q: %d and %d bytes held, %d passed", begin, cap(f.seq), cap(f.out), out.Len())
		}
		f.Write([]byte("\x1b\\\x1b[1mafter"))
		if out.String() != "\x1b[1mafter" {
			t.Errorf("%q: then %q", begin, out.String())
		}
	}
}

// TestUnfinished: nothing of a sequence that never became whole is passed on.
func TestUnfinished(t *testing.T) {
	for _, text := range []string{"\x1b", "\x1b[", "\x1b[?104", "\x1b]0;titl", "\x1b]0;title\x1b", "\x1b(", "\xe2\x94", "\x1b_Gf=1;AA", "\x1b]P12"} {
		if during, end, _ := run(t, Options{Answers: true}, "x"+text); during != "x" || end != "" {
			t.Errorf("%q: %q and at the end %q", text, during, end)
		}
	}
}

// TestWriteFails: the error is the terminal's own, for the relay to judge.
func TestWriteFails(t *testing.T) {
	f := New(failing{}, Options{})
	if _, err := f.Write([]byte("\x1b]")); err != nil {
		t.Errorf("nothing was to be written: %v", err)
	}
	if _, err := f.Write([]byte("\ax")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, os.ErrClosed }

// TestTogether: what a program left in several ways is put back in an order that
// works.
func TestTogether(t *testing.T) {
	for _, c := range []struct{ name, text, end string }{
		{"keys of both screens", "\x1b[>1u\x1b[?1049h\x1b[>1u\x1b[>3u", "\x1b[<2u\x1b[?1049l\x1b[<1u"},
		{"keys left on the other screen", "\x1b[?1049h\x1b[>1u\x1b[?1049l", "\x1b[?1049h\x1b[<1u\x1b[?1049l"},
		{"keys set on the other screen", "\x1b[?1049h\x1b[=5u\x1b[?1049l\x1b[=1u\x1b[=0u", "\x1b[?1049h\x1b[=0u\x1b[?1049l"},
		{"keys set on both screens", "\x1b[=1u\x1b[?1049h\x1b[=5u", "\x1b[=0u\x1b[?1049l\x1b[=0u"},
		{"colours by number aren't fonts", "\x1b[38;5;12m\x1b[48;2;11;12;13m\x1b[38;5;19;1m", "\x1b[0m"},
		{"font", "\x1b[38;5;12;11m", "\x1b[10m\x1b[0m"},
		{"popped", "\x1b[>1u\x1b[>1u\x1b[<5u", ""},
		{"style comes back with the cursor", "\x1b[31m\x1b7\x1b[0m\x1b8", "\x1b[0m"},
		{"style comes back with the screen", "\x1b[31m\x1b[?1049h\x1b[0m", "\x1b[?1049l\x1b[0m"},
		{"full reset", "\x1b[?1049h\x1b[2;3r\x1b[>1u\x1bc", ""},
		{"mouse and paste", "\x1b[?1000;1006;2004h\x1b[?2004l", "\x1b[?1000l\x1b[?1006l"},
		{"origin and margins", "\x1b[?69h\x1b[3;4s\x1b[?6h\x1b[2;3r", "\x1b[?6l\x1b[?69l\x1b[r\x1b[999;1H"},
		{"title set, restored, set", "\x1b]0;a\a\x1b[23;0t\x1b]0;b\a", "\x1b[23;0t"},
		{"title saved by the program", "\x1b[22;2t\x1b]2;a\a\x1b[23;2t", ""},
	} {
		if _, end, _ := run(t, Options{Answers: true}, c.text); end != c.end {
			t.Errorf("%s: %q ends with %q, want %q", c.name, c.text, end, c.end)
		}
	}
}

// TestKept: what the user hears of.
func TestKept(t *testing.T) {
	for kind, texts := range map[Kind][]string{
		Clipboard: {"\x1b]52;c;aGk=\a", "\x1b]52;c;" + strings.Repeat("QUJD", 5000) + "\a", "\x1b]1337;Copy=:x\a", "\x1b]52;c;\xc2\x9c"},
		Files:     {"\x1b_Gt=f;eA==\x1b\\", "\x1b]1337;File=:eA==\a", "\x1b]5113;ac=send\a"},
		Report:    {"\x1b[21t", "\x1b[1;1;1;1;2;2*y"},
		Program:   {"\x1bP0;1|17/41\x1b\\", "\x1bP1;0;0!z41\x1b\\", "\x1b[1*z", "\x1b]50;x\a"},
		Printer:   {"\x1b[5i"},
		Link:      {"\x1b]8;;file:///x\a"},
		"":        {"\x1b]8;;https://example.com/\a", "\x1b]133;A\a", "\x1b]9;hi\a", "\x1bP$qm\x1b\\", "text"},
	} {
		for _, text := range texts {
			_, _, f := run(t, Options{Answers: true}, text)
			if got := f.Kept(); kind == "" && len(got) > 0 || kind != "" && (got[kind] != 1 || len(got) != 1) {
				t.Errorf("%.40q: %v, want %q", text, got, kind)
			}
		}
	}
}

// TestAnswer finds answers to the last question among keys and other answers.
func TestAnswer(t *testing.T) {
	for text, want := range map[string]int{
		"\x1b[?62;22c": 1, "\x1b[?6c": 1, "\x1b[?1;2c\x1b[?1;2c": 2,
		"\x1b[>0;276;0c": 0, "\x1b[?2026;1$y": 0, "\x1b[12;3R": 0, "\x1b[c": 0, "c": 0, "?62c": 0, "\x1b[?62;x\x1b[?6": 0,
		"\x1b]11;rgb:0/0/0\a\x1bP>|xterm(1)\x1b\\\x1b[?62;c": 1, "\x1b\x1b[?6c": 1,
	} {
		var a, b Answer
		got := 0
		for _, c := range []byte(text) {
			got += b.Count([]byte{c})
		}
		if whole := a.Count([]byte(text)); whole != want || got != want {
			t.Errorf("%q: %d as a whole, %d byte by byte, want %d", text, whole, got, want)
		}
	}
}
