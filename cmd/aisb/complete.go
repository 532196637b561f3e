package main

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
)

// completions tells shells what can follow: names that only aisb knows. Where
// nothing is told they offer files.
func completions(root *cobra.Command) {
	values := map[string][]string{
		"harness":            image.HarnessNames(),
		"preset":             presetNames(),
		"confine":            {"auto\tby what this kernel has", "require\tby all there is, or not start", "off\tfor debuggers"},
		"no-gate":            {"dns\tleave the name server open too"},
		"net":                {"allow\tthrough the gate", "none\tno network", "full\tno fence"},
		"net-backend":        {"auto\tinner, pasta where the kernel is too old for it", "inner\tno network inside at all", "pasta\tone address mapped to the host's loopback"},
		"keep":               keepWords(),
		"on-new-exec-config": {"report\tname it in the receipt", "quarantine\tmove it out of the project"},
	}
	words := []string{"allow", "deny", "resolver", "package", "command", "memory", "cpus", "pids-limit", "min-free", "time", "name", "timeout", "older", "publish", "git-token", "proxy",
		"tmpfs-size", "shm-size", "unused", "drain", "listen", "metrics", "allow-client", "allow-user", "upstream-proxy", "build-network", "gate", "canary", "open"}
	eachCommand(root, func(cmd *cobra.Command) {
		for name, list := range values {
			if cmd.Flags().Lookup(name) != nil {
				// An error means that it is told already, and it is not.
				_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp))
			}
		}
		for _, name := range words {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
			}
		}
		for name, do := range map[string]cobra.CompletionFunc{"home": completeHome, "env": completeVariable} {
			if cmd.Flags().Lookup(name) != nil {
				_ = cmd.RegisterFlagCompletionFunc(name, do)
			}
		}
		switch cmd.CommandPath() {
		case "aisb home inspect", "aisb home rm":
			cmd.ValidArgsFunction = completeHome
		case "aisb logs", "aisb gate logs", "aisb gate replay":
			cmd.ValidArgsFunction = completeRun("log.jsonl")
		case "aisb output":
			cmd.ValidArgsFunction = completeRun(reportName)
		case "aisb exec", "aisb shell":
			cmd.ValidArgsFunction = completeRunning(false, living)
		case "aisb attach", "aisb wait":
			cmd.ValidArgsFunction = completeRunning(false, detachedOnes)
		case "aisb stop":
			cmd.ValidArgsFunction = completeRunning(true, living)
		case "aisb presets":
			cmd.ValidArgsFunction = cobra.FixedCompletions(presetNames(), cobra.ShellCompDirectiveNoFileComp)
		case "aisb check":
			cmd.ValidArgsFunction = cobra.NoFileCompletions
		}
	})
}

// completeRun offers the runs that have left a file, the newest first, and files.
func completeRun(file string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		state, err := sandbox.StateDir(os.Getenv)
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		left, _ := filepath.Glob(filepath.Join(state, "runs", "*", file)) // the pattern is well formed
		type run struct {
			name string
			when int64
		}
		var runs []run
		for _, path := range left {
			name := filepath.Base(filepath.Dir(path))
			if info, err := os.Stat(path); err == nil && strings.HasPrefix(name, prefix) {
				runs = append(runs, run{name, info.ModTime().UnixNano()})
			}
		}
		slices.SortFunc(runs, func(a, b run) int { return cmp.Compare(b.when, a.when) })
		var names []string
		for _, r := range runs {
			names = append(names, r.name)
		}
		return names, cobra.ShellCompDirectiveKeepOrder
	}
}

// completeHome offers the homes that runs have used.
func completeHome(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	state, err := sandbox.StateDir(os.Getenv)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return homesIn(state).Names(), cobra.ShellCompDirectiveNoFileComp
}

// completeVariable offers the names of the environment.
func completeVariable(_ *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// unquoteUsages takes the marks of values (`FILE`) out of the flags' texts, which
// cobra shows as they are beside a completion.
func unquoteUsages(root *cobra.Command) {
	eachCommand(root, func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			_, usage := pflag.UnquoteUsage(f)
			f.Usage, _, _ = strings.Cut(usage, "\n")
		})
	})
}

// eachCommand calls do for a command and all below it.
func eachCommand(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, sub := range cmd.Commands() {
		eachCommand(sub, do)
	}
}
