package main

import (
	"os"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
)

func newAttachCmd(u *ui) *cobra.Command {
	var tty ttyOptions
	cmd := &cobra.Command{
		Use:   "attach [NAME]",
		Short: "join the terminal of a detached sandbox",
		Long: `attach joins this terminal with that of the command in the sandbox NAME, which
'aisb run --detach' has started, or in the only one there is. Without a
terminal of the command's it shows the output as it comes; ^C ends only that.

There are no keys that detach: all of them belong to the command. Close the
terminal, or attach elsewhere: one is attached at a time, the last one. The
sandbox goes on. Status: the command's when it has ended, 0 when it goes on.`,
		Example: `  aisb run --detach --name web -e ANTHROPIC_API_KEY
  aisb attach web`,
		Args: takes(0, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			return attach(u, strings.Join(args, ""), tty)
		},
	}
	tty.flag(cmd.Flags())
	return cmd
}

func attach(u *ui, name string, tty ttyOptions) error {
	runtime, list, err := runs()
	if err != nil {
		return err
	}
	if ours := detachedOnes(list); name == "" && len(ours) > 0 {
		list = ours // the others can't be meant
	}
	run, err := pick(list, name)
	if err != nil {
		return err
	}
	held := heldSignals()
	a := control.Attach{}
	if isTerminal(os.Stdin) || isTerminal(os.Stdout) {
		a.Rows, a.Cols = windowSize()
	}
	x, err := attachTo(runtime, run.Name, a)
	if err != nil {
		return controlError(err)
	}
	stdin := os.Stdin
	if x.PTY == nil || !isTerminal(stdin) {
		stdin = nil
	}
	relay, err := startRelay(attached{x}, u, held, stdin, tty)
	if err != nil {
		x.Leave()
		return &exitError{code: exitPodman, err: err}
	}
	relay.flush()
	end, err := x.Wait()
	relay.stop()
	select {
	case <-x.Left():
		u.notef("%s goes on", run.Name)
		return nil
	default:
	}
	return endError(u, run.Name, end, err)
}

func attachTo(runtime, name string, a control.Attach) (*control.Attached, error) {
	c, err := control.Dial(runtime, name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Attach(a)
}

// attached is a detached command as a relay sees it.
type attached struct{ *control.Attached }

// Stdio are the client's streams.
func (a attached) Stdio() sandbox.Stdio {
	return sandbox.Stdio{PTY: a.PTY, Stdout: a.Stdout, Stderr: a.Stderr}
}

// Signal passes on what means something to the command alone. What would end a
// program ends this client.
func (a attached) Signal(sig syscall.Signal) error {
	switch sig {
	case syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT:
		a.Leave()
		return nil
	}
	return a.Attached.Signal(sig)
}

// Kill ends this client, not the command.
func (a attached) Kill() { a.Leave() }

// Killed is closed once this client was ended.
func (a attached) Killed() <-chan struct{} { return a.Left() }
