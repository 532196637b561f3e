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
			// A value may have followed either name, and pflag doesn't tell which.
			begin, names := "--"+f.Name, []string{"--" + f.Name}
			if f.Shorthand != "" {
				begin, names = "-"+f.Shorthand+", "+begin, append(names, "-"+f.Shorthand)
			}
			for _, value := range []string{"", "x", "5", "-1", "-1s", "0x", "1e9h", `"`, "99999999999999999999999"} {
				err := cmd.ParseFlags([]string{"--" + f.Name + "=" + value})
				if err == nil {
					continue
				}
				kinds[fmt.Sprintf("%T", f.Value)] = true
				e := flagError(cmd, err).(*exitError)
				if word := strange(e.Error() + e.hint); word != "" || !strings.HasPrefix(e.Error(), fmt.Sprintf("%s %q", begin, value)) {
					t.Errorf("%s --%s=%s: %v (%q)", cmd.CommandPath(), f.Name, value, e, word)
				}
			}
			if f.NoOptDefVal != "" {
				return
			}
			for _, name := range names {
				e := flagError(cmd, cmd.ParseFlags([]string{name})).(*exitError)
				if word := strange(e.Error() + e.hint); word != "" || e.Error() != name+" needs a value" || !strings.HasPrefix(e.hint, name+" ") {
					t.Errorf("%s %s: %v, hint %q (%q)", cmd.CommandPath(), name, e, e.hint, word)
				}
			}
		})
	})
	for _, kind := range []string{"*pflag.boolValue", "*pflag.uintValue", "*main.timeValue", "*main.listFlag", "*main.textFlag", "*main.noGate"} {
		if !kinds[kind] {
			t.Errorf("no value of a %s was wrong: %v", kind, kinds)
		}
	}
}

// A flag is called as it was typed.
func TestTypedNames(t *testing.T) {
	for _, row := range []struct{ args, want string }{
		{"run -v", "-v needs a value"},
		{"gate --auth-token-file=", `--auth-token-file "": there is nothing in it`},
		{"run -dv", "-v needs a value"},
		{"run --mount", "--mount needs a value"},
		{"run -x", "unknown flag: -x"},
		{"run -dx", "unknown flag: -x"},
		{"run -net none", "unknown flag: -net"},
		{"run -nat=none", "unknown flag: -n in -nat"},
		{"run --=x", `"--=x" is no flag`},
		{"stop -t=-1", `-t, --time "-1" is not 0 or a whole number above`},
		{"stop -t 99999999999999999999", `-t, --time "99999999999999999999" is too large a number`},
	} {
		cmd, args, err := newRootCmd(&ui{Out: io.Discard, Err: io.Discard}).Find(strings.Fields(row.args))
		if err != nil {
			t.Fatal(err)
		}
		if e := flagError(cmd, cmd.ParseFlags(args)); e.Error() != row.want {
			t.Errorf("%s: %v, want %s", row.args, e, row.want)
		}
	}
}

// An empty argument is not taken for none.
func TestEmptyArguments(t *testing.T) {
	for call, want := range map[string]string{
		"wait": "the NAME is empty", "stop a": "the NAME is empty", "stop": "the NAME is empty", "attach": "the NAME is empty",
		"output": "the NAME is empty", "logs": "the RUN is empty", "presets": "the NAME is empty", "home rm a": "the NAME is empty",
	} {
		cmd, args, err := newRootCmd(&ui{Out: io.Discard, Err: io.Discard}).Find(strings.Fields(call))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Args(cmd, append(args, "")); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", call, err, want)
		}
	}
}

// A wrong number of arguments is not answered in their words either.
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
