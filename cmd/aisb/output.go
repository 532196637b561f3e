package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox/keeper"
)

func newOutputCmd(u *ui) *cobra.Command {
	return &cobra.Command{
		Use:   "output [NAME]",
		Short: "print what the command in a detached sandbox has written",
		Long: `output prints what the command in the detached sandbox NAME has written, or in
the newest one, while it runs and afterwards: the last 2 MiB at least. On a
terminal control characters are shown, not obeyed. For what comes: aisb attach.`,
		Example: `  aisb output web | tail`,
		Args:    takes(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findDetached(u, strings.Join(args, ""))
			if err != nil {
				return err
			}
			err = printOutput(u, filepath.Join(dir, outputName))
			if errors.Is(err, fs.ErrNotExist) {
				return &exitError{code: 1, err: fmt.Errorf("%s has left no output", filepath.Base(dir)),
					hint: "its command has not begun, or the file was removed: " + filepath.Join(dir, outputName)}
			}
			return err
		},
	}
}

func printOutput(u *ui, path string) error {
	if out, ok := u.Out.(*os.File); !ok || !isTerminal(out) {
		return keeper.CopyOutput(u.Out, path)
	}
	l := &lines{w: u.Out}
	return errors.Join(keeper.CopyOutput(l, path), l.end())
}

// lines shows what is written to it without what would drive a terminal.
type lines struct {
	w    io.Writer
	part []byte // of the last line
}

// longestLine is cut when it is longer.
const longestLine = 64 << 10

// Write passes whole lines on.
func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for {
		line, rest, ok := bytes.Cut(p, []byte("\n"))
		l.part = append(l.part, line...)
		if !ok && len(l.part) < longestLine {
			return n, nil
		}
		if err := l.put(); err != nil {
			return 0, err
		}
		p = rest
	}
}

// end passes the rest on.
func (l *lines) end() error {
	if len(l.part) == 0 {
		return nil
	}
	return l.put()
}

func (l *lines) put() error {
	_, err := fmt.Fprintln(l.w, printable(strings.TrimRight(string(l.part), "\r")))
	l.part = l.part[:0]
	return err
}
