// Package terminal filters what a program in a sandbox writes to the user's
// terminal.
//
// A terminal obeys what is written to it: it sets the clipboard, saves files,
// answers with text that arrives as if it had been typed. The filter lets pass
// what it knows to do no more than paint, to set what can be set back, or to ask
// for answers that the program doesn't choose, and drops everything else
// (docs/terminal.md has the table, docs/adr/0096 the reasons). A control sequence
// passes as a whole and as it was, or not at all, so that no other reading of
// half a sequence by some terminal comes into it.
package terminal

import (
	"encoding/binary"
	"io"
	"unicode/utf8"
)

// Options say what is at both ends.
type Options struct {
	// Answers: what the terminal sends is read by the program. Otherwise nothing
	// passes that would make the terminal send something, since that would be
	// typed into the user's shell.
	Answers bool

	// EightBit: the terminal doesn't read UTF-8, so that each byte from 0x80 to
	// 0x9f is a control (ECMA-48, section 5.3), also in the middle of a character.
	EightBit bool
}

// Filter is a writer that passes on what a terminal may get. It is for one
// goroutine.
type Filter struct {
	w   io.Writer
	o   Options
	out []byte // of one Write

	state state
	seq   []byte // what there is of a sequence, from its ESC on
	bad   bool   // the string in seq is dropped whatever follows
	last  byte   // of the string
	left  int    // digits of a Linux palette entry to come

	part  [utf8.UTFMax]byte // a character that isn't whole yet
	parts int

	traces traces
	asked  Asked
	kept   map[Kind]int
}

// Asked counts the questions that have passed.
type Asked struct {
	All        int
	Attributes int // DA1 among them, the one that every terminal answers
}

// Kind is a sort of dropped sequences that a user may want to hear of.
type Kind string

// The kinds; what is of none was of no consequence.
const (
	Clipboard Kind = "use of the clipboard"
	Files     Kind = "transfer of files"
	Report    Kind = "reading title, screen or state"
	Program   Kind = "programming the terminal"
	Printer   Kind = "use of the printer"
	Link      Kind = "links that aren't http(s)"
	Bytes     Kind = "bytes of characters that a terminal without UTF-8 takes for controls"
)

// New is a filter in front of w, the user's terminal.
func New(w io.Writer, o Options) *Filter {
	return &Filter{w: w, o: o, kept: map[Kind]int{}}
}

// Write passes on what of p may pass. What is unfinished at its end waits for
// the next one.
func (f *Filter) Write(p []byte) (int, error) {
	f.out = f.filter(f.out[:0], p)
	if len(f.out) > 0 {
		if _, err := f.w.Write(f.out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Close puts back what was set and not put back. The rest of a sequence that
// never became whole is dropped: nothing of it has reached the terminal.
func (f *Filter) Close() error {
	f.end()
	f.parts = 0
	if reset := f.traces.reset(); len(reset) > 0 {
		_, err := f.w.Write(reset)
		return err
	}
	return nil
}

// Asked are the questions so far. Their answers come from the terminal at its
// own time.
func (f *Filter) Asked() Asked { return f.asked }

// Reporting tells whether the terminal sends things by itself, such as movements
// of the mouse, until Close.
func (f *Filter) Reporting() bool { return f.traces.reporting() }

// Kept is how often something of a kind was dropped.
func (f *Filter) Kept() map[Kind]int { return f.kept }

const (
	bel = 0x07
	so  = 0x0e
	si  = 0x0f
	can = 0x18
	sub = 0x1a
	esc = 0x1b
	del = 0x7f
)

// passing has a bit for each control character that passes: NUL, BEL, BS, HT, LF,
// VT, FF, CR, SO and SI. ENQ asks for the answerback message, XOFF holds a
// line, CAN begins a ZMODEM transfer and SOH one of Kermit's for terminals that
// wait for those; the others do nothing.
const passing = 1<<0 | 1<<7 | 1<<8 | 1<<9 | 1<<10 | 1<<11 | 1<<12 | 1<<13 | 1<<14 | 1<<15

func passes(c byte) bool { return c >= 0x20 || passing>>c&1 != 0 }

// filter appends to dst what of src passes.
func (f *Filter) filter(dst, src []byte) []byte {
	for i := 0; i < len(src); i++ {
		if f.state == ground && f.parts == 0 {
			n := f.plain(src[i:])
			dst = append(dst, src[i:i+n]...)
			if i += n; i == len(src) {
				break
			}
		}
		dst = f.step(dst, src[i])
	}
	return dst
}

// plain is how much of the beginning of p passes and isn't part of a sequence.
func (f *Filter) plain(p []byte) int {
	for i := 0; ; {
		for ; i+8 <= len(p); i += 8 {
			// Eight bytes at once: one below 0x20 borrows and so sets its highest
			// bit, which those above 0x7f have anyway.
			const low, high = 0x2020202020202020, 0x8080808080808080
			if x := binary.LittleEndian.Uint64(p[i:]); (x|(x-low))&high != 0 {
				break
			}
		}
		if i == len(p) {
			return i
		}
		switch c := p[i]; {
		case c < 0x80 && !passes(c), c == so, c == si, f.o.EightBit && c >= 0x80 && c < 0xa0:
			return i
		case c < 0x80 || f.o.EightBit:
			i++
		default:
			r, size := utf8.DecodeRune(p[i:])
			if size == 1 || r < 0xa0 { // invalid or not whole yet; a control of C1
				return i
			}
			i += size
		}
	}
}

// high takes a byte from 0x80 on, or one that follows such in a character. Each
// byte that is no UTF-8 becomes U+FFFD, as which terminals show it: so no
// decoder finds anything else in what passes.
func (f *Filter) high(dst []byte, b byte) []byte {
	if f.o.EightBit { // plain has let the others pass
		f.note(Bytes)
		return dst
	}
	f.part[f.parts] = b
	f.parts++
	part := f.part[:f.parts]
	if !utf8.FullRune(part) {
		return dst
	}
	f.parts = 0
	r, size := utf8.DecodeRune(part)
	switch {
	case size > 1 && r >= 0xa0:
		return append(dst, part...)
	case size > 1: // U+0080 to U+009F, which many terminals obey
		return dst
	}
	dst = utf8.AppendRune(dst, utf8.RuneError)
	var rest [utf8.UTFMax]byte
	return f.filter(dst, rest[:copy(rest[:], part[1:])])
}
