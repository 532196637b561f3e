package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox/config"
	"github.com/aisb-dev/aisb/sandbox/trust"
)

func newConfigTrustCmd(u *ui) *cobra.Command {
	var yes, show bool
	cmd := &cobra.Command{
		Use:   "trust",
		Short: "look at the project's .aisb.toml and approve its content",
		Long: `trust says what .aisb.toml of the current directory would open, and asks. What
you approve is the content as it was read: when it changes, and an agent can
change it, it counts no more until you approve it again, and trust shows what is
new. The approval is kept where no sandbox can write.`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			switch {
			case yes && show:
				return usageError("aisb config trust", errors.New("--yes and --show exclude each other"))
			case show:
				return showTrust(u)
			}
			return approve(u, yes, os.Stdin)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "approve without a question")
	cmd.Flags().BoolVar(&show, "show", false, "only say what the file would open")
	return cmd
}

func newConfigUntrustCmd(u *ui) *cobra.Command {
	return &cobra.Command{
		Use:   "untrust",
		Short: "take the approval of the project's .aisb.toml back",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			project, err := trust.ReadProject(".")
			var problem *trust.Problem
			if err != nil && !errors.As(err, &problem) {
				return err
			}
			store, err := trustStore(os.Getenv, os.Getuid())
			if err != nil {
				return err
			}
			had, err := store.Forget(project.Dir)
			if err != nil {
				return err
			}
			if !had {
				u.notef("nothing of %q was approved", project.Dir)
				return nil
			}
			u.notef("of %s in %q only deny counts now", trust.ProjectName, project.Dir)
			return nil
		},
	}
}

// judged is a project's file before its approval.
type judged struct {
	settings
	store  trust.Store
	values []config.Value
	says   []string
}

func judgeProject() (*judged, error) {
	j := &judged{}
	var err error
	if j.values, err = j.parseProject(os.Getenv); err != nil {
		return nil, err
	}
	if j.project.Data == nil {
		return nil, &exitError{code: 1, err: fmt.Errorf("there is no %s in %q", trust.ProjectName, j.project.Dir),
			hint: "it is looked for in the directory that a run would mount, the current one, alone"}
	}
	if j.store, err = trustStore(os.Getenv, os.Getuid()); err != nil {
		return nil, err
	}
	if j.approval, err = j.store.Find(j.project.Dir); err != nil {
		return nil, fileError(err)
	}
	j.says = config.Says(j.values)
	return j, nil
}

// tell writes what the file does, and what has changed since an approval.
func (j *judged) tell(line func(string)) {
	name := fmt.Sprintf("%s of %q", trust.ProjectName, j.project.Dir)
	switch changes := config.Changes(j.approval.Says, j.says); {
	case len(j.says) == 0:
		line(name + " says nothing")
	case j.approval.Covers(j.project.Data):
		line(name + " is approved. It")
	case j.approval.SHA256 == "":
		line(name + " is not approved. It")
	case len(changes) == 0:
		line(name + " has changed since you approved it, in values, order or comments alone. It")
	default:
		line(name + " has changed since you approved it:")
		for _, c := range changes {
			line("  " + c)
		}
		line("In all it")
	}
	for _, s := range j.says {
		line("  " + s)
	}
}

// showTrust prints what the file would open. The status tells whether it counts.
func showTrust(u *ui) error {
	j, err := judgeProject()
	if err != nil {
		return err
	}
	j.tell(func(text string) { fmt.Fprintln(u.Out, printable(text)) })
	if !j.approval.Covers(j.project.Data) && len(j.says) > 0 {
		return &exitError{code: 1}
	}
	return nil
}

// approve asks on a terminal, and notes the approval of what was read.
func approve(u *ui, yes bool, in *os.File) error {
	j, err := judgeProject()
	if err != nil {
		return err
	}
	j.tell(func(text string) { u.notef("%s", text) })
	if j.approval.Covers(j.project.Data) || len(j.says) == 0 {
		return nil
	}
	if !yes {
		yes, err := u.ask(in, "approve it", "look at what it says, then: aisb config trust --yes")
		if err != nil {
			return err
		}
		if !yes {
			return &exitError{code: 1, err: errors.New("not approved"), hint: "of the file only deny counts"}
		}
	}
	if err := j.store.Approve(j.project.Dir, j.project.Data, j.says, time.Now()); err != nil {
		return err
	}
	u.notef("approved, until the file changes; to take it back: aisb config untrust")
	return nil
}
