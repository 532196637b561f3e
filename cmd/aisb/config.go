package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/sandbox/config"
	"github.com/aisb-dev/aisb/sandbox/trust"
)

func newConfigCmd(u *ui) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "show the configuration, and approve a project's file",
		Long: `config is about two files that 'aisb run' reads: ~/.config/aisb/config.toml is
yours, .aisb.toml the project's. Their keys are the flags of 'aisb run'. Lists
of both and of the flags add up, of all else the last counts: your file, the
project's, the environment, flags. deny always wins. An agent can write the
project's file: without your approval only its deny counts.`,
		Example: `  aisb config init         # begin your own file
  aisb config show         # what a run here would use, and where it stands
  aisb config trust        # look at .aisb.toml and approve it`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newConfigShowCmd(u), newConfigTrustCmd(u), newConfigUntrustCmd(u), newConfigPathCmd(u), newConfigInitCmd(u))
	return cmd
}

func newConfigShowCmd(u *ui) *cobra.Command {
	var o runOptions
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "show [FLAGS OF RUN]",
		Short: "print what a run here would use, and where each value stands",
		Long: `show prints the settings of a run in the current directory, merged, with the
line of a file, the variable or the flag that each comes from. It takes the
flags of 'aisb run'. Values of variables are not shown.`,
		Example: `  aisb config show
  aisb config show --json | jq -r '.settings[] | select(.key == "allow").value'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := configure(u, cmd.Flags())
			if err != nil {
				return err
			}
			shown := s.shown(cmd.Flags())
			if asJSON {
				return printJSON(u.Out, s.asJSON(shown))
			}
			return printSettings(u.Out, s, shown)
		},
	}
	o.flags(cmd.Flags())
	cmd.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// shown are the values of all keys, those that nobody has set among them.
func (s *settings) shown(f *pflag.FlagSet) []config.Value {
	var all []config.Value
	for i := range config.Keys {
		k := &config.Keys[i]
		values := s.Values(k.Name)
		if len(values) == 0 {
			values = s.unset(k, f.Lookup(k.FlagName()))
		}
		all = append(all, values...)
	}
	return all
}

// unset is the default of a key, if it is worth a line.
func (s *settings) unset(k *config.Key, flag *pflag.Flag) []config.Value {
	if flag == nil {
		return nil
	}
	text := flag.Value.String()
	if _, ok := s.Last(k.Not); k.Name == "home" && !ok {
		text = defaultHome
	}
	if _, list := flag.Value.(pflag.SliceValue); list || text == "" || text == "false" {
		return nil
	}
	return []config.Value{{Key: k, Text: text}}
}

func printSettings(out io.Writer, s *settings, shown []config.Value) error {
	w := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tVALUE\tFROM")
	last := ""
	for _, v := range shown {
		name := v.Key.Name
		if name == last {
			name = ""
		}
		last = v.Key.Name
		fmt.Fprintf(w, "%s\t%s\t%s\n", name, printable(v.Show()), printable(v.Origin.String()))
	}
	for _, v := range s.ignored {
		fmt.Fprintf(w, "%s\t%s\t%s\n", v.Key.Name, printable(v.Show()), printable(v.Origin.String())+" (not approved: doesn't count)")
	}
	return w.Flush()
}

// shownSettings is the JSON of 'config show'.
type shownSettings struct {
	Files    []shownFile  `json:"files"`
	Settings []shownValue `json:"settings"`
	Ignored  []shownValue `json:"ignored"` // of a project's file that isn't approved
}

type shownFile struct {
	Path     string `json:"path"`
	Found    bool   `json:"found"`
	Approved *bool  `json:"approved,omitempty"` // of the project's alone: all of it counts
}

type shownValue struct {
	Key    string `json:"key"`
	Value  string `json:"value"`
	From   string `json:"from"`
	Origin string `json:"origin"`
}

func (s *settings) asJSON(shown []config.Value) shownSettings {
	approved := len(s.ignored) == 0
	out := shownSettings{
		Files: []shownFile{
			{Path: s.userFile, Found: s.realFile != ""},
			{Path: filepath.Join(s.project.Dir, trust.ProjectName), Found: s.project.Data != nil, Approved: &approved},
		},
		Settings: shownValues(shown),
		Ignored:  shownValues(s.ignored),
	}
	if s.project.Data == nil {
		out.Files[1].Approved = nil
	}
	return out
}

func shownValues(values []config.Value) []shownValue {
	list := []shownValue{}
	for _, v := range values {
		list = append(list, shownValue{Key: v.Key.Name, Value: v.Show(), From: v.Origin.From.String(), Origin: v.Origin.String()})
	}
	return list
}

func newConfigPathCmd(u *ui) *cobra.Command {
	var project bool
	cmd := &cobra.Command{
		Use:     "path",
		Short:   "print where your configuration file lies",
		Example: `  $EDITOR "$(aisb config path)"`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := filepath.Abs(trust.ProjectName)
			if !project {
				path, err = configPath(os.Getenv)
			}
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(u.Out, path)
			return err
		},
	}
	cmd.Flags().BoolVar(&project, "project", false, "the project's file instead")
	return cmd
}

func newConfigInitCmd(u *ui) *cobra.Command {
	var project bool
	cmd := &cobra.Command{
		Use:   "init",
		Short: "write a configuration file to begin with",
		Long: `init writes a file in which each line is a comment, and never over one that is
there.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			path, err := filepath.Abs(trust.ProjectName)
			text, mode := config.ProjectSample, fs.FileMode(0o644)
			if !project {
				path, err = configPath(os.Getenv)
				text, mode = config.UserSample, 0o600
			}
			if err == nil && !project {
				err = os.MkdirAll(filepath.Dir(path), 0o700)
			}
			if err != nil {
				return err
			}
			f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
			if errors.Is(err, fs.ErrExist) {
				return &exitError{code: 1, err: fmt.Errorf("%q is there already", path), hint: "'aisb config show' says what is in it"}
			}
			if err == nil {
				_, err = f.WriteString(text)
				err = errors.Join(err, f.Close())
			}
			if err != nil {
				return fmt.Errorf("write a configuration file: %w", err)
			}
			_, err = fmt.Fprintln(u.Out, path)
			return err
		},
	}
	cmd.Flags().BoolVar(&project, "project", false, "the project's .aisb.toml instead")
	return cmd
}
