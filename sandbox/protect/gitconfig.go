package protect

import (
	"cmp"
	"errors"
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

// ParseGitConfig reads git's configuration as git does (git-config(1), "Syntax", and
// git_parse_source in config.c). A line that can't be read is an error, for which git
// refuses the file; what else there is comes with it, since other programs that
// read it may not.
func ParseGitConfig(text string) ([]Setting, error) {
	p := configParser{rest: strings.TrimPrefix(text, "\ufeff"), line: 1}
	var first error
	for {
		line := p.line
		c := p.next()
		var err error
		switch {
		case p.ended:
			return p.list, first
		case isSpace(c):
		case c == '#' || c == ';':
			p.skipLine()
		case c == '[':
			err = p.section()
		default:
			err = p.setting(c)
		}
		if err != nil {
			p.skipLine()
			first = cmp.Or(first, fmt.Errorf("line %d: %w", line, err))
		}
	}
}

type configParser struct {
	rest  string
	line  int
	last  byte // what next has returned
	ended bool
	in    Setting // section and subsection of now
	list  []Setting
}

// next takes a byte. CR LF is the end of a line, and so is that of the text.
func (p *configParser) next() byte {
	if p.rest == "" {
		p.ended, p.last = true, '\n'
		return p.last
	}
	if strings.HasPrefix(p.rest, "\r\n") {
		p.rest = p.rest[1:]
	}
	p.last, p.rest = p.rest[0], p.rest[1:]
	if p.last == '\n' {
		p.line++
	}
	return p.last
}

// skipLine takes what is left of a line.
func (p *configParser) skipLine() {
	for p.last != '\n' {
		p.next()
	}
}

// section reads [name], [name "sub"] and the old form [name.sub].
func (p *configParser) section() error {
	p.in = Setting{}
	var name strings.Builder
	for {
		switch c := p.next(); {
		case c == ']':
			p.enter(name.String())
			return nil
		case isSpace(c):
			return p.subsection(name.String())
		case isKey(c) || c == '.':
			name.WriteByte(c)
		default:
			return fmt.Errorf("the name of a section holds %q", c)
		}
	}
}

func (p *configParser) subsection(name string) error {
	for isSpace(p.last) && p.last != '\n' {
		p.next()
	}
	if p.last != '"' {
		return errors.New("a subsection without its quotes")
	}
	var sub strings.Builder
	for {
		c := p.next()
		switch c {
		case '"':
			if p.next() != ']' {
				return errors.New("a section without its bracket")
			}
			p.enter(name, sub.String())
			return nil
		case '\\':
			c = p.next()
		}
		if c == '\n' {
			return errors.New("a section that doesn't end")
		}
		sub.WriteByte(c)
	}
}

// enter begins a section. Of its name only what comes before the first dot is that
// of the section, whichever form has the rest (parse_config_key in config.c).
func (p *configParser) enter(name string, sub ...string) {
	section, rest, dotted := strings.Cut(strings.ToLower(name), ".")
	if dotted {
		sub = append([]string{rest}, sub...)
	}
	p.in = Setting{Section: section, Sub: strings.Join(sub, ".")}
}

func isKey(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-'
}

// isSpace tells what git takes for blank: neither VT nor FF (sane_ctype in its ctype.c).
func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// setting reads NAME = VALUE, or NAME alone, which means true.
func (p *configParser) setting(c byte) error {
	if !isKey(c) {
		return fmt.Errorf("%q is no setting", c)
	}
	var name strings.Builder
	for ; isKey(c); c = p.next() {
		name.WriteByte(c)
	}
	for c == ' ' || c == '\t' {
		c = p.next()
	}
	s := p.in
	s.Name, s.Value = strings.ToLower(name.String()), "true"
	if c == '=' {
		var err error
		if s.Value, err = p.value(); err != nil {
			return err
		}
	} else if c != '\n' {
		return fmt.Errorf("%q after the name of a setting", c)
	}
	if s.Section != "" { // git takes one before any section, and nothing asks for it
		p.list = append(p.list, s)
	}
	return nil
}

// value reads to the end of a line: quotes, escapes, comments, and lines that go
// on after a backslash. Blanks around it don't count, and nothing after a NUL does,
// which ends it for git, too.
func (p *configParser) value() (string, error) {
	var b strings.Builder
	quoted, kept := false, 0
	for {
		c := p.next()
		if !quoted && (c == '#' || c == ';') {
			p.skipLine()
			c = p.last
		}
		switch {
		case c == '\n' && quoted:
			return "", errors.New("a quote that doesn't end")
		case c == '\n':
			value, _, _ := strings.Cut(b.String()[:kept], "\x00")
			return value, nil
		case isSpace(c) && !quoted:
			if b.Len() > 0 {
				b.WriteByte(c)
			}
			continue
		case c == '"':
			quoted = !quoted
		case c == '\\':
			if err := p.escape(&b); err != nil {
				return "", err
			}
		default:
			b.WriteByte(c)
		}
		kept = b.Len()
	}
}

// escape reads what follows a backslash. The end of a line there is none.
func (p *configParser) escape(b *strings.Builder) error {
	c := p.next()
	switch c {
	case '\n':
		return nil
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'b':
		c = '\b'
	case '"', '\\':
	default:
		return fmt.Errorf("unknown escape %q", c)
	}
	b.WriteByte(c)
	return nil
}
