package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/history"
	"github.com/aisb-dev/aisb/sandbox"
)

// logsOptions are the flags of gate logs.
type logsOptions struct {
	follow bool
	json   bool
}

func newGateLogsCmd(u *ui) *cobra.Command {
	var o logsOptions
	cmd := &cobra.Command{
		Use:        "logs [RUN]",
		SuggestFor: []string{"runs", "history", "log"},
		Short:      "show what a run reached and what it was refused",
		Long: `logs shows the gate's log of a run: as a table on a terminal, as JSON otherwise.
RUN is a run's name or its beginning, with or without its "aisb-", of several
the newest; without RUN it is the newest of all. RUN can be a file too, such as
the kept log of 'aisb gate': ./FILE, where a run is called alike.`,
		Example: `  aisb gate logs -f
  aisb gate logs web | jq -r 'select(.event=="deny") | .host'`,
		Args: takes(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := openLog(u, strings.Join(args, ""))
			if err != nil {
				return err
			}
			defer f.Close()
			return o.show(u, f)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVarP(&o.follow, "follow", "f", false, "wait for more, until the gate ends")
	f.BoolVar(&o.json, "json", false, "print JSON on a terminal too")
	return cmd
}

// newLogsCmd is gate logs under a name that is nearer to ps and stop.
func newLogsCmd(u *ui) *cobra.Command {
	cmd := newGateLogsCmd(u)
	cmd.Example = strings.ReplaceAll(cmd.Example, "aisb gate logs", "aisb logs")
	return cmd
}

// openLog opens the log of a run, or a file. A run comes first: the file may be an
// agent's, who has given it the run's name to be believed in the log's place.
func openLog(u *ui, name string) (*os.File, error) {
	if name == "-" {
		return os.Stdin, nil
	}
	if strings.ContainsRune(name, '/') {
		return openLogFile(name)
	}
	state, err := sandbox.StateDir(os.Getenv)
	if err != nil {
		return nil, err
	}
	dir, err := findRun(u, filepath.Join(state, "runs"), name)
	if err != nil && name != "" && isFile(name) {
		return openLogFile(name)
	}
	if err != nil {
		return nil, err
	}
	return os.Open(filepath.Join(dir, "log.jsonl"))
}

func openLogFile(name string) (*os.File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &exitError{code: 1, err: err, hint: "name a run or a log that you can read"}
	}
	return f, nil
}

func isFile(name string) bool {
	info, err := os.Stat(name)
	return err == nil && !info.IsDir()
}

// findRun finds the newest run whose name begins so, with or without the "aisb-"
// that names begin with; with "", of all.
func findRun(u *ui, runs, prefix string) (string, error) {
	return findRunWith(u, runs, prefix, "log.jsonl") // a run without a log had no gate
}

// findRunWith finds among the runs that have left a file.
func findRunWith(u *ui, runs, prefix, file string) (string, error) {
	entries, err := os.ReadDir(runs)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var found []string
	newest, when := "", time.Time{}
	last, lastWhen := "", time.Time{} // of all runs, for the hint
	for _, e := range entries {
		info, err := os.Stat(filepath.Join(runs, e.Name(), file))
		if err != nil {
			continue
		}
		if last == "" || info.ModTime().After(lastWhen) {
			last, lastWhen = e.Name(), info.ModTime()
		}
		if !strings.HasPrefix(e.Name(), prefix) && !strings.HasPrefix(e.Name(), "aisb-"+prefix) {
			continue
		}
		if prefix != "" && (e.Name() == prefix || e.Name() == namePrefix+prefix) {
			return filepath.Join(runs, e.Name()), nil
		}
		found = append(found, e.Name())
		if newest == "" || info.ModTime().After(when) {
			newest, when = e.Name(), info.ModTime()
		}
	}
	switch {
	case len(found) == 0 && prefix == "":
		return "", &exitError{code: 1, err: fmt.Errorf("no run has left a log in %s", runs), hint: "'aisb gate' alone logs on stdout: keep it with > FILE"}
	case len(found) == 0:
		hint := "'aisb run' has left no log in " + runs
		if last != "" {
			hint = "the newest run is " + last + "; the others are in " + runs
		}
		return "", &exitError{code: 1, err: fmt.Errorf("no run and no file is called %q", prefix), hint: hint}
	case len(found) > 1 && prefix != "":
		// Runs in one directory have names that differ in their ends alone.
		u.notef("%s, the newest of %d runs whose names begin so", newest, len(found))
	}
	return filepath.Join(runs, newest), nil
}

// show prints a log and, if that is wanted, what comes.
func (o logsOptions) show(u *ui, f *os.File) error {
	out, isFile := u.Out.(*os.File)
	p := logPrinter{out: u.Out, table: !o.json && isFile && isTerminal(out)}
	wait := func() error { return io.EOF }
	if o.follow {
		var err error
		if wait, err = watchFile(f); err != nil {
			return err
		}
	}
	r := bufio.NewReaderSize(f, 64<<10)
	var line []byte
	for {
		part, err := r.ReadBytes('\n')
		line = append(line, part...)
		if err == nil || len(line) > 1<<20 {
			if err := p.print(line); err != nil {
				return err
			}
			line = line[:0]
			if p.ended && o.follow && r.Buffered() == 0 {
				return nil
			}
			continue
		}
		if !errors.Is(err, io.EOF) {
			return err
		}
		if err := wait(); err != nil {
			if len(line) > 0 {
				return p.print(line)
			}
			return nil
		}
	}
}

// watchFile returns a function that waits until a file has changed. The watch
// is there before the file is read, so nothing that is written in between is
// waited for in vain.
func watchFile(f *os.File) (wait func() error, err error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("watch the log: %w", err)
	}
	name := fmt.Sprintf("/proc/self/fd/%d", f.Fd()) // the very file that is open
	if _, err := unix.InotifyAddWatch(fd, name, unix.IN_MODIFY); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("watch the log: %w", err)
	}
	buf := make([]byte, 4096)
	return func() error {
		for {
			_, err := unix.Read(fd, buf)
			if !errors.Is(err, unix.EINTR) {
				return err
			}
		}
	}, nil
}

// logPrinter prints lines of a log.
type logPrinter struct {
	out   io.Writer
	table bool
	ended bool // the last line said that the gate ended
}

func (p *logPrinter) print(text []byte) error {
	text = bytes.TrimSpace(text)
	l, err := history.Parse(text)
	p.ended = err == nil && l.Event == "exit"
	if len(text) == 0 || err != nil && !p.table {
		return nil // half a line of a gate that was killed, or words between the lines
	}
	if !p.table || err != nil {
		// What the gate writes is ASCII; a file from elsewhere need not be.
		_, err := fmt.Fprintln(p.out, printable(string(text)))
		return err
	}
	_, err = fmt.Fprintln(p.out, printable(logRow(l)))
	return err
}

// logRow is a line for people: when, what, whither, why.
func logRow(l history.Line) string {
	where := l.Method
	if l.Host != "" {
		where = strings.TrimSpace(where + " " + hostPort(l.Host, l.Port))
	}
	var more []string
	for _, text := range []string{string(l.Reason), l.Rule} {
		if text != "" && !slices.Contains(more, text) {
			more = append(more, text)
		}
	}
	switch l.Event {
	case "close":
		more = append([]string{
			"up " + size(l.Up), "down " + size(l.Down), round(time.Duration(l.MS) * time.Millisecond).String(),
		}, string(l.Reason))
	case "listening":
		where = l.Addr
	case "foreign-client":
		more = append(more, "from "+l.Client)
	}
	row := fmt.Sprintf("%s  %-9s  %-44s  %s", l.Time.Local().Format("15:04:05"), l.Event, where, strings.Join(more, "  "))
	return strings.TrimRight(row, " ")
}
