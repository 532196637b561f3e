package terminal

import (
	"bytes"
	"slices"
	"strings"
)

// sequence is a control sequence (ECMA-48, section 5.4): ESC [, perhaps one of
// < = > ?, parameters, intermediate bytes and the final one.
type sequence struct {
	kind   string // all but the parameters, such as "?h" or " q"
	params string // digits, semicolons and colons
}

// maxDigits is what a parameter may have of them: more than any that means something,
// and too few to become another number in a terminal's sixteen or thirty-two bits.
const maxDigits = 6

// parse takes a sequence apart; what isn't in this order is not well formed, nor is a
// number that is too long.
func parse(seq []byte) (s sequence, ok bool) {
	body := seq[2:]
	prefix := 0
	if strings.IndexByte("<=>?", body[0]) >= 0 {
		prefix = 1
	}
	end := prefix
	for body[end] >= '0' && body[end] <= ';' {
		end++
	}
	s.params = string(body[prefix:end])
	for p := range strings.FieldsFuncSeq(s.params, func(r rune) bool { return r > '9' }) {
		if len(p) > maxDigits {
			return sequence{}, false
		}
	}
	for _, b := range body[end : len(body)-1] {
		if b >= 0x30 {
			return sequence{}, false
		}
	}
	s.kind = string(body[:prefix]) + string(body[end:])
	return s, true
}

// only reports whether there is one parameter, of the listed ones. Leading zeros
// and other ways of writing a number are nobody's.
func (s sequence) only(list ...string) bool { return slices.Contains(list, s.params) }

// number is the one parameter; a missing one counts as missing.
func (s sequence) number(missing int) (n int, ok bool) {
	if s.params == "" {
		return missing, true
	}
	return number(s.params)
}

// number reads a parameter.
func number(text string) (n int, ok bool) {
	if text == "" || len(text) > maxDigits {
		return 0, false
	}
	for i := range len(text) {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		n = 10*n + int(text[i]-'0')
	}
	return n, true
}

// paints are the sequences that change what is on the screen, or where the cursor
// is, and leave nothing: of characters, lines, the cursor, tabs, scrolling, and
// rectangles.
var paints = map[string]bool{
	"@": true, "A": true, "B": true, "C": true, "D": true, "E": true, "F": true, "G": true, "H": true,
	"I": true, "J": true, "K": true, "L": true, "M": true, "P": true, "S": true, "X": true, "Z": true,
	"`": true, "a": true, "b": true, "d": true, "e": true, "f": true, "?J": true, "?K": true,
	"!p": true, // DECSTR: the soft reset
	"$r": true, "$t": true, "$v": true, "$x": true, "$z": true, "${": true,
}

// questions are the sequences that are answered with numbers that the terminal
// chooses, and the parameters that ask so.
var questions = map[string][]string{
	"c":  {"", "0"},                              // DA1
	">c": {"", "0"},                              // DA2
	">q": {"", "0"},                              // XTVERSION: its answer names the terminal
	"n":  {"5", "6"},                             // DSR: state, place of the cursor
	"?n": {"6", "996"},                           // DECXCPR; dark or light
	"?u": {""},                                   // Kitty's keyboard protocol
	"t":  {"14", "14;2", "15", "16", "18", "19"}, // XTWINOPS: sizes
}

// control judges a control sequence.
func (f *Filter) control(dst []byte) []byte {
	s, ok := parse(f.seq)
	if !ok {
		return dst
	}
	switch {
	case s.kind == "m":
		f.traces.style(s.params)
	case paints[s.kind] && digits(s.params):
	case questions[s.kind] != nil && s.only(questions[s.kind]...):
		if !f.ask() {
			return dst
		}
		if s.kind == "c" {
			f.asked.Attributes++
		}
	default:
		return f.special(dst, s)
	}
	return append(dst, f.seq...)
}

// special judges the sequences that set something, or that pass in part.
func (f *Filter) special(dst []byte, s sequence) []byte {
	pass := false
	switch s.kind {
	case "h", "l", "?h", "?l":
		return f.modes(dst, s)
	case "t":
		pass = f.window(s)
	case "<u":
		return f.popKeys(dst, s)
	case ">u":
		if _, ok := s.number(0); ok && f.o.Answers {
			pass = true
			f.traces.pushKeys(s.params)
		}
	case "=u":
		pass = f.o.Answers && digits(s.params)
		if pass {
			screen := f.traces.screen()
			f.traces.keys[screen], f.traces.values.keys[screen] = s.params != "0", s.params
		}
	case ">m", ">n":
		pass = f.otherKeys(s)
	case "$p", "?$p":
		_, ok := number(s.params)
		pass = ok && f.ask()
	case "T": // with five parameters it is a way of following the mouse that stops the terminal
		_, pass = s.number(1)
	case "r", "s":
		pass = digits(s.params)
		if pass && (s.kind == "r" || s.params != "") {
			f.traces.margins = s.params != ""
		}
	case "u":
		if pass = s.params == ""; pass {
			f.traces.restored()
		}
	case " q":
		n, ok := s.number(0)
		pass, f.traces.shape = ok, ok && n != 0
		f.traces.values.shape = string(f.seq)
	case "?c": // of the Linux console: the cursor's shape
		pass = digits(s.params)
		f.traces.softCursor = pass && s.params != "" && s.params != "0"
	default:
		f.note(reports[s.kind])
	}
	if !pass {
		return dst
	}
	return append(dst, f.seq...)
}

// reports are sequences that the note at the end tells of.
var reports = map[string]Kind{
	"*y": Report,  // DECRQCRA: a checksum of part of the screen, and so what is there
	"i":  Printer, // media copy
	"?i": Printer,
	"*z": Program, // DECINVM: runs a macro
}

// digits reports whether params are numbers and semicolons.
func digits(params string) bool { return strings.Trim(params, "0123456789;") == "" }

// window lets the title be pushed, and popped when it was pushed, beside the
// reports of sizes. Moving, resizing and raising windows is the user's.
func (f *Filter) window(s sequence) bool {
	op, rest, _ := strings.Cut(s.params, ";")
	switch {
	case op == "21" || op == "20":
		f.note(Report)
	case op == "22" && digits(rest) && f.traces.titles < maxTitles:
		f.traces.titles++
		return true
	case op == "23" && digits(rest) && f.traces.titles > 0:
		f.traces.titles--
		return true
	}
	return false
}

// popKeys lets go what was pushed of the keyboard's modes, and no more: what is
// below is of a program outside.
func (f *Filter) popKeys(dst []byte, s sequence) []byte {
	n, ok := s.number(1)
	depth := f.traces.keyDepth()
	switch {
	case !ok || *depth == 0:
		return dst
	case n > *depth:
		f.seq = append(f.seq[:0], popKeys(*depth)...)
		*depth = 0
	default:
		*depth -= max(n, 1)
	}
	f.traces.values.pop(f.traces.screen(), max(n, 1))
	return append(dst, f.seq...)
}

// otherKeys lets xterm's modifyOtherKeys be set, which makes it send keys that
// have no code otherwise.
func (f *Filter) otherKeys(s sequence) bool {
	resource, value, _ := strings.Cut(s.params, ";")
	if !f.o.Answers || resource != "4" && s.params != "" || !digits(value) {
		return false
	}
	f.traces.otherKeys = s.kind == ">n" || value != "" && value != "0"
	f.traces.values.otherKeys = string(f.seq)
	return true
}

// modes lets those modes pass that the table has, in a sequence of their own if
// others stand beside them.
func (f *Filter) modes(dst []byte, s sequence) []byte {
	private, on := s.kind[0] == '?', s.kind[len(s.kind)-1] == 'h'
	var kept []string
	all := true
	for p := range strings.SplitSeq(s.params, ";") {
		i := modeOf(private, p)
		if i < 0 || modes[i].input && !f.o.Answers {
			all = false
			continue
		}
		f.traces.mode(i, on)
		kept = append(kept, p)
	}
	switch {
	case all:
		return append(dst, f.seq...)
	case kept == nil:
		return dst
	}
	list := strings.Join(kept, ";")
	return append(dst, bytes.Replace(f.seq, []byte(s.params), []byte(list), 1)...)
}

// designations are the character sets that may be chosen: ASCII, the British one
// and the lines (VT100), and the Linux console's own.
const designations = "AB012UK<"

// escape judges an ESC with what follows it.
func (f *Filter) escape() bool {
	if len(f.seq) == 3 {
		// ESC % @ would leave UTF-8, and ESC SP G make the terminal write C1.
		g := strings.IndexByte(charsets, f.seq[1])
		if g < 0 || strings.IndexByte(designations, f.seq[2]) < 0 {
			return false
		}
		f.traces.designated[g] = f.seq[2] != 'B'
		return true
	}
	if len(f.seq) != 2 {
		return false
	}
	switch f.seq[1] {
	case '7', 'D', 'E', 'M':
	case '8':
		f.traces.restored()
	case '=':
		if !f.o.Answers {
			return false
		}
		f.traces.keypad = true
	case '>':
		f.traces.keypad = false
	case 'c':
		f.traces.cleared()
	default:
		return false
	}
	return true
}
