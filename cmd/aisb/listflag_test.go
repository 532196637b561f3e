package main

import (
	"io"
	"slices"
	"testing"

	"github.com/spf13/pflag"
)

// A list loses none of its texts, however its lines end, and is none without
// one.
func TestListFlag(t *testing.T) {
	for _, tt := range []struct {
		args, want []string
	}{
		{[]string{"--deny", "a.test"}, []string{"a.test"}},
		{[]string{"--deny", "a.test,b.test", "--deny=c.test"}, []string{"a.test", "b.test", "c.test"}},
		{[]string{"--deny", "a.test\nb.test\n"}, []string{"a.test", "b.test"}},
		{[]string{"--deny", "\r\n a.test,\r\nb.test , \n\nc.test:443+tcp\r\n"}, []string{"a.test", "b.test", "c.test:443+tcp"}},
		{[]string{"--deny", `"a.test`}, []string{`"a.test`}}, // the policy says what is wrong
		{[]string{"--deny", ""}, nil},
		{[]string{"--deny", " ,\n"}, nil},
		{[]string{"--deny", "a.test", "--deny", ""}, nil},
	} {
		got := []string{"default.test"}
		f := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.SetOutput(io.Discard)
		listVar(f, &got, "deny", "deny")
		err := f.Parse(tt.args)
		if (err == nil) != (tt.want != nil) || err == nil && !slices.Equal(got, tt.want) {
			t.Errorf("%q: %q, %v, want %q", tt.args, got, err, tt.want)
		}
	}
}
