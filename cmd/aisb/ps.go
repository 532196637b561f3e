package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
)

func newPsCmd(u *ui) *cobra.Command {
	var all, asJSON, quiet, noTrunc bool
	cmd := &cobra.Command{
		Use:        "ps",
		Short:      "list the running sandboxes",
		SuggestFor: []string{"list", "ls", "sessions"},
		Long: `ps lists your running sandboxes: the name that 'aisb exec', 'aisb shell' and
'aisb stop' take, how long the command has been running, how it reaches its
gate, the pid of its aisb, the project and the command.

It asks each sandbox's aisb and not podman. One that doesn't answer, within 10
seconds or because it is stopped, is shown as silent: it is there all the same.
--all shows those too whose aisb was killed, and which are gone with it.
Where another version of aisb has started some, a column AISB tells which one.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if asJSON && quiet {
				return usageError("aisb ps", errors.New("--json and --quiet exclude each other"))
			}
			_, list, err := runs()
			if err != nil {
				return err
			}
			if !all {
				list = living(list)
			}
			switch {
			case asJSON:
				return printRunsJSON(u, list)
			case quiet:
				for _, r := range list {
					if _, err := fmt.Fprintln(u.Out, printable(r.Name)); err != nil {
						return err
					}
				}
				return nil
			}
			if err := printRuns(u, list, noTrunc, time.Now()); err != nil {
				return err
			}
			saySilent(u, list)
			return nil
		},
	}
	f := cmd.Flags()
	f.BoolVarP(&all, "all", "a", false, "also list what is left of killed ones")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	f.BoolVarP(&quiet, "quiet", "q", false, "print names alone")
	f.BoolVar(&noTrunc, "no-trunc", false, "print whole commands")
	return cmd
}

// shownCommand is how many characters of a command the table has room for.
const shownCommand = 40

func printRuns(u *ui, list []control.Info, whole bool, now time.Time) error {
	w := tabwriter.NewWriter(u.Out, 0, 0, 2, ' ', 0)
	ports, head := func(control.Info) string { return "" }, "PID"
	if slices.ContainsFunc(list, func(r control.Info) bool { return len(r.Ports) > 0 }) {
		ports, head = portsText, "PID\tPORTS" // a column for the few who have some
	}
	aisb := func(control.Info) string { return "" }
	if slices.ContainsFunc(list, func(r control.Info) bool { return r.Aisb != "" && r.Aisb != version() }) {
		aisb, head = func(r control.Info) string { return "\t" + printable(cmp.Or(r.Aisb, "-")) }, head+"\tAISB"
	}
	fmt.Fprintf(w, "NAME\tAGE\tNET\t%s\tPROJECT\tCOMMAND\n", head)
	for _, r := range list {
		command := printable(shellCommand(r.Command))
		if cut := []rune(command); len(cut) > shownCommand && !whole {
			command = string(cut[:shownCommand-3]) + "..."
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s%s%s\t%s\t%s\n", printable(r.Name), ageText(r, now), printable(reachText(r)), pidText(r.PID), ports(r), aisb(r),
			printable(homeless(string(r.Project), os.Getenv("HOME"))), command)
	}
	return w.Flush()
}

// saySilent says what to think of those that haven't answered.
func saySilent(u *ui, list []control.Info) {
	for _, r := range list {
		switch {
		case r.State != control.Silent:
		case r.Stopped:
			u.notef("%s is silent: its aisb is stopped, and 'kill -CONT %d' lets it go on", r.Name, r.PID)
		default:
			u.notef("%s is silent: its aisb hasn't answered within %v, so it hangs or this machine is very busy", r.Name, control.Patience)
		}
	}
}

// ageText is how long the command has been running, or why it can't be said.
func ageText(r control.Info, now time.Time) string {
	if r.State != control.Running {
		return string(r.State)
	}
	switch d := now.Sub(r.Started); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", max(0, int(d.Seconds())))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 24*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	default:
		return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
	}
}

// reachText is the network in a word: the backend, where there is a gate.
func reachText(r control.Info) string {
	if r.Net == string(sandbox.NetAllow) {
		return r.Backend
	}
	return r.Net
}

// portsText is the column of published ports, with what parts it from the one
// before.
func portsText(r control.Info) string {
	var list []string
	for _, p := range r.Ports {
		list = append(list, sandbox.Publish{Host: p.Host, Port: p.Sandbox}.String())
	}
	if list == nil {
		return "\t-"
	}
	return "\t" + strings.Join(list, ",")
}

func pidText(pid int) string {
	if pid == 0 {
		return "-"
	}
	return strconv.Itoa(pid)
}

// homeless writes ~ for the user's home.
func homeless(dir, home string) string {
	if rest, ok := strings.CutPrefix(dir, home+"/"); ok && home != "" {
		return "~/" + rest
	}
	return dir
}

// runJSON is a sandbox for jq. Bytes that are no UTF-8 come as U+FFFD.
type runJSON struct {
	Name    string     `json:"name"`
	State   string     `json:"state"`
	Stopped bool       `json:"stopped,omitempty"` // silent, since its aisb was sent SIGSTOP
	PID     int        `json:"pid,omitempty"`
	Started *time.Time `json:"started,omitempty"`
	Project string     `json:"project,omitempty"`
	Command []string   `json:"command,omitempty"`
	Net     string     `json:"net,omitempty"`
	Backend string     `json:"backend,omitempty"`
	Image   string     `json:"image,omitempty"`
	Ports   []portJSON `json:"ports,omitempty"`

	Detached bool   `json:"detached,omitempty"`
	Aisb     string `json:"aisb,omitempty"` // which version has started it
}

// portJSON is a published port.
type portJSON struct {
	Host    uint16 `json:"host"`
	Sandbox uint16 `json:"sandbox"`
}

func printRunsJSON(u *ui, list []control.Info) error {
	out := []runJSON{} // [] and not null
	for _, r := range list {
		j := runJSON{
			Name: r.Name, State: string(r.State), Stopped: r.Stopped, PID: r.PID, Project: string(r.Project), Command: r.Command,
			Net: r.Net, Backend: r.Backend, Image: r.Image, Detached: r.Detached, Aisb: r.Aisb,
		}
		for _, p := range r.Ports {
			j.Ports = append(j.Ports, portJSON(p))
		}
		if !r.Started.IsZero() {
			at := r.Started.UTC().Truncate(time.Millisecond)
			j.Started = &at
		}
		out = append(out, j)
	}
	return printJSON(u.Out, out)
}
