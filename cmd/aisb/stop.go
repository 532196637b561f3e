package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox/control"
)

// stopLimit is how long a killed sandbox may take to be gone: podman cleans up
// after it, slowly on a busy machine.
const stopLimit = 40 * time.Second

func newStopCmd(u *ui) *cobra.Command {
	var all bool
	var seconds uint
	cmd := &cobra.Command{
		Use:        "stop [flags] NAME...",
		Short:      "end running sandboxes",
		SuggestFor: []string{"kill", "rm", "down"},
		Long: `stop ends sandboxes as SIGTERM to their 'aisb run' does: the command gets
SIGTERM and is killed when it hasn't ended after a second. It returns when
container and gate are gone, and prints the names. A NAME may be cut short where
it is clear what is meant, and its "aisb-" left out.`,
		Example: `  aisb stop my-project
  aisb stop --all -t 10`,
		Args: takes(0, anyNumber),
		RunE: func(_ *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				err := &exitError{code: exitUsage, err: errors.New("stop needs a NAME, or --all"), hint: "see 'aisb ps'"}
				if all {
					err.err = errors.New("stop takes a NAME or --all, not both")
				}
				return err
			}
			runtime, list, err := runs()
			if err != nil {
				return err
			}
			if all {
				names = nil
				for _, r := range living(list) {
					names = append(names, r.Name)
				}
			}
			return stopAll(u, runtime, list, names, graceOf(seconds))
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&all, "all", "a", false, "end all of them")
	f.UintVarP(&seconds, "time", "t", 1, "kill the command after `SECONDS`, 0 at once")
	return cmd
}

// graceOf is a number of seconds, of which a Duration has no room for all: more than a
// year is a year, and not a moment of the past.
func graceOf(seconds uint) time.Duration {
	const year = 365 * 24 * 60 * 60
	return time.Duration(min(seconds, year)) * time.Second
}

// stopAll ends sandboxes, all at once.
func stopAll(u *ui, runtime string, list []control.Info, names []string, grace time.Duration) error {
	errs := make([]error, len(names))
	hints := make([]string, len(names))
	ended := make([]string, len(names))
	var wait sync.WaitGroup
	for i, name := range names {
		run, err := pick(list, name)
		if err != nil {
			errs[i], hints[i] = err, hintOf(err)
			continue
		}
		wait.Go(func() {
			if errs[i] = stopOne(runtime, run.Name, grace); errs[i] == nil {
				ended[i] = run.Name
			}
			hints[i] = hintOf(errs[i])
		})
	}
	wait.Wait()
	hint := ""
	for i := range names {
		if ended[i] != "" {
			fmt.Fprintln(u.Out, printable(ended[i]))
		}
		if hints[i] != "" {
			hint = hints[i] // of several that say much the same one is enough
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &exitError{code: exitPodman, err: err, hint: hint}
	}
	return nil
}

func hintOf(err error) string {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.hint
	}
	return ""
}

func stopOne(runtime, name string, grace time.Duration) error {
	c, err := control.Dial(runtime, name)
	if errors.Is(err, control.ErrDead) {
		return nil // it has ended meanwhile
	}
	if err != nil {
		return fmt.Errorf("stop %q: %w", name, err)
	}
	defer c.Close()
	err = c.Stop(grace, stopLimit)
	if err == nil {
		return nil
	}
	if again, gone := control.Dial(runtime, name); errors.Is(gone, control.ErrDead) {
		return nil // as above
	} else if gone == nil {
		again.Close()
	}
	hint := fmt.Sprintf("container and gate end with its aisb: kill -9 %d", c.PID())
	if refused, ok := errors.AsType[*control.Error](err); ok {
		hint = refused.Hint
	} else if is, ok := errors.AsType[*control.StoppedError](err); ok {
		hint = stoppedHint(is)
	}
	return &exitError{code: exitPodman, err: fmt.Errorf("stop %q: %w", name, err), hint: hint}
}
