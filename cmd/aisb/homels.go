package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox/home"
)

func newHomeLsCmd(u *ui) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:        "ls",
		Aliases:    []string{"list"},
		SuggestFor: []string{"ps", "show"},
		Short:      "list the kept homes",
		Args:       cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h, err := openHomes(cmd.CommandPath())
			if err != nil {
				return err
			}
			list, err := h.list(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(u.Out, list)
			}
			w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSIZE\tFILES\tLAST USED\tUSED BY")
			for _, i := range list {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\n", i.Name, i.sizeText(), i.Files, i.lastText(), usedByText(i.UsedBy))
			}
			return w.Flush()
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func (i homeInfo) sizeText() string {
	if i.Partial {
		return size(i.Size) + "+"
	}
	return size(i.Size)
}

func (i homeInfo) lastText() string {
	if i.LastUsed == nil {
		return "-"
	}
	return i.LastUsed.Local().Format(time.DateTime)
}

func usedByText(runs []string) string {
	if len(runs) == 0 {
		return "-"
	}
	return printable(strings.Join(runs, ", "))
}

// homeFile is a file of a home that matters. Its content is nobody's business.
type homeFile struct {
	Path     string      `json:"path"`
	Kinds    []home.Kind `json:"kinds"`
	Mode     string      `json:"mode"`
	Size     int64       `json:"size"`
	Modified *time.Time  `json:"modified,omitempty"`
	More     bool        `json:"more,omitempty"` // a directory of which not all was looked at
}

func newHomeInspectCmd(u *ui) *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect [NAME]",
		Short: "name the logins and start-up files in a home",
		Long: `inspect names the files in a home that matter to who uses it again: those in
which tools and harnesses keep logins, and those that shells, git, ssh and other
programs run or obey when they start. It prints names, sizes and times, never
what is in them. Without NAME it looks into the home of runs that name none.`,
		Args: takes(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := strings.Join(args, "")
			if len(args) == 0 {
				name = defaultHomeName()
			}
			if err := home.CheckName(name); err != nil {
				return &exitError{code: exitUsage, err: err, hint: "see 'aisb home ls'"}
			}
			h, err := openHomes(cmd.CommandPath())
			if err != nil {
				return err
			}
			i, err := h.find(cmd.Context(), name)
			if err != nil {
				return err
			}
			files, err := homeFiles(i.dir)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(u.Out, struct {
					homeInfo
					Where   string     `json:"where"`
					Entries []homeFile `json:"entries"`
				}{i, i.dir, files})
			}
			return printHome(u, i, files)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

func homeFiles(dir string) ([]homeFile, error) {
	places, err := credentialPlaces()
	if err != nil {
		return nil, err
	}
	entries, err := home.Look(dir, append(places, home.StartUp...))
	if err != nil {
		return nil, &exitError{code: 1, err: err}
	}
	files := []homeFile{} // [] and not null
	for _, e := range entries {
		f := homeFile{Path: e.Path, Kinds: e.Kinds, Mode: e.Mode.String(), Size: e.Size, More: e.More}
		if !e.Modified.IsZero() {
			at := e.Modified.UTC().Truncate(time.Second)
			f.Modified = &at
		}
		files = append(files, f)
	}
	return files, nil
}

func printHome(u *ui, i homeInfo, files []homeFile) error {
	w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "home\t%s\nwhere\t%s\nsize\t%s, %s\nlast used\t%s\nused by\t%s\n\n",
		i.Name, printable(i.dir), i.sizeText(), plural(i.Files, "file", "files"), i.lastText(), usedByText(i.UsedBy))
	if err := w.Flush(); err != nil {
		return err
	}
	if len(files) == 0 {
		_, err := fmt.Fprintln(u.Out, "no login and no start-up file that aisb knows of")
		return err
	}
	fmt.Fprintln(w, "WHAT\tMODE\tSIZE\tCHANGED\tFILE")
	for _, f := range files {
		var kinds []string
		for _, k := range f.Kinds {
			kinds = append(kinds, string(k))
		}
		changed, name := "-", f.Path
		if f.Modified != nil {
			changed = f.Modified.Local().Format(time.DateTime)
		}
		if f.More {
			name += " (not all of it could be looked at)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", strings.Join(kinds, ","), f.Mode, size(f.Size), changed, printable(name))
	}
	return w.Flush()
}
