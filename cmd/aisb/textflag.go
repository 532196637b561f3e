package main

import "github.com/spf13/pflag"

// textFlag is the value of a flag that guards something: a secret that clients have to
// show, a limit. An empty one, as a rule a variable that isn't set, would take the guard
// away in silence.
type textFlag string

// textVar adds a flag of that kind.
func textVar(f *pflag.FlagSet, text *string, name, value, usage string) {
	*text = value
	f.Var((*textFlag)(text), name, usage)
}

// Set implements pflag.Value.
func (t *textFlag) Set(text string) error {
	if text == "" {
		return errNothing
	}
	*t = textFlag(text)
	return nil
}

// String implements pflag.Value.
func (t *textFlag) String() string { return string(*t) }

// Type implements pflag.Value. Defaults of this one are shown in quotes.
func (t *textFlag) Type() string { return "string" }
