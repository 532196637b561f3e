package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// section is a heading among the flags of a help text.
type section struct {
	title string
	first string // the flag that it stands before
}

// runSections are those of run, whose flags are many.
var runSections = []section{
	{"What it may reach", "allow"},
	{"Environment", "env"},
	{"Files", "workdir"},
	{"Git and ports", "git-identity"},
	{"The sandbox", "detach"},
	{"Image", "harness"},
	{"Limits", "pids-limit"},
	{"Weaker than usual", "allow-userns"},
	{"Instead of a run", "dry-run"},
}

// withSections puts headings among the flags in a command's help.
func withSections(cmd *cobra.Command, sections []section) {
	usage := cmd.UsageFunc()
	cmd.SetUsageFunc(func(c *cobra.Command) error {
		out := c.OutOrStderr()
		var b bytes.Buffer
		c.SetOut(&b)
		err := usage(c)
		c.SetOut(out)
		if err != nil {
			return err
		}
		_, err = fmt.Fprint(out, addSections(b.String(), sections))
		return err
	})
}

func addSections(text string, sections []section) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if line == "Flags:\n" {
			continue
		}
		for _, s := range sections {
			// After the column of one letter, as in "  -e, --env NAME".
			if len(line) > 6 && strings.HasPrefix(line[6:], "--"+s.first+" ") {
				b.WriteString(s.title + ":\n")
			}
		}
		b.WriteString(line)
	}
	return b.String()
}
