package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// cli runs the command line and returns the status to exit with.
func cli(args []string, u *ui) int {
	root := newRootCmd(u)
	root.SetArgs(args)
	root.SetOut(u.Out)
	root.SetErr(u.Err)
	if len(args) > 0 && strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		completions(root)
		unquoteUsages(root)
	}
	if err := root.ExecuteContext(u.super.context()); err != nil {
		return u.fail(err)
	}
	return 0
}

func newRootCmd(u *ui) *cobra.Command {
	root := &cobra.Command{
		Use:   "aisb",
		Short: "run an AI coding harness in a fenced container",
		Long: `aisb runs an AI coding harness on the current directory, in a rootless podman
container that can reach only the hosts you allow.

  aisb run --allow example.com -- curl https://example.com
  aisb run -e ANTHROPIC_API_KEY                             # pi
  aisb gate --listen 127.0.0.1:3128 --allow example.com     # only the proxy

It is a seatbelt, not a jail: it stops an agent that goes astray, not a kernel
exploit. README.md lists what it does not stop.`,
		Args:          cobra.NoArgs,
		Version:       versionLine(),
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.CompletionOptions.DisableDefaultCmd = true // newCompletionCmd
	help := newHelpCmd()
	root.SetHelpCommand(help)
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		newRunCmd(u),
		newPsCmd(u),
		newExecCmd(u),
		newShellCmd(u),
		newAttachCmd(u),
		newOutputCmd(u),
		newWaitCmd(u),
		newStopCmd(u),
		newLogsCmd(u),
		newPruneCmd(u),
		newHomeCmd(u),
		newImageCmd(u),
		newGateCmd(u),
		newCheckCmd(u),
		newConfigCmd(u),
		newPresetsCmd(u),
		newConnectCmd(),
		newGitTokenCmd(u),
		newDoctorCmd(u),
		newRulesetCmd(u),
		newUninstallCmd(u),
		newVersionCmd(u),
		newCompletionCmd(u),
		help,
		newAttackInsideCmd(u),
	)
	// cobra's own errors (unknown command, wrong number of arguments) carry no
	// status; give them that of wrong usage.
	eachCommand(root, func(cmd *cobra.Command) { cmd.Args = usageArgs(cmd.Args) })
	return root
}

// usageArgs makes the error of an argument check one of wrong usage.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if check == nil {
			return nil
		}
		err := check(cmd, args)
		var e *exitError
		if err == nil || errors.As(err, &e) {
			return err
		}
		if !cmd.HasSubCommands() && strings.HasPrefix(err.Error(), "unknown command ") {
			err = fmt.Errorf("%q is one argument too many: %s takes none", args[0], cmd.CommandPath()) // cobra.NoArgs thinks of commands
		}
		return wrongArgument(cmd, args, err)
	}
}

// wrongArgument is wrong usage by arguments, with what may have been meant.
func wrongArgument(cmd *cobra.Command, args []string, err error) *exitError {
	hint := didYouMean(cmd.CommandPath()+" ", commandsLike(cmd, args))
	if hint == "" {
		hint = meantArgument(cmd, args)
	}
	return &exitError{code: exitUsage, err: err, hint: hint + "see '" + cmd.CommandPath() + " --help'"}
}
