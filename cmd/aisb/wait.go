package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/newer"
)

// Files of a detached run, beside its log.
const (
	reportName = "report"   // what aisb has said since the command began
	outputName = "output"   // of the command
	endName    = "end.json" // how it ended
)

// endFormat is the format of endName. Raise it when one who knows the format before would
// take another end for the command's.
const endFormat = 1

// ended is what endName holds.
type ended struct {
	Format int       `json:"format"`
	Status int       `json:"status"`
	Ended  time.Time `json:"ended"`
}

// openReport makes the file of the report. Who holds the lock on it is the run's
// supervisor.
func openReport(dir string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(dir, reportName), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the report: %w", err)
	}
	return f, nil
}

// Bounds of what of a report is shown.
const (
	maxWords     = 50 // lines
	maxWordBytes = 16 << 10
)

// reportWords are the last lines of a run's report.
func reportWords(dir string) []string {
	f, err := os.Open(filepath.Join(dir, reportName))
	if err != nil {
		return nil
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	from := max(0, info.Size()-maxWordBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, from, maxWordBytes))
	text := strings.TrimRight(string(data), "\n")
	if from > 0 {
		_, text, _ = strings.Cut(text, "\n") // a line that begins before
	}
	if err != nil || text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-maxWords):]
}

func newWaitCmd(u *ui) *cobra.Command {
	return &cobra.Command{
		Use:   "wait NAME",
		Short: "wait for the end of a detached sandbox",
		Long: `wait returns when the command in the detached sandbox NAME has ended, at once
when it has already, with its status, and prints what aisb has to say of the
run: what it reached, what it was refused, what the host might execute.

125: there is no such sandbox; 137: it was killed, and nobody could say more.`,
		Example: `  aisb run --detach --name web --allow example.com -- ./work
  aisb wait web && aisb output web`,
		Args: takes(1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return waitFor(u, args[0])
		},
	}
}

func waitFor(u *ui, name string) error {
	runtime, list, err := runs()
	if err != nil {
		return err
	}
	if found := control.Match(living(list), name); len(found) > 0 {
		run, err := pick(list, name)
		if err != nil {
			return err
		}
		x, err := attachTo(runtime, run.Name, control.Attach{Wait: true})
		if err == nil {
			end, err := x.Wait()
			return endError(u, run.Name, end, err)
		}
		_, refused := errors.AsType[*control.Error](err)
		if _, stopped := errors.AsType[*control.StoppedError](err); refused || stopped {
			return controlError(err)
		}
		name = run.Name // it has just ended, or does
	}
	dir, err := findDetached(u, name)
	if err != nil {
		return err
	}
	end, err := readEnd(dir)
	if _, later := errors.AsType[*newer.Error](err); later {
		return newerError(err, "")
	}
	if errors.Is(err, errHeld) {
		return &exitError{code: exitPodman, err: fmt.Errorf("%s: %w", filepath.Base(dir), err), hint: heldHint}
	}
	return endError(u, filepath.Base(dir), end, err)
}

// findDetached finds what a detached run has left.
func findDetached(u *ui, name string) (string, error) {
	state, err := sandbox.StateDir(os.Getenv)
	if err != nil {
		return "", err
	}
	dir, err := findRunWith(u, filepath.Join(state, "runs"), name, reportName)
	if e, ok := errors.AsType[*exitError](err); ok {
		e.code, e.err = exitPodman, fmt.Errorf("no detached sandbox has a name that begins with %q", name)
		if name == "" {
			e.err = errors.New("no sandbox was detached yet")
		}
		e.hint = "start one: aisb run --detach"
	}
	return dir, err
}

// supervisorGrace is how long a supervisor may take to write the last word down.
const supervisorGrace = 5 * time.Second

// errHeld is said of a supervisor that neither answers nor ends.
var errHeld = errors.New("its supervisor doesn't answer")

// heldHint is what to do about such a one, whose pid isn't known here.
const heldHint = `'aisb ps' tells its pid: kill -CONT lets it go on if it is stopped
kill -9 ends it, and container and gate with it`

// damagedError is of a file that doesn't tell how a run has ended.
type damagedError struct{ path string }

func (e *damagedError) Error() string {
	return fmt.Sprintf("%q is damaged: how the run has ended can't be told", e.path)
}

// readEnd reads how a run has ended, when its supervisor is done.
func readEnd(dir string) (control.AttachEnd, error) {
	f, err := os.Open(filepath.Join(dir, reportName))
	if err != nil {
		return control.AttachEnd{}, err
	}
	defer f.Close()
	for until := time.Now().Add(supervisorGrace); unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) != nil; {
		if time.Now().After(until) {
			return control.AttachEnd{}, errHeld
		}
		time.Sleep(5 * time.Millisecond)
	}
	path := filepath.Join(dir, endName)
	text, err := os.ReadFile(path)
	if err != nil {
		return control.AttachEnd{}, control.ErrSandboxEnded
	}
	var head struct{ Format int }
	var e ended
	if err := json.Unmarshal(text, &head); err != nil {
		return control.AttachEnd{}, &damagedError{path}
	}
	if err := newer.Check(path, head.Format, endFormat); err != nil {
		return control.AttachEnd{}, err
	}
	if err := json.Unmarshal(text, &e); err != nil {
		return control.AttachEnd{}, &damagedError{path}
	}
	return control.AttachEnd{Status: e.Status, Words: reportWords(dir)}, nil
}

// endError is how a client of a detached sandbox ends. What aisb has said of the
// run is told here.
func endError(u *ui, name string, end control.AttachEnd, err error) error {
	switch {
	case errors.Is(err, control.ErrGoesOn):
		u.notef("%s goes on: %s", name, end.GoesOn)
		return nil
	case err != nil:
		e := &exitError{code: 128 + 9, err: fmt.Errorf("%s: %w", name, err), hint: "its supervisor was killed, or the machine went down"}
		if _, damaged := errors.AsType[*damagedError](err); damaged {
			e.hint = "what its command has written: aisb output " + name + "\nwhat aisb has said of it: the file report beside it"
		}
		return e
	}
	for _, line := range end.Words {
		fmt.Fprintln(u.Err, printable(line))
	}
	if end.Status != 0 {
		return &exitError{code: end.Status}
	}
	return nil
}
