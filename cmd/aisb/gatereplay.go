package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate/history"
)

// replayOptions are the flags of gate replay.
type replayOptions struct {
	policyOptions
	suggest bool
	json    bool
}

func newGateReplayCmd(u *ui) *cobra.Command {
	var o replayOptions
	cmd := &cobra.Command{
		Use:                   "replay [LOG] (--allow-file FILE | --allow RULE | --suggest)...",
		DisableFlagsInUseLine: true,
		Short:                 "say what other rules would have made of a run",
		Long: `replay judges what a gate's log tells of by other rules: what was allowed and
would be refused, what was refused and would be allowed, and which rules nothing
needed. LOG is a file, a run's name or its beginning, or - for standard input;
without it the newest run. Nothing is resolved or connected to; addresses are
those of the log.

The status is 1 when something that was allowed would be refused. With --suggest
it prints the shortest list of rules that allows what was reached, without
wildcards, ready for --allow-file.`,
		Example: `  aisb gate replay gate.jsonl --allow-file new.txt
  aisb gate replay --suggest > rules.txt                    # the newest run
  aisb gate replay aisb-web-1a2b3c --suggest > rules.txt`,
		Args: takes(0, 1),
		RunE: func(_ *cobra.Command, args []string) error { return o.replay(u, strings.Join(args, "")) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	listVar(f, &o.allow, "allow", "judge by the `RULE` (repeatable, comma list)")
	f.StringArrayVar(&o.allowFile, "allow-file", nil, "judge by the rules in `FILE`, one a line")
	listVar(f, &o.deny, "deny", "deny `RULE`, whatever allows it")
	f.StringArrayVar(&o.denyFile, "deny-file", nil, "deny the rules in `FILE`")
	o.presets.flag(f)
	f.BoolVar(&o.allowAll, "allow-all-names", false, "let the rule * allow any public name")
	f.BoolVar(&o.suggest, "suggest", false, "print the shortest list of rules that covers the run")
	f.BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

// replayed is what replay prints with --json.
type replayed struct {
	*history.Result
	Suggest *[]string `json:"suggest,omitempty"`
}

func (o replayOptions) replay(u *ui, name string) error {
	if !o.given() && !o.suggest {
		return usageError("aisb gate replay", errors.New("there are no rules to judge by; give --allow-file, or --suggest"))
	}
	p, warnings, err := o.policy()
	if err != nil {
		return err
	}
	for _, w := range warnings {
		u.warnf("%s", w)
	}
	f, err := openLog(u, name)
	if err != nil {
		return err
	}
	defer f.Close()
	r := history.New()
	if err := history.Read(f, r.Add); err != nil {
		return &exitError{code: 1, err: fmt.Errorf("%s: %w", f.Name(), err), hint: "give the log of a gate: stdout of 'aisb gate', or a run's name"}
	}
	var out replayed
	if o.given() {
		result := r.Against(p)
		out.Result = &result
	}
	if o.suggest {
		list := r.Suggest()
		out.Suggest = &list
	}
	if err := o.print(u, out); err != nil {
		return err
	}
	if out.Result != nil && len(out.Denied) > 0 {
		return &exitError{code: 1}
	}
	return nil
}

// print prints the result. With --suggest alone stdout is a rule file.
func (o replayOptions) print(u *ui, out replayed) error {
	if o.json {
		return jsonEncoder(u.Out).Encode(out)
	}
	if out.Result != nil {
		if err := printReplay(u, *out.Result); err != nil {
			return err
		}
	}
	if out.Suggest == nil {
		return nil
	}
	if out.Result != nil {
		fmt.Fprintln(u.Out, "\n# the shortest list that covers the run")
	}
	if len(*out.Suggest) == 0 {
		u.warnf("nothing was reached, so nothing needs a rule; what was refused: aisb logs")
	}
	for _, rule := range *out.Suggest {
		if _, err := fmt.Fprintln(u.Out, printable(rule)); err != nil {
			return err
		}
	}
	return nil
}

// printReplay prints the changes as a table, and how many there are.
func printReplay(u *ui, r history.Result) error {
	w := tabwriter.NewWriter(u.Out, 0, 8, 2, ' ', 0)
	row := func(what string, c history.Change) {
		by := ""
		if c.Rule != "" {
			by = fmt.Sprintf("%s (%s)", c.Rule, c.Origin)
		}
		fmt.Fprintf(w, "%s\t%s\t%dx\t%s\t%s\n", what, printable(hostPort(c.Host, c.Port)), c.Count, c.Reason, printable(by))
	}
	for _, c := range r.Denied {
		row("would be refused", c)
	}
	for _, c := range r.Allowed {
		row("would be allowed", c)
	}
	for _, rule := range r.Unused {
		fmt.Fprintf(w, "not needed\t%s\t\t\t%s\n", printable(rule.Rule), printable(rule.Origin))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(u.Out, "%d hosts: %d would be refused, %d would be allowed, %d rules not needed\n",
		r.Targets, len(r.Denied), len(r.Allowed), len(r.Unused))
	return err
}
