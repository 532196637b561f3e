package main

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// otherNames are flags as other programs call them.
var otherNames = map[string][]string{
	"net":        {"network"},
	"mount":      {"volume"},
	"shm-size":   {"shm"},
	"project-ro": {"read-only", "readonly"},
	"allow":      {"allowed-domains", "allow-host", "allow-hosts", "allow-domain", "allow-domains", "allow-net"},
	"deny":       {"block", "deny-domain", "deny-domains", "block-domains", "deny-network"},
	"preset":     {"profile"},
	"publish":    {"port"},
	"workdir":    {"cwd", "cd"},
}

// needless are flags of podman run, and why a run here has none of them.
var needless = map[string]string{
	"rm": "a sandbox is removed when it ends: leave --rm out",
	"i":  ownTerminal, "t": ownTerminal, "interactive": ownTerminal, "tty": ownTerminal,
}

const ownTerminal = "COMMAND has your stdin, and a terminal where you have one: leave the flag out"

// flagError is the error of a flag that cmd doesn't have or can't read.
func flagError(cmd *cobra.Command, err error) error {
	// A flag behind the name of a command that isn't there is that one's.
	if args := cmd.Flags().Args(); cmd.HasSubCommands() && len(args) > 0 {
		return wrongArgument(cmd, args, fmt.Errorf("unknown command %q for %q", args[0], cmd.CommandPath()))
	}
	e := &exitError{code: exitUsage, err: err, hint: "see '" + cmd.CommandPath() + " --help'"}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		name, short := unknown.GetSpecifiedName(), unknown.GetSpecifiedShortnames()
		if short != "" {
			e.err = fmt.Errorf("unknown flag: %s", dashed(name))
		}
		word, _, _ := strings.Cut(short, "=")
		switch {
		case cmd.Name() == "run" && needless[name] != "":
			e.hint = needless[name]
		case !cmd.HasParent() && runHas(cmd, unknown):
			e.hint = "it is a flag of run: aisb run [FLAGS] -- COMMAND\n" + e.hint
		case short == "":
			e.hint = didYouMean("--", flagsLike(cmd, name)) + e.hint
		case cmd.Flags().Lookup(word) != nil: // other programs' names begin with one dash
			e.err = fmt.Errorf("unknown flag: -%s", word)
			e.hint = didYouMean("--", []string{word}) + e.hint
		case len(word) > 1:
			e.err = fmt.Errorf("%w in -%s", e.err, word)
		}
	}
	if bad, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		wrong := badValue(bad.GetFlag(), bad.GetValue(), bad.Unwrap())
		e.err, e.hint = wrong.err, wrong.hint+e.hint
		if short := bad.GetFlag().Shorthand; short != "" { // it isn't known which was typed
			e.err = fmt.Errorf("-%s, %w", short, e.err)
		}
	}
	if without, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		name := dashed(without.GetSpecifiedName())
		e.err, e.hint = fmt.Errorf("%s needs a value", name), valueUse(name, without.GetFlag())+"\n"+e.hint
	}
	if bad, ok := errors.AsType[*pflag.InvalidSyntaxError](err); ok {
		e.err = fmt.Errorf("%q is no flag", bad.GetSpecifiedFlag())
	}
	return e
}

// runHas reports whether run has a flag that its parent lacks.
func runHas(root *cobra.Command, unknown *pflag.NotExistError) bool {
	run, _, err := root.Find([]string{"run"})
	if err != nil || run == root {
		return false
	}
	if unknown.GetSpecifiedShortnames() != "" {
		return run.Flags().ShorthandLookup(unknown.GetSpecifiedName()) != nil
	}
	return run.Flags().Lookup(unknown.GetSpecifiedName()) != nil
}

// dashed is a flag with its dashes: one before a single letter.
func dashed(name string) string {
	if utf8.RuneCountInString(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// flagsLike are the flags of cmd that name may have meant. cobra judges
// commands, so the flags pose as such.
func flagsLike(cmd *cobra.Command, name string) []string {
	all := &cobra.Command{SuggestionsMinimumDistance: 2}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			all.AddCommand(&cobra.Command{Use: f.Name, SuggestFor: otherNames[f.Name], Run: func(*cobra.Command, []string) {}})
		}
	})
	return all.SuggestionsFor(name)
}

// commandsLike are the commands below cmd that a wrong one may have meant.
func commandsLike(cmd *cobra.Command, args []string) []string {
	if len(args) == 0 || !cmd.HasSubCommands() {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	return cmd.SuggestionsFor(args[0])
}

// meantArgument is the line of a hint for an argument where a command belongs:
// what to run, or a rule.
func meantArgument(cmd *cobra.Command, args []string) string {
	switch {
	case len(args) == 0:
	case !cmd.HasParent():
		return "to run it in a sandbox: aisb run [FLAGS] -- " + shellCommand(args) + "\n"
	case cmd.Name() == "gate":
		return "a rule follows --allow, each one its own\n"
	}
	return ""
}

// didYouMean is the line of a hint that names what may have been meant, if
// anything.
func didYouMean(prefix string, names []string) string {
	const most = 8 // of more it isn't known what was meant
	if len(names) == 0 || len(names) > most {
		return ""
	}
	return "did you mean " + prefix + strings.Join(names, " or "+prefix) + "?\n"
}
