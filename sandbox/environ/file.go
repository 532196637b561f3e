package environ

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"
)

// ParseFile reads an env file. The lines of podman and docker mean the same
// here; a double quote at the start of a value opens a quoted value, which they
// would have kept as text:
//
//	# a comment, after any white space; empty lines mean nothing
//	NAME=value        the value is the rest of the line, spaces, quotes and # included
//	NAME              the host's value; an unset one is an error
//	NAME=             the empty value
//	NAME="text"       quoted: may go over lines; \n \t \r \" \\ \$ are escapes
//	NAME='text'       quoted: may go over lines, nothing in it is special
//	export NAME=...   as shells have it
//
// After a closing quote only white space may follow. White space before NAME is
// ignored, in the name or around = it is an error. A line may end in \r\n.
// Nothing is expanded: $HOME stays $HOME.
//
// Errors name the file and the line and never quote a value.
func ParseFile(name string, data []byte, lookup Lookup) ([]Var, error) {
	p := fileParser{name: name, rest: string(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))), lookup: lookup}
	if !utf8.Valid(data) && bytes.HasPrefix(data, []byte("\xff\xfe")) {
		return nil, p.fail("the file is UTF-16", "save it as UTF-8")
	}
	var vars []Var
	for p.rest != "" {
		p.line++
		v, ok, err := p.next()
		if err != nil {
			return nil, err
		}
		if ok {
			vars = append(vars, v)
		}
	}
	return vars, nil
}

type fileParser struct {
	name   string
	rest   string
	line   int // of what is being read, from 1
	lookup Lookup
}

func (p *fileParser) fail(reason, hint string) error {
	return &Error{Where: fmt.Sprintf("%s:%d", p.name, max(p.line, 1)), Reason: reason, Hint: hint}
}

// take cuts the next line off.
func (p *fileParser) take() string {
	line, rest, _ := strings.Cut(p.rest, "\n")
	p.rest = rest
	return strings.TrimSuffix(line, "\r")
}

// next reads one line, or more when a quoted value goes over several.
func (p *fileParser) next() (Var, bool, error) {
	start := p.rest
	line := p.take()
	text := strings.TrimLeft(line, " \t")
	if text == "" || text[0] == '#' {
		return Var{}, false, nil
	}
	if after, ok := strings.CutPrefix(text, "export "); ok {
		text = strings.TrimLeft(after, " \t")
	}
	name, value, assigned := strings.Cut(text, "=")
	if !assigned {
		name = strings.TrimRight(name, " \t")
	}
	first := p.line
	if assigned && (strings.HasPrefix(value, `"`) || strings.HasPrefix(value, "'")) {
		// The quoted text begins in start, where the line ends are still there.
		p.rest = start[strings.Index(start, "=")+1:]
		var err error
		if value, err = p.quoted(); err != nil {
			return Var{}, false, err
		}
	}
	v, err := define(fmt.Sprintf("%s:%d", p.name, first), name, value, assigned, p.lookup)
	return v, err == nil, err
}

// escapes are what a backslash means in double quotes.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '"': '"', '\\': '\\', '$': '$'}

// quoted reads a quoted value off the rest, up to the end of its last line.
func (p *fileParser) quoted() (string, error) {
	quote := p.rest[0]
	opened := p.line
	var b strings.Builder
	for i := 1; i < len(p.rest); i++ {
		c := p.rest[i]
		switch {
		case c == quote:
			p.rest = p.rest[i+1:]
			if strings.Trim(p.take(), " \t") != "" {
				return "", p.fail("text after the closing quote", `write \" for a quote in the value; for a value with quotes as text, quote it with the other kind`)
			}
			return b.String(), nil
		case c == '\n':
			p.line++
		case c == '\\' && quote == '"':
			i++
			if i == len(p.rest) {
				continue
			}
			e, ok := escapes[p.rest[i]]
			if !ok {
				return "", p.fail("unknown escape in a quoted value", `write \\ for a backslash; \n \t \r \" \\ \$ are known; or use single quotes`)
			}
			c = e
		}
		b.WriteByte(c)
	}
	p.line = opened
	return "", p.fail("the quote is never closed", "close it; for a value that begins with a quote as text, quote it with the other kind")
}
