package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// shellQuote is an argument as a POSIX shell reads it back. Control characters, with
// which a terminal does things, are written as an escape of $'...', which bash and
// the POSIX shells of 2024 know.
func shellQuote(arg string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("%+,-./:=@_", r)
	}
	if arg != "" && strings.IndexFunc(arg, func(r rune) bool { return !plain(r) }) < 0 {
		return arg
	}
	if printable(arg) == arg {
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for i := range len(arg) {
		switch c := arg[i]; {
		case c == '\'' || c == '\\':
			b.WriteString(`\` + arg[i:i+1])
		case c < 0x20 || c >= 0x7f: // bytes of UTF-8 among them: some of its characters do things too
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String() + "'"
}

// shellCommand is a command line, so that one can tell where each argument ends.
func shellCommand(argv []string) string {
	words := make([]string, len(argv))
	for i, arg := range argv {
		words[i] = shellQuote(arg)
	}
	return strings.Join(words, " ")
}

// shellLines is a command line over lines, an option each, that a shell reads as
// one.
func shellLines(argv []string) string {
	var b strings.Builder
	last := ""
	for _, arg := range argv {
		// What follows a flag without a value of its own is that value.
		value := strings.HasPrefix(last, "-") && !strings.Contains(last, "=") && !strings.HasPrefix(arg, "-")
		switch {
		case b.Len() == 0:
		case value:
			b.WriteString(" ")
		default:
			b.WriteString(" \\\n  ")
		}
		b.WriteString(shellQuote(arg))
		last = arg
	}
	return b.String() + "\n"
}

// tables writes tables under headings.
type tables struct {
	out   io.Writer
	table *tabwriter.Writer
	err   error
}

func (s *tables) section(title string) {
	_ = s.end()
	if s.table != nil {
		s.write("\n")
	}
	s.write(title + "\n")
	s.table = tabwriter.NewWriter(s.out, 0, 8, 2, ' ', 0)
}

// row writes one, with what came from outside escaped.
func (s *tables) row(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	if _, err := fmt.Fprintln(s.table, "  "+strings.Join(cells, "\t")); err != nil && s.err == nil {
		s.err = err
	}
}

// text writes lines that are safe already.
func (s *tables) text(text string) {
	_ = s.end()
	s.write(text)
}

func (s *tables) write(text string) {
	if _, err := io.WriteString(s.out, text); err != nil && s.err == nil {
		s.err = err
	}
}

// end writes what is held back, and returns the first error.
func (s *tables) end() error {
	if s.table != nil {
		if err := s.table.Flush(); err != nil && s.err == nil {
			s.err = err
		}
	}
	return s.err
}
