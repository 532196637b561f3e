package terminal

// state is where in a sequence the filter is. The states are those of the VT500's
// parser, as most terminals have it, with fewer of them: a sequence that isn't
// well formed is dropped, and it doesn't matter how a terminal would read it.
type state uint8

const (
	ground    state = iota
	escaped         // after ESC, and the intermediate bytes that may follow
	control         // after ESC [
	text            // in the string of an OSC, DCS, SOS, PM or APC, or a title of ESC k
	textEnds        // after an ESC in it
	palette         // after ESC ] P, where the Linux console expects seven digits and no end
	swallowed       // in a control sequence that is too long
)

// Bounds of what is held of one sequence. Kitty's images come in pieces of 4096
// bytes, links have up to 2083 (VTE's limit), colours as many as a terminal has
// parameters.
const (
	maxControl = 512
	maxText    = 8 << 10
)

// begin takes an ESC.
func (f *Filter) begin() {
	f.state, f.bad, f.last = escaped, false, 0
	f.seq = append(f.seq[:0], esc)
}

// end forgets the sequence.
func (f *Filter) end() {
	f.state, f.seq = ground, f.seq[:0]
}

// step takes a byte that plain doesn't.
func (f *Filter) step(dst []byte, b byte) []byte {
	if f.state == ground {
		switch {
		case b >= 0x80 || f.parts > 0:
			return f.high(dst, b)
		case b == esc:
			f.begin()
			return dst
		}
		return f.c0(dst, b)
	}
	switch {
	case b == esc && f.state == text:
		f.state = textEnds
		return dst
	case b == esc:
		f.begin()
		return dst
	case b == can || b == sub:
		f.end()
		return dst
	}
	switch f.state {
	case text:
		return f.stepText(dst, b)
	case textEnds:
		if b == '\\' {
			return f.endText(dst, "\x1b\\")
		}
		f.begin() // what there was of the string is gone
	case palette:
		return f.stepPalette(dst, b)
	}
	switch {
	case b < 0x20: // terminals obey it before the sequence that it stands in
		return f.c0(dst, b)
	case b == del:
		return dst
	case b >= 0x80:
		f.end()
		return f.filter(dst, []byte{b})
	case f.state == escaped:
		return f.stepEscaped(dst, b)
	}
	return f.stepControl(dst, b)
}

// c0 takes a control character.
func (f *Filter) c0(dst []byte, b byte) []byte {
	if !passes(b) {
		return dst
	}
	if b == so || b == si {
		f.traces.shifted = b == so
	}
	return append(dst, b)
}

// stepEscaped takes what follows an ESC.
func (f *Filter) stepEscaped(dst []byte, b byte) []byte {
	if b < 0x30 {
		if len(f.seq) < maxControl {
			f.seq = append(f.seq, b)
		}
		return dst
	}
	f.seq = append(f.seq, b)
	if len(f.seq) == 2 {
		switch b {
		case '[':
			f.state = control
			return dst
		case ']', 'P', 'X', '^', '_', 'k':
			f.state = text
			return dst
		}
	}
	if f.escape() {
		dst = append(dst, f.seq...)
	}
	f.end()
	return dst
}

// stepControl takes what follows ESC [.
func (f *Filter) stepControl(dst []byte, b byte) []byte {
	switch {
	case b >= 0x40 && f.state == swallowed:
		f.end()
	case b >= 0x40:
		f.seq = append(f.seq, b)
		dst = f.control(dst)
		f.end()
	case len(f.seq) < maxControl:
		f.seq = append(f.seq, b)
	default:
		f.state = swallowed
	}
	return dst
}

// stepText takes a byte of a string. One without an end costs no memory, and
// hides what follows up to the next ESC, as it does on terminals.
func (f *Filter) stepText(dst []byte, b byte) []byte {
	osc := f.seq[1] == ']'
	switch {
	case osc && b == bel: // xterm's other end of an OSC
		return f.endText(dst, "\a")
	case b == 0x9c && (f.o.EightBit || f.last == 0xc2):
		// ST as a control of C1. It could pass as ESC \, but nobody writes it.
		f.note(f.kindOfText())
		f.end()
		return dst
	case osc && len(f.seq) == 2 && b == 'R': // of the Linux console (console_codes(4)): it has no end
		f.end()
		return dst
	case osc && len(f.seq) == 2 && b == 'P':
		f.state, f.left = palette, 7
		return dst
	case b < 0x20 || b == del || len(f.seq) >= maxText:
		f.bad = true
	case !f.bad:
		f.seq = append(f.seq, b)
	}
	f.last = b
	return dst
}

// stepPalette drops a colour of the Linux console.
func (f *Filter) stepPalette(dst []byte, b byte) []byte {
	hex := b >= '0' && b <= '9' || b >= 'a' && b <= 'f' || b >= 'A' && b <= 'F'
	if f.left--; hex && f.left > 0 {
		return dst
	}
	f.end()
	if !hex {
		return f.filter(dst, []byte{b})
	}
	return dst
}

// endText judges a whole string.
func (f *Filter) endText(dst []byte, end string) []byte {
	passes, instead := f.text()
	switch {
	case passes:
		dst = append(dst, instead...)
		dst = append(append(dst, f.seq...), end...)
	default:
		dst = append(dst, instead...)
	}
	f.end()
	return dst
}

// note counts a sequence that was dropped.
func (f *Filter) note(k Kind) {
	if k != "" {
		f.kept[k]++
	}
}

// ask reports whether a question may pass, and counts it.
func (f *Filter) ask() bool {
	if f.o.Answers {
		f.asked.All++
	}
	return f.o.Answers
}
