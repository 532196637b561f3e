package terminal

import (
	"strconv"
	"strings"
)

// maxTitles is how many titles xterm keeps.
const maxTitles = 10

// traces are what the program has set and not put back, in the terminal that
// outlives it.
type traces struct {
	on, off uint64 // by index of modes: set or reset, other than at rest

	styled, everStyled bool // SGR
	altFont            bool // SGR 11 to 19
	margins            bool
	keypad             bool
	shifted            bool    // SO
	designated         [4]bool // G0 to G3, other than ASCII
	shape              bool    // of the cursor
	softCursor         bool    // the Linux console's
	otherKeys          bool    // xterm's modifyOtherKeys

	values settings

	// Of Kitty's keyboard protocol, on the main screen and the alternate one, since each
	// has its own: whether flags were set without being pushed, and how many were pushed.
	keys   [2]bool
	pushed [2]int

	titles  int  // pushed
	link    bool // open
	bar     bool // a progress bar is shown
	palette bool
	colors  [3]bool // of text, ground and cursor
}

// mode notes that a mode was set or reset.
func (t *traces) mode(i int, on bool) {
	bit := uint64(1) << i
	t.on &^= bit
	t.off &^= bit
	switch {
	case on && modes[i].rest == 'l':
		t.on |= bit
	case !on && modes[i].rest == 'h':
		t.off |= bit
	case !on && (modes[i].n == "1048" || modes[i].n == "1049"):
		t.restored()
	}
}

// isOn reports whether one of the private modes is set.
func (t *traces) isOn(list ...string) bool {
	for _, n := range list {
		if t.on>>modeOf(true, n)&1 != 0 {
			return true
		}
	}
	return false
}

// reporting reports whether the terminal sends things by itself.
func (t *traces) reporting() bool {
	for i := range modes {
		if modes[i].reports && t.on>>i&1 != 0 {
			return true
		}
	}
	return false
}

// alternate reports whether the alternate screen is shown.
func (t *traces) alternate() bool { return t.isOn("47", "1047", "1049") }

// style notes an SGR.
func (t *traces) style(params string) {
	t.styled = strings.Trim(params, "0;") != ""
	t.everStyled = t.everStyled || t.styled
	for list := strings.Split(params, ";"); len(list) > 0; list = list[1:] {
		switch p := list[0]; {
		case (p == "38" || p == "48" || p == "58") && len(list) > 2: // a colour by its number, or by three
			list = list[min(len(list)-1, map[string]int{"5": 2, "2": 4}[list[1]]):]
		case len(p) == 2 && p[0] == '1':
			t.altFont = p != "10"
		}
	}
}

// restored notes that a cursor came back, with the style that it had when it was
// saved.
func (t *traces) restored() { t.styled = t.styled || t.everStyled }

// cleared notes a full reset. What is put back twice does no harm, but leaving
// the alternate screen would move the cursor, and the keys' stacks are empty.
func (t *traces) cleared() {
	t.mode(modeOf(true, "47"), false)
	t.mode(modeOf(true, "1047"), false)
	t.mode(modeOf(true, "1049"), false)
	t.keys, t.pushed, t.margins = [2]bool{}, [2]int{}, false
	t.values.pushed = [2][]string{}
}

// screen is the index of what is shown among the two screens.
func (t *traces) screen() int {
	if t.alternate() {
		return 1
	}
	return 0
}

func (t *traces) keyDepth() *int { return &t.pushed[t.screen()] }

func (t *traces) pushKeys(flags string) {
	*t.keyDepth()++
	t.values.push(t.screen(), flags)
}

// maxKeys is more than any terminal keeps of pushed flags.
const maxKeys = 64

func popKeys(n int) string { return "\x1b[<" + strconv.Itoa(min(n, maxKeys)) + "u" }

// reset are the sequences that put everything back that isn't at rest, the
// modes of the screen first: nothing is shown while a synchronized update
// goes on, and leaving the alternate screen brings the cursor back.
func (t *traces) reset() []byte {
	var b strings.Builder
	put := func(when bool, sequence string) {
		if when {
			b.WriteString(sequence)
		}
	}
	put(t.isOn("2026"), "\x1b[?2026l")
	if (t.pushed[1] > 0 || t.keys[1]) && !t.alternate() { // it left them there
		t.mode(modeOf(true, "1049"), true)
		put(true, "\x1b[?1049h")
	}
	if t.alternate() {
		t.restored()
		put(t.pushed[1] > 0, popKeys(t.pushed[1]))
		put(t.keys[1], "\x1b[=0u")
		for _, n := range []string{"47", "1047", "1049"} {
			put(t.isOn(n), "\x1b[?"+n+"l")
		}
	}
	put(t.pushed[0] > 0, popKeys(t.pushed[0]))
	put(t.keys[0], "\x1b[=0u")
	put(t.otherKeys, "\x1b[>4m")
	origin := t.isOn("6")
	if t.margins || origin || t.isOn("69") {
		// Each of these sends the cursor home. With the origin moved, saving it
		// would save that too.
		put(!origin, "\x1b7")
		put(origin, "\x1b[?6l")
		put(t.isOn("69"), "\x1b[?69l")
		b.WriteString("\x1b[r")
		put(!origin, "\x1b8")
		put(origin, "\x1b[999;1H")
	}
	for i := range modes {
		t.resetMode(&b, i)
	}
	put(t.keypad, "\x1b>")
	put(t.shifted, "\x0f")
	for g, set := range t.designated {
		put(set, "\x1b"+charsets[g:g+1]+"B")
	}
	put(t.shape, "\x1b[0 q")
	put(t.softCursor, "\x1b[?0c")
	t.resetStrings(put)
	put(t.altFont, "\x1b[10m")
	put(t.styled, "\x1b[0m")
	*t = traces{}
	return []byte(b.String())
}

// resetMode puts one mode back, unless that was done.
func (t *traces) resetMode(b *strings.Builder, i int) {
	m := modes[i]
	switch m.n {
	case "6", "69", "47", "1047", "1049", "2026":
		if m.private {
			return
		}
	}
	if (t.on|t.off)>>i&1 == 0 {
		return
	}
	b.WriteString("\x1b[")
	if m.private {
		b.WriteByte('?')
	}
	b.WriteString(m.n)
	b.WriteByte(m.rest)
}

// resetStrings puts back what was set by OSC.
func (t *traces) resetStrings(put func(bool, string)) {
	put(t.link, "\x1b]8;;\x1b\\")
	put(t.bar, "\x1b]9;4;0;\x1b\\")
	put(t.palette, "\x1b]104\x1b\\")
	for i, n := range []string{"110", "111", "112"} {
		put(t.colors[i], "\x1b]"+n+"\x1b\\")
	}
	for range t.titles {
		put(true, popTitle)
	}
}

// charsets are the bytes that designate G0 to G3.
const charsets = "()*+"

// The title is pushed before a program sets it the first time, and popped at the
// end. Terminals that can't do that ignore both.
const (
	pushTitle = "\x1b[22;0t"
	popTitle  = "\x1b[23;0t"
)
