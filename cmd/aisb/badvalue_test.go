package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// parsers are words of Go's own parsers, pflag's and cobra's, that say nothing to a user.
var parsers = []string{"strconv", "invalid argument", "invalid syntax", "out of range", "parse error", "time: ", "duration", "arg(s)", "needs an argument"}

func strange(text string) string {
	for _, word := range parsers {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

// eachTried calls try for every command of a root of its own.
func eachTried(try func(cmd *cobra.Command)) {
	eachCommand(newRootCmd(&ui{Out: io.Discard, Err: io.Discard}), try)
}

// No flag of any command answers a wrong value in the words of what parses it, and all
// quote it.
func TestBadValues(t *testing.T) {
	kinds := map[string]bool{}
	eachTried(func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			for _, value := range []string{"", "x", "5", "-1", "-1s", "0x", "1e9h", `"`, "99999999999999999999999"} {
				err := cmd.ParseFlags([]string{"--" + f.Name + "=" + value})
				if err == nil {
					continue
				}
				kinds[fmt.Sprintf("%T", f.Value)] = true
				e := flagError(cmd, err).(*exitError)
				if word := strange(e.Error() + e.hint); word != "" || !strings.HasPrefix(e.Error(), fmt.Sprintf("--%s %q", f.Name, value)) {
					t.Errorf("%s --%s=%s: %v (%q)", cmd.CommandPath(), f.Name, value, e, word)
				}
			}
			if f.NoOptDefVal != "" {
				return
			}
			err := cmd.ParseFlags([]string{"--" + f.Name})
			e := flagError(cmd, err).(*exitError)
			if word := strange(e.Error() + e.hint); word != "" || e.Error() != "--"+f.Name+" needs a value" {
				t.Errorf("%s --%s: %v (%q)", cmd.CommandPath(), f.Name, e, word)
			}
		})
	})
	for _, kind := range []string{"*pflag.boolValue", "*pflag.uintValue", "*main.timeValue", "*main.listFlag", "*main.noGate"} {
		if !kinds[kind] {
			t.Errorf("no value of a %s was wrong: %v", kind, kinds)
		}
	}
}

// The same of a wrong number of arguments.
func TestNumbersOfArguments(t *testing.T) {
	wrong := 0
	eachTried(func(cmd *cobra.Command) {
		for n := range 5 {
			args := strings.Fields("a b c d")[:n]
			err := cmd.Args(cmd, args)
			if err == nil {
				continue
			}
			wrong++
			if word := strange(err.Error()); word != "" {
				t.Errorf("%s %v: %v (%q)", cmd.CommandPath(), args, err, word)
			}
		}
	})
	if wrong < 50 {
		t.Errorf("only %d calls were wrong", wrong)
	}
}
