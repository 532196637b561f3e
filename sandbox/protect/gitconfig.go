package protect

import (
	"fmt"
	"strings"
)

// Setting is a line of git's configuration. Section and Name are in lower case.
type Setting struct {
	Section, Sub, Name string
	Value              string
}

// Key is the setting's name as git config prints it.
func (s Setting) Key() string {
	if s.Sub == "" {
		return s.Section + "." + s.Name
	}
	return s.Section + "." + s.Sub + "." + s.Name
}

// ParseGitConfig reads git's configuration (git-config(1), "Syntax"). What
// comes before a line that can't be read is returned with the error: git itself
// refuses such a file.
func ParseGitConfig(text string) ([]Setting, error) {
	p := configParser{rest: strings.TrimPrefix(text, "\ufeff"), line: 1}
	for {
		p.skipBlank()
		if p.rest == "" {
			return p.list, nil
		}
		var err error
		switch c := p.rest[0]; {
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			err = p.section()
		default:
			err = p.setting()
		}
		if err != nil {
			return p.list, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
}

type configParser struct {
	rest string
	line int
	in   Setting // section and subsection of now
	list []Setting
}

func (p *configParser) skipBlank() {
	for p.rest != "" && strings.ContainsRune(" \t\r\n\v\f", rune(p.rest[0])) {
		p.next()
	}
}

func (p *configParser) skipLine() {
	_, p.rest, _ = strings.Cut(p.rest, "\n")
	p.line++
}

// next takes a byte; 0 is the end.
func (p *configParser) next() byte {
	if p.rest == "" {
		return 0
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	if c == '\n' {
		p.line++
	}
	return c
}

// section reads [name], [name "sub"] and the old form [name.sub].
func (p *configParser) section() error {
	p.next()
	var name strings.Builder
	p.in = Setting{}
	for {
		switch c := p.next(); {
		case c == ']':
			p.in.Section, p.in.Sub, _ = strings.Cut(strings.ToLower(name.String()), ".")
			return nil
		case c == ' ' || c == '\t' || c == '\r':
			return p.subsection(strings.ToLower(name.String()))
		case isKey(c) || c == '.':
			name.WriteByte(c)
		default:
			return fmt.Errorf("the name of a section holds %q", c)
		}
	}
}

// subsection reads what follows the name of a section, which is the first part of a
// key; [a.b "c"] is section a with b.c in it.
func (p *configParser) subsection(name string) error {
	p.rest = strings.TrimLeft(p.rest, " \t\r")
	if p.next() != '"' {
		return fmt.Errorf("a subsection without its quotes")
	}
	var sub strings.Builder
	if section, more, ok := strings.Cut(name, "."); ok {
		name = section
		sub.WriteString(more + ".")
	}
	p.in.Section = name
	for {
		end := p.rest == "" // a zero byte is one as any other
		c := p.next()
		switch c {
		case '"':
			if p.next() != ']' {
				return fmt.Errorf("a section without its bracket")
			}
			p.in.Sub = sub.String()
			return nil
		case '\\':
			end = p.rest == ""
			c = p.next()
		}
		if c == '\n' || end {
			return fmt.Errorf("a section that doesn't end")
		}
		sub.WriteByte(c)
	}
}

func isKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

// setting reads NAME = VALUE, or NAME alone, which means true.
func (p *configParser) setting() error {
	n := 0
	for n < len(p.rest) && isKey(p.rest[n]) {
		n++
	}
	if n == 0 {
		return fmt.Errorf("%q is no setting", p.rest[:min(len(p.rest), 1)])
	}
	s := p.in
	s.Name = strings.ToLower(p.rest[:n])
	p.rest = strings.TrimLeft(p.rest[n:], " \t")
	end := p.rest == ""
	switch c := p.next(); {
	case c == '=':
		p.rest = strings.TrimLeft(p.rest, " \t")
		value, err := p.value()
		if err != nil {
			return err
		}
		s.Value, _, _ = strings.Cut(value, "\x00") // git takes it for a string of C
	case c == '\n', c == '\r', end:
		s.Value = "true"
	default:
		return fmt.Errorf("%q after the name of a setting", c)
	}
	if s.Section != "" { // git takes one before any section, and nothing asks for it
		p.list = append(p.list, s)
	}
	return nil
}

// value reads to the end of a line: quotes, escapes, comments, and lines that go
// on after a backslash. Blanks at the end don't count.
func (p *configParser) value() (string, error) {
	var b strings.Builder
	quoted, kept := false, 0
	for {
		end := p.rest == ""
		c := p.next()
		switch {
		case (end || c == '\n') && quoted:
			return "", fmt.Errorf("a quote that doesn't end")
		case end || c == '\n':
			return b.String()[:kept], nil
		case c == '"':
			quoted = !quoted
			kept = b.Len()
			continue
		case !quoted && (c == '#' || c == ';'):
			p.skipLine()
			return b.String()[:kept], nil
		case c == '\\':
			skip, err := p.escape(&b)
			if err != nil {
				return "", err
			}
			if skip {
				continue
			}
			kept = b.Len()
			continue
		}
		b.WriteByte(c)
		if quoted || c != ' ' && c != '\t' && c != '\r' {
			kept = b.Len()
		}
	}
}

// escape reads what follows a backslash; skip says that it was the end of a line.
func (p *configParser) escape(b *strings.Builder) (skip bool, err error) {
	c := p.next()
	if c == '\r' && strings.HasPrefix(p.rest, "\n") {
		c = p.next()
	}
	switch c {
	case '\n':
		return true, nil
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case '"', '\\':
	default:
		return false, fmt.Errorf("unknown escape %q", c)
	}
	b.WriteByte(c)
	return false, nil
}
