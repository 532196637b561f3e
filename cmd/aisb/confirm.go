package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// confirm asks before something is lost. Without a terminal nobody can answer, so
// that yes must have been said by a flag.
func confirm(u *ui, yes bool, question string) error {
	if yes {
		return nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return &exitError{code: exitUsage, err: errors.New(question + "? nobody can be asked: stdin is no terminal"), hint: "say it with --yes"}
	}
	fmt.Fprintf(u.Err, "aisb: %s? [y/N] ", printable(question))
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		fmt.Fprintln(u.Err) // the cursor still stands behind the question
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return &exitError{code: 1, err: errors.New("nothing was removed")}
}
