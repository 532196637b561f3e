package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// valueError is what is wrong with a value, as the end of a sentence that begins with
// the value, and how one is written. The errors of Go's own parsers name their
// functions, and say nothing to a user.
type valueError struct{ is, like string }

func (e *valueError) Error() string { return "it " + e.is }

// badValue is the error of a flag that can't have a value, wherever that stands.
func badValue(flag *pflag.Flag, value string, cause error) *exitError {
	wrong, ok := errors.AsType[*valueError](cause)
	if _, strange := errors.AsType[*strconv.NumError](cause); strange { // of pflag's own kinds
		ok = true
		switch {
		case flag.Value.Type() == "bool":
			wrong = &valueError{is: "is not true or false", like: "--" + flag.Name + " alone is true"}
		case errors.Is(cause, strconv.ErrRange):
			wrong = &valueError{is: "is too large a number", like: valueUse("--"+flag.Name, flag)}
		default:
			wrong = &valueError{is: "is not 0 or a whole number above", like: valueUse("--"+flag.Name, flag)}
		}
	}
	if !ok {
		return &exitError{code: exitUsage, err: fmt.Errorf("--%s %q: %w", flag.Name, value, cause)}
	}
	return &exitError{code: exitUsage, err: fmt.Errorf("--%s %q %s", flag.Name, value, wrong.is), hint: wrong.like + "\n"}
}

// valueUse is what a flag does with its value, under the name that it was called by:
// --time SECONDS: kill the command after ...
func valueUse(called string, flag *pflag.Flag) string {
	name, usage := pflag.UnquoteUsage(flag)
	usage = strings.TrimPrefix(strings.ReplaceAll(usage, "\n", " "), name+": ")
	return fmt.Sprintf("%s %s: %s", called, name, usage)
}
