package terminal

import (
	"bytes"
	"io"
	"slices"
)

// settings are the values of what traces only knows to have been set.
type settings struct {
	pushed           [2][]string // Kitty's flags, on either screen
	keys             [2]string   // set without being pushed, on either
	otherKeys, shape string      // whole sequences
}

// push notes flags of the keyboard that were pushed, of which a terminal keeps few.
func (s *settings) push(screen int, flags string) {
	s.pushed[screen] = append(s.pushed[screen], flags)
	if n := len(s.pushed[screen]); n > maxKeys {
		s.pushed[screen] = slices.Delete(s.pushed[screen], 0, n-maxKeys)
	}
}

// pop notes that n of them were popped.
func (s *settings) pop(screen, n int) {
	s.pushed[screen] = s.pushed[screen][:max(0, len(s.pushed[screen])-n)]
}

// Setup follows what a program sets in its terminal while nobody looks. It is for one
// goroutine.
type Setup struct{ f *Filter }

// NewSetup begins with a terminal as it is at first.
func NewSetup() *Setup { return &Setup{New(io.Discard, Options{Answers: true})} }

// Write takes what the program writes. It never fails.
func (s *Setup) Write(p []byte) (int, error) { return s.f.Write(p) }

// Again is what a terminal that comes now must get before the rest: what is set of
// screen, keys and mouse, and the begin of a sequence whose end is still to come. It is
// no more filtered than the rest. What was painted isn't there.
func (s *Setup) Again() []byte {
	t := &s.f.traces
	var b bytes.Buffer
	put := func(when bool, sequence string) {
		if when {
			b.WriteString(sequence)
		}
	}
	keys := func(screen int) {
		for _, flags := range t.values.pushed[screen] {
			b.WriteString("\x1b[>" + flags + "u")
		}
		put(t.keys[screen], "\x1b[="+t.values.keys[screen]+"u")
	}
	keys(0)
	for _, n := range []string{"47", "1047", "1049"} {
		put(t.isOn(n), "\x1b[?"+n+"h")
	}
	if t.alternate() {
		keys(1)
	}
	for i := range modes {
		b.WriteString(t.modeAgain(i))
	}
	put(t.keypad, "\x1b=")
	put(t.shape, t.values.shape)
	put(t.otherKeys, t.values.otherKeys)
	b.Write(s.f.unfinished())
	return b.Bytes()
}

// modeAgain sets a mode once more. A synchronized update ends soon, and where the
// cursor may move the program says with what it paints.
func (t *traces) modeAgain(i int) string {
	m := modes[i]
	if m.private && slices.Contains([]string{"6", "69", "47", "1047", "1049", "2026"}, m.n) {
		return ""
	}
	final := "h"
	switch {
	case t.off>>i&1 != 0:
		final = "l"
	case t.on>>i&1 == 0:
		return ""
	}
	if m.private {
		return "\x1b[?" + m.n + final
	}
	return "\x1b[" + m.n + final
}

// unfinished is what is held of a sequence or a character.
func (f *Filter) unfinished() []byte {
	switch f.state {
	case ground:
		return f.part[:f.parts]
	case palette:
		return nil // its digits were not kept, and a colour is no loss
	case textEnds:
		return append(slices.Clone(f.seq), esc)
	}
	return f.seq
}
