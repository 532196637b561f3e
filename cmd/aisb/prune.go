package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
)

// pruneOptions are the flags of prune.
type pruneOptions struct {
	logs, images, homes bool
	dryRun, yes, asJSON bool
	older               time.Duration
}

func newPruneCmd(u *ui) *cobra.Command {
	o := pruneOptions{older: 30 * day}
	cmd := &cobra.Command{
		Use:        "prune",
		Short:      "remove old logs, images and homes",
		SuggestFor: []string{"clean", "gc", "cleanup"},
		Long: `prune shows what nobody has used for a while, asks, and removes it: the logs of
ended runs and images, those too whose use is noted nowhere, or what the flags
name. Homes hold logins: they are left alone unless --homes names them. Nothing
of a running sandbox is removed, and nothing that aisb has not made. Without a
terminal say --yes.`,
		Example: `  aisb prune --dry-run
  aisb prune --logs --older 7d --yes`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !o.logs && !o.images && !o.homes {
				o.logs, o.images = true, true
			}
			if o.dryRun && o.yes {
				return usageError("aisb prune", errors.New("--dry-run and --yes exclude each other"))
			}
			return o.run(cmd.Context(), u, time.Now())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.BoolVar(&o.logs, "logs", false, "logs and records of ended runs")
	f.BoolVar(&o.images, "images", false, "images")
	f.BoolVar(&o.homes, "homes", false, "homes, with the logins in them")
	f.Var((*timeValue)(&o.older), "older", "what was not used for `TIME`, like 7d")
	f.BoolVar(&o.dryRun, "dry-run", false, "only show it")
	f.BoolVarP(&o.yes, "yes", "y", false, "don't ask")
	f.BoolVar(&o.asJSON, "json", false, "print JSON")
	return cmd
}

// stale is a thing that prune would remove.
type stale struct {
	Kind string    `json:"kind"` // log, image or home
	Name string    `json:"name"`
	Size int64     `json:"size"`
	Used time.Time `json:"last_used"`

	remove func() error
}

func (o pruneOptions) run(ctx context.Context, u *ui, now time.Time) error {
	list, err := o.find(ctx, u, now)
	if err != nil {
		return err
	}
	show := printStale
	if o.asJSON {
		show = func(u *ui, list []stale) error { return printJSON(u.Out, list) }
	}
	if err := show(u, list); err != nil || o.dryRun || len(list) == 0 {
		return err
	}
	var total int64
	for _, s := range list {
		total += s.Size
	}
	if err := confirm(u, o.yes, fmt.Sprintf("remove %s, %s", plural(len(list), "thing", "things"), size(total))); err != nil {
		return err
	}
	var errs []error
	hint := ""
	for _, s := range list {
		if err := s.remove(); err != nil {
			errs = append(errs, fmt.Errorf("%s %s: %w", s.Kind, s.Name, err))
			hint = cmp.Or(hintOf(err), hint)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &exitError{code: 1, err: err, hint: hint}
	}
	return nil
}

func printStale(u *ui, list []stale) error {
	if len(list) == 0 {
		u.notef("nothing to remove")
		return nil
	}
	w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KIND\tNAME\tSIZE\tLAST USED")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Kind, printable(s.Name), size(s.Size), s.Used.Local().Format(time.DateTime))
	}
	return w.Flush()
}

// find lists what is old, the kinds in their order and the oldest first.
func (o pruneOptions) find(ctx context.Context, u *ui, now time.Time) ([]stale, error) {
	list := []stale{} // [] and not null
	for _, k := range []struct {
		wanted bool
		find   func(ctx context.Context, u *ui, before time.Time) ([]stale, error)
	}{{o.logs, staleLogs}, {o.images, staleImages}, {o.homes, staleHomes}} {
		if !k.wanted {
			continue
		}
		some, err := k.find(ctx, u, now.Add(-o.older))
		if err != nil {
			return nil, err
		}
		slices.SortStableFunc(some, func(a, b stale) int { return a.Used.Compare(b.Used) })
		list = append(list, some...)
	}
	return list, nil
}

func staleLogs(_ context.Context, _ *ui, before time.Time) ([]stale, error) {
	state, err := sandbox.StateDir(os.Getenv)
	if err != nil {
		return nil, err
	}
	runs, err := sandbox.OldRuns(state, before)
	if err != nil {
		return nil, err
	}
	var list []stale
	for _, r := range runs {
		list = append(list, stale{Kind: "log", Name: r.Name, Size: r.Size, Used: r.Used.UTC().Truncate(time.Second), remove: r.Remove})
	}
	return list, nil
}

func staleImages(ctx context.Context, u *ui, before time.Time) ([]stale, error) {
	b, err := newBuilder(u, "aisb prune --images", imageOptions{})
	if err != nil {
		return nil, err
	}
	images, used, err := b.old(ctx, before)
	if err != nil {
		return nil, err
	}
	var list []stale
	for _, i := range images {
		at := i.Created
		if when, ok := used[i.Ref]; ok {
			at = when
		}
		list = append(list, stale{Kind: "image", Name: i.Ref, Size: i.Size, Used: at.UTC().Truncate(time.Second), remove: func() error {
			return b.remove(ctx, i)
		}})
	}
	return list, nil
}

// old are the images that no run has used since before, or that no build of this
// aisb would make again, and the last uses that are known.
func (b *builder) old(ctx context.Context, before time.Time) ([]image.Listed, map[string]time.Time, error) {
	list, err := b.list(ctx)
	if err != nil {
		return nil, nil, err
	}
	records, err := b.records.All()
	if err != nil {
		return nil, nil, err
	}
	used := map[string]time.Time{}
	for _, r := range records {
		if r.Used.After(used[r.Tag]) {
			used[r.Tag] = r.Used
		}
	}
	return slices.DeleteFunc(list, func(i image.Listed) bool { return used[i.Ref].After(before) }), used, nil
}

// remove removes one image, and what aisb remembers of it, unless a build or a run
// needs it.
func (b *builder) remove(ctx context.Context, i image.Listed) error {
	unlock, _, err := b.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := b.output(ctx, image.RemoveArgs(i.Ref)); err != nil {
		return err // in use, most likely: podman says by what
	}
	records, err := b.records.All()
	if err != nil {
		return err
	}
	for _, r := range records {
		if r.Tag == i.Ref {
			err = errors.Join(err, b.records.Forget(r.Key))
		}
	}
	return err
}

func staleHomes(ctx context.Context, _ *ui, before time.Time) ([]stale, error) {
	h, err := openHomes("aisb prune --homes")
	if err != nil {
		return nil, err
	}
	all, err := h.list(ctx)
	if err != nil {
		return nil, err
	}
	var list []stale
	for _, i := range all {
		at := i.Created
		if i.LastUsed != nil {
			at = *i.LastUsed
		}
		if len(i.UsedBy) == 0 && !at.After(before) {
			list = append(list, stale{Kind: "home", Name: i.Name, Size: i.Size, Used: at, remove: func() error { return h.removeOne(ctx, i.Name) }})
		}
	}
	return list, nil
}
