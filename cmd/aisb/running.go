package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
)

// runtimeDir is where running sandboxes have their sockets.
func runtimeDir() (string, error) {
	paths, err := sandbox.FindPaths(os.Getenv, os.Getuid())
	if err != nil {
		return "", &exitError{code: exitPodman, err: err,
			hint: noRuntimeDir(os.Getuid())}
	}
	return paths.Runtime, nil
}

// runs are the user's sandboxes.
func runs() (runtime string, list []control.Info, err error) { return runsWithin(control.Patience) }

// runsWithin gives each so long to say what it is.
func runsWithin(patience time.Duration) (runtime string, list []control.Info, err error) {
	if runtime, err = runtimeDir(); err != nil {
		return "", nil, err
	}
	if list, err = control.List(runtime, patience); err != nil {
		return "", nil, &exitError{code: exitPodman, err: fmt.Errorf("list sandboxes: %w", err)}
	}
	return runtime, list, nil
}

// living are the runs that there are not only traces of.
func living(runs []control.Info) []control.Info {
	var list []control.Info
	for _, r := range runs {
		if r.State != control.Dead {
			list = append(list, r)
		}
	}
	return list
}

// pick finds the run that a user means by name, or the only one there is when
// name is empty.
func pick(all []control.Info, name string) (control.Info, error) {
	list := living(all)
	found := list
	if name != "" {
		found = control.Match(list, name)
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case name == "" && len(list) == 0:
		return control.Info{}, &exitError{code: exitPodman, err: errors.New("no sandbox is running"), hint: noneHint(os.Getuid())}
	case name == "":
		return control.Info{}, &exitError{code: exitPodman, err: fmt.Errorf("%d sandboxes are running: name one", len(list)), hint: runningHint(list)}
	case len(found) > 1:
		return control.Info{}, &exitError{code: exitPodman, err: fmt.Errorf("%d sandboxes have a name that begins with %q", len(found), name), hint: runningHint(found)}
	case len(control.Match(all, name)) > 0:
		return control.Info{}, &exitError{code: exitPodman, err: fmt.Errorf("the sandbox %q has ended: its aisb was killed", name), hint: runningHint(list)}
	case len(list) == 0:
		return control.Info{}, &exitError{code: exitPodman, err: fmt.Errorf("no sandbox has the name %q: none is running", name), hint: noneHint(os.Getuid())}
	}
	return control.Info{}, &exitError{code: exitPodman, err: fmt.Errorf("no running sandbox has a name that begins with %q", name), hint: runningHint(list)}
}

// runningHint names some runs.
func runningHint(list []control.Info) string {
	const most = 5
	var names []string
	for _, r := range list {
		names = append(names, r.Name)
	}
	switch {
	case len(names) == 0:
		return noneHint(os.Getuid())
	case len(names) > most:
		return fmt.Sprintf("%s and %d more are running, see 'aisb ps'", strings.Join(names[:most], ", "), len(names)-most)
	case len(names) == 1:
		return names[0] + " is running"
	}
	return strings.Join(names, ", ") + " are running, see 'aisb ps'"
}

func noneHint(uid int) string {
	if uid == 0 {
		return "sandboxes belong to the user who started them: ask as that user, without sudo"
	}
	return "start one: aisb run --help"
}

// controlError gives what a sandbox's aisb has refused its status and hint.
func controlError(err error) error {
	if refused, ok := errors.AsType[*control.Error](err); ok {
		return &exitError{code: refused.Status, err: refused, hint: refused.Hint}
	}
	if errors.Is(err, control.ErrDead) {
		return &exitError{code: exitPodman, err: fmt.Errorf("the sandbox has ended: %w", err), hint: "see 'aisb ps'"}
	}
	if is, ok := errors.AsType[*control.StoppedError](err); ok {
		return &exitError{code: exitPodman, err: err, hint: stoppedHint(is)}
	}
	return &exitError{code: exitPodman, err: err}
}

// stoppedHint is what to do about an aisb that stands still.
func stoppedHint(e *control.StoppedError) string {
	return fmt.Sprintf("'kill -CONT %d' lets it go on; with -9 it ends, and container and gate with it", e.PID)
}

// detachedOnes are the runs that can be attached to.
func detachedOnes(runs []control.Info) []control.Info {
	return slices.DeleteFunc(living(runs), func(r control.Info) bool { return !r.Detached })
}

// completeRunning offers the names of running sandboxes of a kind.
func completeRunning(many bool, kind func([]control.Info) []control.Info) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 && !many {
			return nil, cobra.ShellCompDirectiveDefault
		}
		_, list, err := runsWithin(control.Glance) // somebody has pressed a key
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var names []string
		for _, r := range kind(list) {
			if strings.HasPrefix(r.Name, prefix) {
				names = append(names, r.Name+"\t"+printable(string(r.Project)))
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
