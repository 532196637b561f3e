package main

import (
	"fmt"
	"os"
	"slices"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/gate/preset"
	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
)

// shown is a preset as 'aisb presets' prints it.
type shown struct {
	preset.Preset
	Keys []image.Key `json:"keys,omitempty"` // of a harness
}

func newPresetsCmd(u *ui) *cobra.Command {
	var o imageOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "presets [flags] [NAME]",
		Short: "list the presets of --preset, or show the hosts of one",
		Long: `presets lists what --preset can name, or shows each host of one preset, what it
is for, and in which group it is. --preset NAME allows the group core alone;
NAME:telemetry and NAME:update allow the others. The presets of package tools
are read off the image, so they depend on the flags that name one.`,
		Example: `  aisb presets
  aisb presets github
  aisb presets npm --harness claude`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			spec, err := o.configured(u, cmd.Flags())
			if err != nil {
				return err
			}
			packages, err := knownPackages(spec, os.Getenv)
			if err != nil {
				return err
			}
			if len(args) == 1 {
				return showPreset(u, args[0], packages, asJSON)
			}
			return listPresets(u, packages, asJSON)
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// knownPackages are the package presets of an image, as aisb noted them when it was
// built. It asks podman nothing.
func knownPackages(s image.Spec, getenv func(string) string) ([]preset.Preset, error) {
	state, err := sandbox.StateDir(getenv)
	if err != nil {
		return nil, err
	}
	list, _, err := recordsIn(state).Sources(s)
	return list, err
}

// findShown is a preset with all that is known of it.
func findShown(name string, packages []preset.Preset) (shown, error) {
	if slices.Contains(image.PackageTools(), name) {
		for _, p := range packages {
			if p.Name == name {
				return shown{Preset: p}, nil
			}
		}
		return shown{Preset: preset.Preset{Name: name, Kind: preset.Package, Title: "read off the image, once that is built"}}, nil
	}
	p, err := findPreset(name)
	if err != nil {
		return shown{}, err
	}
	s := shown{Preset: p}
	if h, err := image.FindHarness(name); err == nil {
		s.Keys = h.Keys
	}
	return s, nil
}

func listPresets(u *ui, packages []preset.Preset, asJSON bool) error {
	list := []shown{}
	for _, name := range presetNames() {
		s, err := findShown(name, packages)
		if err != nil {
			return err
		}
		list = append(list, s)
	}
	if asJSON {
		return printJSON(u.Out, list)
	}
	w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tKIND\tHOSTS\tTITLE")
	for _, s := range list {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Name, s.Kind, counts(s.Hosts), s.Title)
	}
	return w.Flush()
}

// counts says how many hosts there are, and how many of them core leaves out.
func counts(h preset.Hosts) string {
	text := fmt.Sprint(len(h.Core))
	if more := len(h.Telemetry) + len(h.Update); more > 0 {
		text += fmt.Sprintf(" (+%d)", more)
	}
	return text
}

func showPreset(u *ui, name string, packages []preset.Preset, asJSON bool) error {
	s, err := findShown(name, packages)
	if err != nil {
		return err
	}
	if asJSON {
		return printJSON(u.Out, s)
	}
	fmt.Fprintf(u.Out, "%s: %s (%s)\n", s.Name, s.Title, s.Kind)
	w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
	for _, g := range preset.Groups() {
		if hosts := s.Of(g); len(hosts) > 0 {
			fmt.Fprintf(w, "\n%s: --preset %s\n", g, preset.Ref{Name: s.Name, Group: g})
			for _, h := range hosts {
				fmt.Fprintf(w, "  %s\t%s\n", printable(h.Rule), printable(h.Reason))
			}
		}
	}
	if len(s.Keys) > 0 {
		fmt.Fprintf(w, "\nkeys, each of which allows a preset's core: -e %s\n", s.Keys[0].Env)
		for _, k := range s.Keys {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", k.Env, k.Preset, k.Reason)
		}
	}
	if s.Kind == preset.Package && len(s.Core) == 0 {
		fmt.Fprintf(w, "\nnone known: 'aisb image build' asks the tool, if the image has it (--package adds it)\n")
	}
	return w.Flush()
}
