package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"
)

// confirm asks before something is lost.
func confirm(u *ui, yes bool, question string) error {
	if yes {
		return nil
	}
	yes, err := u.ask(os.Stdin, question, "say it with --yes")
	if err == nil && !yes {
		err = &exitError{code: 1, err: errors.New("nothing was removed")}
	}
	return err
}

// ask puts a question that means no unless the answer is yes. Without a terminal
// nobody can answer: hint says how to do without.
func (u *ui) ask(in *os.File, question, hint string) (yes bool, err error) {
	if !isTerminal(in) {
		return false, &exitError{code: exitUsage, err: fmt.Errorf("%s? nobody can be asked: stdin is no terminal", question), hint: hint}
	}
	fmt.Fprintf(u.Err, "aisb: %s? [y/N] ", printable(question))
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil {
		fmt.Fprintln(u.Err) // the cursor still stands behind the question
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
