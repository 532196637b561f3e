// Command counts tells how many tests ran, by what their runs say, and fails when there
// are fewer than there were.
//
//	counts with COMMAND ARG...   runs it, with AISB_COUNTS a directory for what tests
//	                             ran in it, and prints the table
//	counts record NAME [-v]      reads "go test -json" on stdin, shows what that
//	                             without -json (or with -v) would, and keeps the record
//
// Shell scripts add a line "NAME\tWHY" to $AISB_COUNTS/left for what they leave out.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	_ "embed"

	"github.com/aisb-dev/aisb/tests/need"
)

// variable names the directory of the records.
const variable = "AISB_COUNTS"

//go:embed floors
var floorsText string

func main() {
	status, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "counts:", err)
		status = max(status, 1)
	}
	os.Exit(status)
}

func run(args []string, out io.Writer) (int, error) {
	switch {
	case len(args) > 1 && args[0] == "with":
		return runWith(args[1:], out)
	case len(args) > 1 && args[0] == "record":
		flags := flag.NewFlagSet("counts record", flag.ContinueOnError)
		verbose := flags.Bool("v", false, "show all that the tests write")
		if err := flags.Parse(args[2:]); err != nil {
			return 2, nil
		}
		return 0, keep(args[1], out, *verbose)
	}
	return 2, errors.New("usage: counts with COMMAND..., counts record NAME [-v]")
}

// keep reads a run of tests. How it ended is its own to say, by its status; no end at
// all is an error.
func keep(name string, out io.Writer, verbose bool) error {
	t := newTally()
	if err := read(os.Stdin, newRelay(out, verbose), t); err != nil {
		return err
	}
	if len(t.packages) == 0 {
		return fmt.Errorf("%s: no tests have said how they ended", name)
	}
	r := t.record()
	dir := os.Getenv(variable)
	if dir == "" {
		fmt.Fprintf(out, "%s: %d cases passed, %d skipped, %d failed\n", name, len(r.Passed), len(r.Skipped), len(r.Failed))
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".json"), text, 0o600)
}

// runWith runs a command that runs tests, and prints the table last.
func runWith(argv []string, out io.Writer) (int, error) {
	floors, err := parseFloors(floorsText)
	if err != nil {
		return 2, err
	}
	dir, err := os.MkdirTemp("", "aisb-counts-")
	if err != nil {
		return 2, err
	}
	defer os.RemoveAll(dir)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT) // of a terminal: the command gets it too, and its end is waited for
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, out, os.Stderr
	cmd.Env = append(os.Environ(), variable+"="+dir)
	err = cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		return 2, err
	}
	res, readErr := load(dir)
	if readErr != nil {
		return 1, readErr
	}
	rows := res.rows()
	bad := judge(rows, floors, os.Getenv(need.Variable) != "")
	res.print(out, rows, floors)
	if err != nil {
		return 1, fmt.Errorf("tests failed: %w", err)
	}
	if len(bad) > 0 {
		return 1, errors.New(strings.Join(bad, "\ncounts: "))
	}
	return 0, nil
}

// load reads what the tests have left.
func load(dir string) (results, error) {
	res := results{records: map[string]record{}, left: map[string][]string{}}
	for _, name := range []string{"unit", "e2e-pasta", "e2e-inner"} {
		text, err := os.ReadFile(filepath.Join(dir, name+".json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		var r record
		if err == nil {
			err = json.Unmarshal(text, &r)
		}
		if err != nil {
			return res, err
		}
		res.records[name] = r
	}
	text, err := os.ReadFile(filepath.Join(dir, "left"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return res, err
	}
	for line := range strings.Lines(string(text)) {
		name, why, _ := strings.Cut(strings.TrimSpace(line), "\t")
		res.left[name] = append(res.left[name], why)
	}
	return res, nil
}
