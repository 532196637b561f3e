package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/aisb-dev/aisb/sandbox"
)

// Rules of what aisb says. Nothing else in the program prints or exits.
//
//   - stdout belongs to the command's own output and to data (JSON, tables).
//   - Everything aisb says itself goes to stderr, one line each, with a prefix:
//     "aisb: error: ..." why it stopped, "aisb: hint: ..." what to do about it,
//     "aisb: warning: ..." what is weaker than usual, "aisb: ..." progress.
//   - Lower case, no period at the end, the user's input quoted.
//   - Text that came from outside (hosts, file names, a child's messages) is
//     escaped, so that it can't drive the user's terminal.

// Exit statuses of the command line itself.
const (
	exitUsage  = 2   // flags, rules, env files, empty allowlist
	exitConfig = 78  // a configuration or policy file is invalid
	exitPodman = 125 // podman, pasta, subuid ranges, run as root
)

// ui is where a command speaks. Out is data, Err is for people.
type ui struct {
	Out io.Writer
	Err io.Writer

	super *supervisor // in the process of a detached run

	raw atomic.Bool // the terminal is in raw mode: a line needs its own return

	gateGone sync.Once // it was said
}

// exitError ends the program with a status, a reason and what to do.
// With a nil err nothing is printed: the status is a child's own.
type exitError struct {
	code int
	err  error
	hint string // may hold several lines, one hint each
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit status %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usageError is the error of a call that can't be meant, with the command
// whose help explains it.
func usageError(cmd string, err error) error {
	return &exitError{code: exitUsage, err: err, hint: "see '" + cmd + " --help'"}
}

// fail prints err and its hints and returns the status to exit with.
func (u *ui) fail(err error) int {
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: 1, err: err}
		if f, ok := errors.AsType[*sandbox.Failure](err); ok {
			e.code, e.hint = f.Status, f.Hint
		}
	}
	if e.err != nil {
		for _, one := range unjoined(e.err) { // several wrong rules: a line for each
			u.line("error: ", one.Error())
		}
		hint := e.hint
		if hint == "" && errors.Is(e.err, syscall.EMFILE) { // anything may run into that
			hint = sandbox.StartHint(e.err)
		}
		for h := range strings.SplitSeq(hint, "\n") {
			if h != "" {
				u.line("hint: ", h)
			}
		}
	}
	return e.code
}

// unjoined are the errors in one that joins several (errors.Join), or that one.
func unjoined(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// warnf says what is weaker than usual, or what the user may not expect.
func (u *ui) warnf(format string, args ...any) { u.line("warning: ", fmt.Sprintf(format, args...)) }

// hintf says what to do about the line before it.
func (u *ui) hintf(format string, args ...any) { u.line("hint: ", fmt.Sprintf(format, args...)) }

// notef says what aisb is doing.
func (u *ui) notef(format string, args ...any) { u.line("", fmt.Sprintf(format, args...)) }

func (u *ui) line(kind, text string) {
	eol := "\n"
	if u.raw.Load() {
		eol = "\r\n"
	}
	fmt.Fprintf(u.Err, "aisb: %s%s%s", kind, printable(text), eol)
}
