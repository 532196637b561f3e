package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// newHelpCmd takes the place of cobra's own, which says of a command that there is
// none with status 0.
func newHelpCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "show the help of a command",
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return &exitError{code: exitUsage, err: fmt.Errorf("there is no command %q", strings.Join(args, " ")),
					hint: didYouMean(found.CommandPath()+" ", commandsLike(found, rest)) + "see 'aisb help'"}
			}
			found.InitDefaultHelpFlag()
			return found.Help()
		},
	}
}

// shells are those for which cobra writes a script.
var shells = map[string]func(root *cobra.Command, to io.Writer) error{
	"bash": func(root *cobra.Command, to io.Writer) error { return root.GenBashCompletionV2(to, true) },
	"fish": func(root *cobra.Command, to io.Writer) error { return root.GenFishCompletion(to, true) },
	"zsh":  (*cobra.Command).GenZshCompletion,
}

func newCompletionCmd(u *ui) *cobra.Command {
	return &cobra.Command{
		Use:   "completion bash|fish|zsh",
		Short: "print a script by which a shell completes what you type",
		Long: `completion prints a script for a shell. With it Tab completes commands, flags,
and the names of sandboxes, runs, presets and homes.`,
		Example: `  source <(aisb completion bash)      # it needs the package bash-completion
  aisb completion bash > ~/.local/share/bash-completion/completions/aisb
  aisb completion fish > ~/.config/fish/completions/aisb.fish
  aisb completion zsh > "${fpath[1]}/_aisb"`,
		DisableFlagsInUseLine: true,
		ValidArgs:             slices.Sorted(maps.Keys(shells)),
		Args:                  oneShell,
		RunE: func(cmd *cobra.Command, args []string) error {
			return shells[args[0]](cmd.Root(), u.Out)
		},
	}
}

// oneShell accepts the name of a shell.
func oneShell(_ *cobra.Command, args []string) error {
	there := strings.Join(slices.Sorted(maps.Keys(shells)), ", ")
	e := &exitError{code: exitUsage, hint: "for example: source <(aisb completion bash)\nsee 'aisb completion --help'"}
	switch {
	case len(args) == 1 && shells[args[0]] != nil:
		return nil
	case len(args) == 1:
		e.err = fmt.Errorf("%q is none of the shells %s", args[0], there)
	default:
		e.err = fmt.Errorf("completion needs one shell of %s", there)
	}
	return e
}
