package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/home"
)

func newHomeCmd(u *ui) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "home",
		Aliases: []string{"homes"},
		Short:   "list, look into and remove the kept homes of agents",
		Long: `home manages the volumes that 'aisb run' keeps as /home/agent: aisb-home, and
those of --home and AISB_HOME_VOLUME. Only volumes that aisb has made are listed
or removed; what else podman has is not touched.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newHomeLsCmd(u), newHomeInspectCmd(u), newHomeRmCmd(u))
	return cmd
}

// homes are the kept homes of the user.
type homes struct {
	host    sandbox.Host
	records home.Records
}

func openHomes(command string) (*homes, error) {
	if err := checkUser(command, os.Getuid()); err != nil {
		return nil, err
	}
	host, err := openHost(maybeProject(os.Getwd, os.Getenv("HOME")))
	if err != nil {
		return nil, err
	}
	return &homes{host: host, records: homesIn(host.Paths.State)}, nil
}

// homeInfo is a home for people and for jq.
type homeInfo struct {
	Name     string     `json:"name"`
	Size     int64      `json:"size"`
	Files    int        `json:"files"`
	Partial  bool       `json:"partial,omitempty"` // not all of it could be looked at
	Created  time.Time  `json:"created"`
	LastUsed *time.Time `json:"last_used,omitempty"`
	UsedBy   []string   `json:"used_by"`

	dir string
}

// list asks podman for the homes.
func (h *homes) list(ctx context.Context) ([]homeInfo, error) {
	out, err := podmanOutput(ctx, h.host.Podman, home.ListArgs())
	if err != nil {
		return nil, err
	}
	volumes, err := home.ParseVolumes(out)
	if err != nil {
		return nil, &exitError{code: exitPodman, err: err}
	}
	used, err := h.host.Paths.HomesInUse(ctx)
	if err != nil {
		return nil, err
	}
	list := []homeInfo{} // [] and not null
	for _, v := range volumes {
		if v.Home {
			list = append(list, h.info(v, used))
		}
	}
	return list, nil
}

func (h *homes) info(v home.Volume, used map[string][]string) homeInfo {
	i := homeInfo{Name: v.Name, Created: v.Created.Truncate(time.Second), UsedBy: append([]string{}, used[v.Name]...), dir: v.Mountpoint}
	size, err := home.Measure(v.Mountpoint)
	i.Size, i.Files, i.Partial = size.Bytes, size.Files, size.Partial || err != nil
	if at := h.records.LastUse(v.Name); !at.IsZero() {
		at = at.UTC().Truncate(time.Second)
		i.LastUsed = &at
	}
	return i
}

// find is the home of a name. A volume that aisb hasn't made is none.
func (h *homes) find(ctx context.Context, name string) (homeInfo, error) {
	if err := home.CheckName(name); err != nil {
		return homeInfo{}, &exitError{code: exitUsage, err: err, hint: "see 'aisb home ls'"}
	}
	list, err := h.list(ctx)
	if err != nil {
		return homeInfo{}, err
	}
	if i := slices.IndexFunc(list, func(i homeInfo) bool { return i.Name == name }); i >= 0 {
		return list[i], nil
	}
	hint := "see 'aisb home ls'"
	if _, err := volume(ctx, h.host.Podman, name); err == nil {
		hint = "podman has a volume of that name which aisb has not made: podman volume inspect " + name
	}
	return homeInfo{}, &exitError{code: 1, err: fmt.Errorf("there is no home %q", name), hint: hint}
}

// defaultHomeName is the home of runs that name none.
func defaultHomeName() string {
	if v := os.Getenv("AISB_HOME_VOLUME"); v != "" {
		return v
	}
	return defaultHome
}

// credentialPlaces are where tools and harnesses keep what lets them in.
func credentialPlaces() ([]home.Place, error) {
	places := slices.Clone(home.Credentials)
	for _, name := range image.HarnessNames() {
		h, err := image.FindHarness(name)
		if err != nil {
			return nil, err
		}
		for _, path := range h.Credentials {
			places = append(places, home.Place{Pattern: path, Kind: home.Credential})
		}
	}
	return places, nil
}

func newHomeRmCmd(u *ui) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:        "rm NAME...",
		Aliases:    []string{"remove"},
		SuggestFor: []string{"delete", "prune"},
		Short:      "remove homes, and the logins in them",
		Long: `rm removes homes with all that is in them, such as logins and histories, and
prints their names. A home that a running sandbox uses is not removed. It asks
before; without a terminal say --yes.`,
		Example: `  aisb home rm old-project
  aisb home rm --yes aisb-home`,
		Args: takes(1, anyNumber),
		RunE: func(cmd *cobra.Command, names []string) error {
			for _, name := range names {
				if err := home.CheckName(name); err != nil {
					return &exitError{code: exitUsage, err: err, hint: "see 'aisb home ls'"}
				}
			}
			h, err := openHomes(cmd.CommandPath())
			if err != nil {
				return err
			}
			var list []homeInfo
			for _, name := range names {
				i, err := h.find(cmd.Context(), name)
				if err != nil {
					return err
				}
				if len(i.UsedBy) > 0 {
					return inUse(name, i.UsedBy)
				}
				list = append(list, i)
			}
			if err := confirm(u, yes, "remove "+removalText(list)); err != nil {
				return err
			}
			return h.remove(cmd.Context(), u, list)
		},
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask")
	return cmd
}

// removalText says what is about to be lost.
func removalText(list []homeInfo) string {
	var parts []string
	for _, i := range list {
		parts = append(parts, fmt.Sprintf("%s (%s, %s)", i.Name, size(i.Size), plural(i.Files, "file", "files")))
	}
	what := "the home "
	if len(list) > 1 {
		what = "the homes "
	}
	return what + strings.Join(parts, ", ") + ", with the logins in it"
}

func inUse(name string, runs []string) error {
	by, end := "a running sandbox", "NAME"
	if len(runs) > 0 {
		by, end = strings.Join(runs, ", "), strings.Join(runs, " ")
	}
	return &exitError{code: 1, err: fmt.Errorf("the home %q is in use by %s", name, by), hint: "end it first: aisb stop " + end}
}

// remove removes homes that nobody uses, and prints them.
func (h *homes) remove(ctx context.Context, u *ui, list []homeInfo) error {
	for _, i := range list {
		if err := h.removeOne(ctx, i.Name); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(u.Out, i.Name); err != nil {
			return err
		}
	}
	return nil
}

// removeOne holds the home meanwhile: a run that starts waits, and makes a new one.
func (h *homes) removeOne(ctx context.Context, name string) error {
	held, err := h.records.Take(name)
	if errors.Is(err, home.ErrInUse) {
		used, _ := h.host.Paths.HomesInUse(ctx) // it may be one of another login: then it has no name here
		return inUse(name, used[name])
	}
	if err != nil {
		return err
	}
	defer held.Close()
	if _, err := podmanOutput(ctx, h.host.Podman, home.RemoveArgs(name)); err != nil {
		return &exitError{code: exitPodman, err: fmt.Errorf("remove the home %q: %w", name, err), hint: hintOf(err)}
	}
	return held.Forget()
}
