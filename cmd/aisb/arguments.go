package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// anyNumber is no limit to what a command takes.
const anyNumber = math.MaxInt

// takes checks the number of arguments. cobra's own checks say "accepts 1 arg(s),
// received 0", and not of what. Nor may one be empty.
func takes(least, most int) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return fmt.Errorf("%s needs %s", cmd.CommandPath(), argumentsOf(cmd))
		case len(args) > most:
			return fmt.Errorf("%q is one argument too many: %s takes %s", args[most], cmd.CommandPath(), argumentsOf(cmd))
		case slices.Contains(args, ""): // a variable that isn't set, and not the newest or the only one
			names := strings.Fields(argumentsOf(cmd))
			return fmt.Errorf("the %s is empty", strings.Trim(names[min(slices.Index(args, ""), len(names)-1)], "[]."))
		}
		return nil
	}
}

// argumentsOf are the arguments in a command's line of use, without its flags.
func argumentsOf(cmd *cobra.Command) string {
	var names []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if strings.HasPrefix(word, "(") { // a choice of flags, up to the end
			break
		}
		if word != "[flags]" {
			names = append(names, word)
		}
	}
	return strings.Join(names, " ")
}
