package main

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// listFlag is the value of --allow, --deny and --preset: texts with commas or line ends
// between them. pflag's own list reads a line of CSV and drops the lines after the
// first in silence, and of a list of denials nothing may be lost.
type listFlag struct {
	texts   *[]string
	changed bool
}

var errNothing = errors.New("there is nothing in it")

// listVar adds a flag of that kind.
func listVar(f *pflag.FlagSet, texts *[]string, name, usage string) {
	f.Var(&listFlag{texts: texts}, name, usage)
}

// Set implements pflag.Value. What was there before the first call is a default,
// and is replaced.
func (l *listFlag) Set(text string) error {
	var more []string
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if one = strings.TrimSpace(one); one != "" {
			more = append(more, one)
		}
	}
	if len(more) == 0 {
		return errNothing // an empty variable, as a rule: whoever wrote it believes in what it should hold
	}
	if !l.changed {
		*l.texts, l.changed = nil, true
	}
	*l.texts = append(*l.texts, more...)
	return nil
}

// String implements pflag.Value.
func (l *listFlag) String() string {
	if l.texts == nil { // of the zero value, which pflag asks for its text
		return ""
	}
	return strings.Join(*l.texts, ",")
}

// Type implements pflag.Value.
func (l *listFlag) Type() string { return "list" }

// Append implements pflag.SliceValue.
func (l *listFlag) Append(text string) error { //nolint:unparam // of the interface
	*l.texts = append(*l.texts, text)
	return nil
}

// Replace implements pflag.SliceValue.
func (l *listFlag) Replace(texts []string) error { //nolint:unparam // of the interface
	*l.texts = texts
	return nil
}

// GetSlice implements pflag.SliceValue.
func (l *listFlag) GetSlice() []string { return *l.texts }
