package main

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// ruleList is the value of --allow and --deny: rules with commas or line ends
// between them. pflag's own list reads a line of CSV and drops the lines after the
// first in silence, and of a list of denials nothing may be lost.
type ruleList struct {
	rules   *[]string
	changed bool
}

var errNoRule = errors.New("there is no rule in it")

// ruleListVar adds a flag of that kind.
func ruleListVar(f *pflag.FlagSet, rules *[]string, name, usage string) {
	f.Var(&ruleList{rules: rules}, name, usage)
}

// Set implements pflag.Value. What was there before the first call is a default,
// and is replaced.
func (l *ruleList) Set(text string) error {
	var more []string
	for one := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == '\n' || r == '\r' }) {
		if one = strings.TrimSpace(one); one != "" {
			more = append(more, one)
		}
	}
	if len(more) == 0 {
		return errNoRule // an empty variable, as a rule: whoever wrote it believes in what it should hold
	}
	if !l.changed {
		*l.rules, l.changed = nil, true
	}
	*l.rules = append(*l.rules, more...)
	return nil
}

// String implements pflag.Value.
func (l *ruleList) String() string {
	if l.rules == nil { // of the zero value, which pflag asks for its text
		return ""
	}
	return strings.Join(*l.rules, ",")
}

// Type implements pflag.Value.
func (l *ruleList) Type() string { return "rules" }

// Append implements pflag.SliceValue.
func (l *ruleList) Append(rule string) error { //nolint:unparam // of the interface
	*l.rules = append(*l.rules, rule)
	return nil
}

// Replace implements pflag.SliceValue.
func (l *ruleList) Replace(rules []string) error { //nolint:unparam // of the interface
	*l.rules = rules
	return nil
}

// GetSlice implements pflag.SliceValue.
func (l *ruleList) GetSlice() []string { return *l.rules }
