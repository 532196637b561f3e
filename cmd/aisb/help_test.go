package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestHelpFitsTheScreen: the help of every command is at most 80 columns wide and
// two screens long: of 24 lines, and run's, which has most to say, of 40.
func TestHelpFitsTheScreen(t *testing.T) {
	seen := 0
	eachCommand(newRootCmd(&ui{}), func(cmd *cobra.Command) {
		seen++
		var out bytes.Buffer
		cmd.SetOut(&out)
		cmd.InitDefaultHelpFlag() // a line of its own, made when a command is executed
		if err := cmd.Help(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		most := 48
		if cmd.Name() == "run" {
			most = 80
		}
		if len(lines) > most {
			t.Errorf("%s --help has %d lines, more than %d", cmd.CommandPath(), len(lines), most)
		}
		for _, line := range lines {
			if len(line) > 80 {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), len(line), line)
			}
		}
	})
	if seen < 12 {
		t.Fatalf("%d commands seen, expected them all", seen)
	}
}
