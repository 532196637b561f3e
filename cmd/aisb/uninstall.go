package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox"
)

// uninstallOptions are the flags of uninstall.
type uninstallOptions struct {
	keep                              []string
	config, stop, dryRun, yes, asJSON bool
}

// keepable are the kinds that --keep takes, by the names it has for them.
var keepable = []struct {
	name string
	kind kind
	what string
}{
	{"homes", kindHome, "the agents' homes, with the logins in them"},
	{"images", kindImage, "images, and which were built"},
	{"logs", kindRuns, "logs and records of ended runs"},
	{"approvals", kindApproval, "approvals of projects' .aisb.toml"},
	{"quarantine", kindQuarantine, "what was moved out of projects"},
}

// keepWords are what can be completed.
func keepWords() []string {
	var list []string
	for _, k := range keepable {
		list = append(list, k.name+"\t"+k.what)
	}
	return list
}

func (o *uninstallOptions) flags(f *pflag.FlagSet) {
	f.SortFlags = false
	listVar(f, &o.keep, "keep", "keep `KINDS`: homes, images, logs, approvals,\nquarantine (repeatable, or with commas)")
	f.BoolVar(&o.config, "config", false, "remove your configuration file too")
	f.BoolVar(&o.stop, "stop", false, "end running sandboxes first")
	f.BoolVar(&o.dryRun, "dry-run", false, "only show it")
	f.BoolVarP(&o.yes, "yes", "y", false, "don't ask")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
}

func newUninstallCmd(u *ui) *cobra.Command {
	var o uninstallOptions
	cmd := &cobra.Command{
		Use:        "uninstall",
		Short:      "remove all that aisb keeps on this host for you",
		SuggestFor: []string{"purge", "reset", "delete", "destroy"},
		Long: `uninstall shows all that aisb keeps on this host for you, asks, and removes it:
images, homes with the logins in them, logs, approvals, what was moved into
quarantine, caches, run-time files, what killed runs and builds have left. It
lists what it leaves to you, such as your configuration file, and how that goes.

Nothing is touched that aisb hasn't made: no other container, image or volume of
podman's. It refuses while sandboxes run. The program itself goes the way it
came: by the package manager, or by rm.`,
		Example: `  aisb uninstall --dry-run
  aisb uninstall --keep homes,logs
  aisb uninstall --stop --yes --config`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.dryRun && o.yes {
				return usageError("aisb uninstall", errors.New("--dry-run and --yes exclude each other"))
			}
			kept, err := o.kept()
			if err != nil {
				return err
			}
			return o.run(cmd.Context(), u, kept)
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// kept are the kinds that --keep names.
func (o uninstallOptions) kept() (map[kind]bool, error) {
	kept := map[kind]bool{}
	names := map[string]kind{}
	for _, k := range keepable {
		names[k.name] = k.kind
	}
	for _, name := range o.keep {
		k, ok := names[name]
		if !ok {
			return nil, usageError("aisb uninstall", fmt.Errorf("--keep: %q is none of homes, images, logs, approvals, quarantine", name))
		}
		kept[k] = true
	}
	return kept, nil
}

func (o uninstallOptions) run(ctx context.Context, u *ui, kept map[kind]bool) error {
	runtime, err := runtimeDir()
	if err != nil {
		return err
	}
	_, err = os.Lstat(runtime)
	fresh := errors.Is(err, fs.ErrNotExist)
	if fresh {
		defer clearRuntime(context.WithoutCancel(ctx))
	}
	if err := o.ended(ctx, u); err != nil {
		return err
	}
	r, err := newRemoval(u, o, kept)
	if err != nil {
		return err
	}
	r.fresh = fresh
	if err := r.find(ctx); err != nil {
		return err
	}
	going := r.going()
	if !o.asJSON {
		if err := r.print(u); err != nil {
			return err
		}
	}
	if o.dryRun || len(going) == 0 {
		return o.last(u, r)
	}
	var total int64
	for _, b := range going {
		total += b.Size
	}
	if err := confirm(u, o.yes, fmt.Sprintf("remove %s, %s", plural(len(going), "thing", "things"), size(total))); err != nil {
		return err
	}
	if err := r.remove(ctx); err != nil {
		return err
	}
	return o.last(u, r)
}

// clearRuntime removes the directory of run-time files that this call has made, unless a
// run has begun there: this call may have waited long for an answer.
func clearRuntime(ctx context.Context) {
	if paths, err := sandbox.FindPaths(os.Getenv, os.Getuid()); err == nil {
		_ = paths.RemoveRuntime(ctx) // what is left is in memory, and gone with the login
	}
}

// last says how it went.
func (o uninstallOptions) last(u *ui, r *removal) error {
	if o.asJSON {
		if err := printJSON(u.Out, r.list); err != nil {
			return err
		}
	}
	var errs []error
	hint := ""
	removed := 0
	for _, b := range r.list {
		switch b.Fate {
		case fateFailed:
			errs = append(errs, fmt.Errorf("%s %s is left: %s", b.Kind, b.Name, b.Why))
			if !o.dryRun {
				hint = "call 'aisb uninstall' again when that is settled"
			}
		case fateRemoved:
			removed++
		case fateRemove, fateKept:
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &exitError{code: 1, err: err, hint: hint}
	}
	if removed > 0 && !o.asJSON {
		u.notef("removed %s", plural(removed, "thing", "things"))
	}
	return nil
}

// stoppedIn is how long what was stopped may take to have cleaned up.
const stoppedIn = 10 * time.Second

// ended sees to it that no sandbox runs, also none that only starts or cleans up.
func (o uninstallOptions) ended(ctx context.Context, u *ui) error {
	runtime, list, err := runs()
	if err != nil {
		return err
	}
	if o.stop && !o.dryRun {
		var names []string
		for _, r := range living(list) {
			names = append(names, r.Name)
		}
		if err := stopAll(&ui{Out: io.Discard, Err: u.Err}, runtime, list, names, graceOf(1)); err != nil {
			return err
		}
		for _, name := range names {
			u.notef("ended %s", name)
		}
	}
	paths, err := sandbox.FindPaths(os.Getenv, os.Getuid())
	if err != nil {
		return err
	}
	for until := time.Now().Add(stoppedIn); ; time.Sleep(20 * time.Millisecond) {
		running, err := paths.Running(ctx)
		if err != nil {
			return &exitError{code: exitPodman, err: err}
		}
		switch {
		case len(running) == 0:
			return nil
		case o.dryRun:
			u.warnf("%s: 'aisb uninstall' refuses until they have ended", runningText(running))
			return nil
		case !o.stop || time.Now().After(until):
			return stillRunning(running)
		}
	}
}

func runningText(names []string) string {
	if len(names) == 1 {
		return "a sandbox is running: " + names[0]
	}
	return fmt.Sprintf("%d sandboxes are running: %s", len(names), strings.Join(names, ", "))
}

func stillRunning(names []string) error {
	return &exitError{code: 1, err: errors.New(runningText(names)), hint: "end them: aisb stop --all\nor let this do so: aisb uninstall --stop"}
}

// print shows what goes, and what is left to the user.
func (r *removal) print(u *ui) error {
	w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
	going := r.going()
	if len(going) == 0 {
		u.notef("nothing to remove")
	} else {
		fmt.Fprintln(w, "KIND\tNAME\tSIZE\tWHAT")
	}
	for _, b := range going {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", b.Kind, printable(b.Name), b.sizeText(), printable(b.What))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, b := range r.list {
		if b.Fate == fateKept {
			u.notef("kept: %s %s: %s", b.Kind, b.Name, b.Why)
		}
	}
	return nil
}

func (b belonging) sizeText() string {
	if b.Size == 0 {
		return "-"
	}
	return size(b.Size)
}
