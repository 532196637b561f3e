package terminal

import (
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"
)

// reader reads output as some terminal does. It shares nothing with the filter,
// and no terminal is meant: each field is a reading that one of them has.
type reader struct {
	bytes bool // no UTF-8: controls of C1 are bytes
	stray bool // UTF-8, but a byte that is no part of it may be a control of C1
	deaf  bool // an ESC in a string is part of it, unless \ follows
	hasty bool // any control ends a string
}

// readers are for terminals with UTF-8; a terminal of bytes is the last one.
var readers = []reader{{}, {stray: true}, {stray: true, deaf: true}, {stray: true, hasty: true}, {bytes: true}}

// next is the next character of s and its length.
func (r reader) next(s string) (c rune, size int) {
	if r.bytes || s[0] < 0x80 {
		return rune(s[0]), 1
	}
	c, size = utf8.DecodeRuneInString(s)
	if c == utf8.RuneError && size == 1 && r.stray {
		return rune(s[0]), 1
	}
	return c, size
}

// events are the commands that a terminal finds in s: "ESC c", "CSI ?25h",
// "OSC 0;title", "C0 07" and so on.
func (r reader) events(s string) []string {
	var list []string
	for len(s) > 0 {
		c, size := r.next(s)
		rest := s[size:]
		introducer := byte(0)
		switch {
		case c == esc:
			event, after, in := r.escape(rest)
			if event != "" {
				list = append(list, event)
			}
			introducer, rest = in, after
		case c >= 0x80 && c < 0xa0:
			introducer = byte(c) - 0x40
			list = append(list, fmt.Sprintf("C1 %02x", c))
		case c < 0x20:
			list = append(list, fmt.Sprintf("C0 %02x", c))
		}
		switch name := strings.Index("P]X^_k", string(introducer)); {
		case introducer == '[':
			event, after := r.sequence(rest)
			list, rest = append(list, "CSI "+event), after
		case introducer != 0 && name >= 0:
			body, after := r.body(rest, introducer == ']')
			list = append(list, []string{"DCS", "OSC", "SOS", "PM", "APC", "TITLE"}[name]+" "+body)
			rest = after
		}
		s = rest
	}
	return list
}

// escape reads what follows an ESC.
func (r reader) escape(s string) (event, rest string, introducer byte) {
	i := 0
	for i < len(s) && s[i] >= 0x20 && s[i] < 0x30 {
		i++
	}
	if i == len(s) || s[i] < 0x30 || s[i] > 0x7e {
		return "", s[i:], 0
	}
	if i == 0 && strings.IndexByte("[P]X^_k", s[0]) >= 0 {
		return "", s[1:], s[0]
	}
	return "ESC " + s[:i+1], s[i+1:], 0
}

func (r reader) sequence(s string) (event, rest string) {
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 0x40 && c < 0x7f:
			return event + s[i:i+1], s[i+1:]
		case c == esc, c >= 0x80:
			return "", s[i:]
		default:
			event += s[i : i+1]
		}
	}
	return "", ""
}

// body reads a string up to its end, or up to where this terminal gives it up.
func (r reader) body(s string, osc bool) (body, rest string) {
	for i := 0; i < len(s); {
		c, size := r.next(s[i:])
		switch {
		case c == bel && osc, c == 0x9c:
			return s[:i], s[i+size:]
		case c == esc && strings.HasPrefix(s[i:], "\x1b\\"):
			return s[:i], s[i+2:]
		case c == esc && !r.deaf, c < 0x20 && c != esc && r.hasty, c >= 0x80 && c < 0xa0 && !r.deaf:
			return s[:i], s[i:]
		}
		i += size
	}
	return s, ""
}

// harmless are the commands that may arrive, written down a second time: in
// another way than in the filter, so that a slip shows.
var harmless = regexp.MustCompile(`^(?:` + strings.Join([]string{
	`C0 0[0789a-f]`,
	`ESC (?:[78DEMc=>\\]|[()*+][AB012UK<])`,
	"CSI [0-9;]*[@A-MPXZ`abdefSr]",
	`CSI [0-9]*T`, `CSI \?[0-9;]*[JKc]`, `CSI [0-9;:]*m`, `CSI (?:[0-9;]*s|u)`, `CSI !p`, `CSI [0-9]* q`,
	`CSI [0-9;]*\$[rtvxz{]`,
	`CSI (?:4|34)(?:;4|;34)*[hl]`,
	`CSI \?(?:[0-9;]*[;?])?(?:[145679]|12|25|45|47|66|69|100[0234567]|101[56]|104[789]|2004|202[67]|2031|2048|7727|9001)[hl]`,
	`CSI >?0?c`, `CSI >0?q`, `CSI (?:[56]|\?6|\?996)n`, `CSI \?u`, `CSI \??[0-9]+\$p`,
	`CSI (?:14|14;2|15|16|18|19|2[23](?:;[0-9]*)*)t`,
	`CSI [<>][0-9]*u`, `CSI =[0-9;]*u`, `CSI >(?:4(?:;[0-9;]*)?)?[mn]`,
	`OSC [012];.{0,512}`, `OSC 4;.*`, `OSC 1[0-2];.*`, `OSC 1[3-9];[?;]*`, `OSC 104(?:;[0-9;]*)?`, `OSC 11[012];?`,
	`OSC 8;[!-~]*;`, `OSC 8;[!-~]*;(?i:https?)://[!-~]*`, `OSC 9;4;[0-9](?:;[0-9;]*)?`,
	`APC G(?:[a-su-zA-Z]=[-0-9A-Za-z]*,?|t=d,?)*(?:;[0-9A-Za-z+/=]*)?`,
}, "|") + `)$`)

// harm is what s would do to a terminal that it must not.
func harm(s string, readers ...reader) []string {
	var list []string
	for _, r := range readers {
		for _, e := range r.events(s) {
			if !harmless.MatchString(e) {
				list = append(list, fmt.Sprintf("%q, read as %+v", e, r))
			}
		}
	}
	return list
}
