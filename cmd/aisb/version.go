package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox/doctor"
)

// versions is what a report of a fault should say.
type versions struct {
	Version string           `json:"version"`
	Commit  string           `json:"commit,omitempty"` // with "+dirty" when the checkout had changes
	Go      string           `json:"go"`
	OS      string           `json:"os"`
	Arch    string           `json:"arch"`
	Parts   []doctor.Version `json:"parts"`
}

func newVersionCmd(u *ui) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "print the version, and those of what aisb works with",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			v := versions{
				Version: version(), Commit: commit(), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
				Parts: doctor.Versions(cmd.Context(), hostPath(os.Getenv("PATH"), maybeProject(os.Getwd, os.Getenv("HOME")))),
			}
			if asJSON {
				return printJSON(u.Out, v)
			}
			_, err := u.Out.Write(v.lines())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return cmd
}

func (v versions) lines() []byte {
	b := fmt.Appendln(nil, versionLine())
	if v.Commit != "" {
		b = fmt.Appendf(b, "commit %s\n", v.Commit)
	}
	for _, p := range v.Parts {
		text := p.Text
		if text == "" {
			text = "(" + p.Err + ")"
		}
		b = fmt.Appendf(b, "%-6s %s\n", p.Name, printable(text))
	}
	return b
}

// versionLine is the short form.
func versionLine() string {
	return fmt.Sprintf("aisb %s (%s, %s/%s)", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

// Set at link time: release by the Makefile and tests/release, revision by the latter
// alone.
var release, revision = "", ""

// version is the release, or what the Go tool recorded of the checkout.
func version() string {
	if release != "" {
		return release
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// commit is that of the checkout, "" when it was built outside of one.
func commit() string {
	if revision != "" {
		return revision
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	rev, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			rev = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	return rev + dirty
}
