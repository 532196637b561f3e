package terminal

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"
)

// oscKinds are the operating system commands that a user may want to hear of
// when they are dropped.
var oscKinds = map[string]Kind{
	"52": Clipboard, "5522": Clipboard,
	"5113": Files, "46": Files, // Kitty, xterm's log
	"3": Program, "50": Program, "51": Program, "777": Program, // X properties, fonts, Emacs' functions, rxvt's extensions
	"8": Link,
}

// kindOfText is what a string that is dropped was for.
func (f *Filter) kindOfText() Kind {
	body := string(f.seq[2:])
	number, rest, _ := strings.Cut(body, ";")
	switch f.seq[1] {
	case ']':
		switch {
		case number != "1337":
			return oscKinds[number]
		case strings.Contains(rest, "File"), strings.HasPrefix(rest, "RequestUpload"):
			return Files
		case strings.Contains(rest, "Copy"):
			return Clipboard
		}
	case '_':
		if strings.HasPrefix(body, "G") {
			return Files
		}
	case 'P': // function keys, macros, characters, the name of the terminal
		what := strings.TrimLeft(body, "0123456789;")
		for _, command := range []string{"|", "!z", "{", "+p"} {
			if strings.HasPrefix(what, command) {
				return Program
			}
		}
	}
	return ""
}

// text judges a string that is whole. If it passes, instead goes before it, and
// otherwise in its place.
func (f *Filter) text() (passes bool, instead string) {
	body := f.seq[2:]
	if !f.bad && f.printable(body) {
		switch f.seq[1] {
		case ']':
			passes, instead = f.osc(body)
		case '_':
			passes = f.kitty(body)
		}
	}
	if !passes && instead == "" {
		f.note(f.kindOfText())
	}
	return passes, instead
}

// printable reports whether no terminal finds a control in a string.
func (f *Filter) printable(body []byte) bool {
	if f.o.EightBit {
		return bytes.IndexFunc(body, func(r rune) bool { return r >= 0x80 }) < 0
	}
	return utf8.Valid(body) && bytes.IndexFunc(body, func(r rune) bool { return r >= 0x80 && r < 0xa0 }) < 0
}

// osc judges an operating system command.
func (f *Filter) osc(body []byte) (passes bool, instead string) {
	number, rest, hasMore := strings.Cut(string(body), ";")
	if !hasMore && len(number) < 3 { // only resets have nothing more
		return false, ""
	}
	switch number {
	case "0", "1", "2":
		return f.title(rest)
	case "4":
		return f.paletteColors(rest), ""
	case "10", "11", "12", "13", "14", "15", "16", "17", "18", "19":
		return f.namedColors(int(number[1]-'0'), rest), ""
	case "104":
		f.traces.palette = f.traces.palette && rest != ""
		return digits(rest), ""
	case "110", "111", "112":
		if rest != "" {
			return false, ""
		}
		f.traces.colors[number[2]-'0'] = false
		return true, ""
	case "8":
		return f.link(rest), ""
	case "9":
		return f.notice(rest)
	case "99": // Kitty's notifications; d=0 says that more of it follows
		if meta, _, _ := strings.Cut(rest, ";"); strings.Contains(meta, "d=0") || strings.Contains(meta, "p=?") {
			return false, ""
		}
		return false, "\a"
	case "777":
		if strings.HasPrefix(rest, "notify;") {
			return false, "\a"
		}
	}
	return false, ""
}

// maxTitle is longer than what a tab has room for.
const maxTitle = 512

// title lets titles pass that show what they are.
func (f *Filter) title(text string) (passes bool, first string) {
	odd := func(r rune) bool { return !unicode.IsPrint(r) && r != '\u200d' } // that joins emoji
	if len(text) > maxTitle || strings.IndexFunc(text, odd) >= 0 {
		return false, ""
	}
	if f.traces.titles == 0 {
		f.traces.titles = 1
		return true, pushTitle
	}
	return true, ""
}

// color reports whether text is a colour as X has it, or asks for one.
func color(text string) (ok, asks bool) {
	if text == "?" {
		return true, true
	}
	odd := func(r rune) bool {
		return r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("#:/., -", r)
	}
	return text != "" && len(text) <= 64 && strings.IndexFunc(text, odd) < 0, false
}

// paletteColors judges OSC 4: pairs of a number and a colour.
func (f *Filter) paletteColors(list string) bool {
	fields := strings.Split(list, ";")
	asked, set := false, false
	for i := 0; i < len(fields); i += 2 {
		if _, ok := number(fields[i]); !ok || i+1 == len(fields) {
			return false
		}
		ok, asks := color(fields[i+1])
		if !ok {
			return false
		}
		asked, set = asked || asks, set || !asks
	}
	if asked && !f.ask() {
		return false
	}
	f.traces.palette = f.traces.palette || set
	return true
}

// namedColors judges OSC 10 to 19: a colour, and those of the numbers that
// follow. Only those of text, ground and cursor can be put back everywhere.
func (f *Filter) namedColors(first int, list string) bool {
	fields := strings.Split(list, ";")
	asked := false
	for i, field := range fields {
		ok, asks := color(field)
		if !ok || !asks && first+i >= len(f.traces.colors) {
			return false
		}
		asked = asked || asks
	}
	if asked && !f.ask() {
		return false
	}
	for i, field := range fields {
		if field != "?" {
			f.traces.colors[first+i] = true
		}
	}
	return true
}

// link lets links into the web pass, and the end of a link.
func (f *Filter) link(text string) bool {
	params, uri, ok := strings.Cut(text, ";")
	odd := func(r rune) bool { return r <= ' ' || r >= del }
	if !ok || strings.IndexFunc(params, odd) >= 0 || strings.IndexFunc(uri, odd) >= 0 {
		return false
	}
	scheme, host, hasHost := strings.Cut(uri, "://")
	web := hasHost && host != "" && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
	if uri != "" && !web {
		return false
	}
	f.traces.link = uri != ""
	return true
}

// notice makes a bell of iTerm2's notifications: what the text says is the
// sandbox's, but that the user is waited for is worth knowing. Numbers at its
// beginning are ConEmu's commands, of which progress passes.
func (f *Filter) notice(text string) (passes bool, instead string) {
	command, rest, _ := strings.Cut(text, ";")
	if _, isNumber := number(command); !isNumber {
		return false, "\a"
	}
	state, _, _ := strings.Cut(rest, ";")
	if command != "4" || len(state) != 1 || !digits(rest) {
		return false, ""
	}
	f.traces.bar = state != "0"
	return true, ""
}

// kitty lets images of Kitty's protocol pass that are in the sequence itself, not
// those in a file or in memory that the terminal would open.
func (f *Filter) kitty(body []byte) bool {
	keys, data, _ := strings.Cut(string(body), ";")
	keys, ok := strings.CutPrefix(keys, "G")
	if !ok || strings.Trim(data, base64) != "" {
		return false
	}
	named, quiet, loud := false, false, false
	for pair := range strings.SplitSeq(keys, ",") {
		if keys == "" {
			break
		}
		key, value, found := strings.Cut(pair, "=")
		if !found || len(key) != 1 || strings.Trim(key, letters) != "" || strings.Trim(value, "-0123456789"+letters) != "" {
			return false
		}
		switch key {
		case "t":
			if value != "d" {
				return false
			}
		case "i", "I":
			named = true
		case "q":
			quiet, loud = value == "2", loud || value != "2"
		}
	}
	// Of an image that comes in pieces a later one has no name, and may ask for an answer
	// that the first has declined.
	return !named && !loud || quiet && !loud || f.ask()
}

const (
	letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	base64  = letters + "0123456789+/="
)
