package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// execOptions are the flags of exec and shell.
type execOptions struct {
	env, envFile     []string
	dir              string
	interactive, tty bool
	set              func(flag string) bool // it was given
	raw              ttyOptions

	name string
	argv []string
}

func (o *execOptions) flags(f *pflag.FlagSet) {
	f.SetInterspersed(false) // the command's flags are its own
	f.SortFlags = false
	f.StringArrayVarP(&o.env, "env", "e", nil, "pass `NAME` from the host, or NAME=VALUE")
	f.StringArrayVar(&o.envFile, "env-file", nil, "pass the variables in `FILE`")
	f.StringVarP(&o.dir, "workdir", "w", "", "start in `DIR`, in the project if relative")
	o.raw.flag(f)
	o.set = f.Changed
}

func newExecCmd(u *ui) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "exec [flags] [NAME] [--] COMMAND [ARG...]",
		Short: "run another command in a running sandbox",
		Long: `exec runs COMMAND in the sandbox NAME, or in the only one that is running when
NAME is left out: then put -- before COMMAND. A NAME may be cut short where it
is clear what is meant, and its "aisb-" left out.

The sandbox's first process starts it, so that it has what the harness has and
nothing more: uid 1000, no capability, the same system call filter, the same
fence. Of the environment it gets all but the variables that 'aisb run' was
given with -e or --env-file: name again what it needs. It ends when this aisb
or the sandbox does.

It gets a terminal when stdin and stdout are one. The exit status is COMMAND's;
125: it was not tried, 126: it can't be run, 127: there is none, 137: the
sandbox has ended.`,
		Example: `  aisb exec my-project -- git status
  aisb exec -- ps aux
  tar c . | aisb exec my-project -w /tmp -- tar x`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if help, err := o.split(cmd, args); help || err != nil {
				return errors.Join(err, showHelp(cmd, help))
			}
			return o.run(u, [][]string{o.argv})
		},
	}
	f := cmd.Flags()
	o.flags(f)
	f.BoolVarP(&o.interactive, "interactive", "i", true, "pass stdin on; --interactive=false leaves it alone")
	f.Lookup("interactive").DefValue = "false" // said by the text
	f.BoolVarP(&o.tty, "tty", "t", false, "give it a terminal, even without one here;\n--tty=false gives none")
	return cmd
}

func newShellCmd(u *ui) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "shell [flags] [NAME]",
		Short: "open a shell in a running sandbox",
		Long: `shell runs bash, or sh where there is none, in the sandbox NAME, or in the only
one that is running. It has what the harness has and nothing more, and none of
the secrets that the harness was given: see 'aisb exec --help'.`,
		Example: `  aisb shell
  aisb shell my-project -e GITHUB_TOKEN`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if help, err := o.takeName(cmd, args); help || err != nil {
				return errors.Join(err, showHelp(cmd, help))
			}
			if len(o.argv) > 0 {
				return &exitError{code: exitUsage, err: fmt.Errorf("shell takes a NAME and no command: %q", o.argv[0]),
					hint: "to run a command: aisb exec " + shellCommand(append([]string{o.name, "--"}, o.argv...))}
			}
			o.interactive = true
			return o.run(u, [][]string{{"bash"}, {"sh"}})
		},
	}
	o.flags(cmd.Flags())
	return cmd
}

// showHelp is for a --help after NAME.
func showHelp(cmd *cobra.Command, wanted bool) error {
	if !wanted {
		return nil
	}
	return cmd.Help()
}

// split tells NAME and COMMAND apart. Flags may follow NAME as they may stand
// before it: no command begins with a dash.
func (o *execOptions) split(cmd *cobra.Command, args []string) (help bool, err error) {
	if cmd.Flags().ArgsLenAtDash() == 0 {
		o.argv = args // no name at all
	} else if help, err = o.takeName(cmd, args); help || err != nil {
		return help, err
	}
	if len(o.argv) > 0 && o.argv[0] != "" {
		return false, nil
	}
	e := &exitError{code: exitUsage, err: errors.New("there is no command to run"), hint: "see 'aisb exec --help'"}
	if o.name != "" {
		e.hint = fmt.Sprintf("for a shell: aisb shell %s\nif %[1]s is the command, and one sandbox is running: aisb exec -- %[1]s", o.name)
	}
	return false, e
}

// takeName takes the name off args, and flags and dashes after it.
func (o *execOptions) takeName(cmd *cobra.Command, args []string) (help bool, err error) {
	if len(args) == 0 {
		return false, nil
	}
	o.name, o.argv = args[0], args[1:]
	if o.name == "" {
		return false, &exitError{code: exitUsage, err: errors.New("the NAME is empty"), hint: "see 'aisb ps'"}
	}
	if len(o.argv) == 0 || !strings.HasPrefix(o.argv[0], "-") {
		return false, nil
	}
	f := cmd.Flags()
	if err := f.Parse(o.argv); err != nil {
		return false, flagError(cmd, err)
	}
	o.argv = f.Args()
	return f.GetBool("help") // cobra's own
}

// terminal decides about the command's terminal and input.
func (o *execOptions) terminal() (tty bool, stdin *os.File, err error) {
	in := isTerminal(os.Stdin)
	tty = in && isTerminal(os.Stdout)
	if o.set("tty") {
		tty = o.tty
	}
	switch {
	case !o.interactive:
		return tty, nil, nil
	case tty && !in && o.set("interactive"):
		// The end of a file can't be passed on through a terminal.
		return false, nil, &exitError{code: exitUsage, err: errors.New("-it needs a terminal: stdin is none"), hint: "leave -t out to pass stdin on, or -i to leave it alone"}
	case tty && !in:
		return tty, nil, nil
	}
	return tty, os.Stdin, nil
}

// run runs the first of the commands that exists.
func (o *execOptions) run(u *ui, commands [][]string) error {
	tty, stdin, err := o.terminal()
	if err != nil {
		return err
	}
	runtime, list, listErr := runs()
	named, _, err := namedEnv(o.envFile, o.env, writableBy(list))
	if err != nil {
		return err
	}
	x := handshake.Exec{Dir: handshake.Bytes(o.dir), TTY: tty}
	if x.Env, _, err = environ.Merge(environ.Terminal(os.LookupEnv), named); err != nil {
		return envError(err)
	}
	if tty {
		x.Rows, x.Cols = windowSize()
	}
	if listErr != nil {
		return listErr
	}
	run, err := pick(list, o.name)
	if e, ok := errors.AsType[*exitError](err); ok && o.name != "" && len(living(list)) == 1 && len(control.Match(list, o.name)) == 0 {
		e.hint += fmt.Sprintf("\nif %s is the command, put -- before it: aisb exec -- %[1]s", o.name)
	}
	if err != nil {
		return err
	}
	held := heldSignals()
	for i, argv := range commands {
		x.Argv = argv
		var c *control.Execution
		if c, err = start(runtime, run.Name, x); err == nil {
			return relayExec(u, c, held, stdin, o.raw)
		}
		if e, ok := errors.AsType[*control.Error](err); !ok || e.Status != handshake.ExitNoCmd || i == len(commands)-1 {
			break
		}
	}
	return controlError(err)
}

func start(runtime, name string, x handshake.Exec) (*control.Execution, error) {
	c, err := control.Dial(runtime, name)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Exec(x)
}

// execution is one as a relay sees it.
type execution struct{ *control.Execution }

// Stdio are the command's descriptors.
func (e execution) Stdio() sandbox.Stdio {
	return sandbox.Stdio{PTY: e.PTY, Stdin: e.Stdin, Stdout: e.Stdout, Stderr: e.Stderr}
}

// relayExec relays until the command ends.
func relayExec(u *ui, c *control.Execution, held chan os.Signal, stdin *os.File, tty ttyOptions) error {
	relay, err := startRelay(execution{c}, u, held, stdin, tty)
	if err != nil {
		c.Kill()
		_, _ = c.Wait()
		return &exitError{code: exitPodman, err: err}
	}
	relay.flush()
	status, err := c.Wait()
	relay.stop()
	switch {
	case err != nil:
		return &exitError{code: 128 + 9, err: err}
	case status != 0:
		return &exitError{code: status}
	}
	return nil
}

// windowSize is the size of the terminal of stdin or stdout.
func windowSize() (rows, cols uint16) {
	for _, f := range []*os.File{os.Stdin, os.Stdout} {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return uint16(h), uint16(w)
		}
	}
	return 24, 80
}
