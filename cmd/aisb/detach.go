package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/aisb-dev/aisb/gate/fdmsg"
)

// detachOptions are the flags of a run that goes on without its caller.
type detachOptions struct {
	on       bool
	terminal bool // even where the caller has none
}

func (o *detachOptions) flags(f *pflag.FlagSet) {
	f.BoolVarP(&o.on, "detach", "d", false, "print the name, go on alone: see 'aisb attach'")
	f.BoolVarP(&o.terminal, "tty", "t", false, "with --detach: a terminal, even without one here")
}

func (o detachOptions) check(tty ttyOptions) error {
	switch {
	case o.terminal && !o.on:
		return usageError("aisb run", errors.New("--tty is for --detach: without it the command has a terminal when stdin and stdout are one"))
	case o.on && tty.raw:
		return usageError("aisb run", errors.New("--tty-raw is for who looks: give it to 'aisb attach'"))
	}
	return nil
}

// begin is what the caller tells the supervisor: how its terminal is.
type begin struct {
	TTY        bool
	Rows, Cols uint16
}

// begun is the answer, once the command is about to run.
type begun struct{ Name string }

// sendAway starts the supervisor, and returns when the command is about to run or
// the start has failed. Until then the supervisor speaks on this stderr, and ends
// when this process does.
func (o detachOptions) sendAway(u *ui) error {
	conn, theirs, err := fdmsg.Pair()
	if err != nil {
		return &exitError{code: exitPodman, err: err}
	}
	defer conn.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = append([]string{supervisorName}, os.Args[1:]...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr // an --env-file may be /dev/stdin
	cmd.ExtraFiles = []*os.File{theirs}
	// No signal of this terminal's reaches it, its hang-up least of all.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	signals := make(chan os.Signal, 4)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	if err := cmd.Start(); err != nil {
		return &exitError{code: exitPodman, err: fmt.Errorf("start the supervisor: %w", err)}
	}
	theirs.Close()
	go func() {
		for sig := range signals {
			_ = cmd.Process.Signal(sig) // an error means that it has ended
		}
	}()
	b := begin{TTY: o.terminal}
	if rows, cols, tty := terminalSize(); tty || o.terminal {
		b = begin{true, rows, cols}
	}
	if b.TTY && b.Rows == 0 {
		b.Rows, b.Cols = windowSize()
	}
	var done begun
	_ = conn.Send(b) // an error shows in what follows
	m, err := conn.Recv(&done)
	m.Close()
	if err != nil {
		return notBegun(cmd.Wait())
	}
	sayDetached(u, done.Name)
	_, err = fmt.Fprintln(u.Out, done.Name)
	return err
}

// notBegun is the error of a supervisor that has ended before the command ran.
func notBegun(err error) error {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ok && exit.Exited() {
		return &exitError{code: exit.ExitCode()} // it has said why
	}
	if ok {
		if ws, isWait := exit.Sys().(syscall.WaitStatus); isWait && ws.Signaled() {
			return &exitError{code: 128 + int(ws.Signal()), err: fmt.Errorf("the supervisor was ended before the command ran: %v", ws.Signal())}
		}
	}
	return &exitError{code: exitPodman, err: errors.New("the supervisor has ended before the command ran"), hint: "please report that"}
}

// sayDetached tells a user at a terminal how to go on. Scripts know.
func sayDetached(u *ui, name string) {
	if f, ok := u.Err.(*os.File); ok && isTerminal(f) {
		u.notef("it goes on alone: aisb attach, output, wait or stop %s", name)
	}
	if endsAtLogout("/", os.Getuid()) {
		u.warnf("%s ends with your login, as logind is set up (KillUserProcesses=yes); to let one go on: "+
			"loginctl enable-linger, and systemd-run --user --scope aisb run --detach ...", name)
	}
}

// endsAtLogout reports whether logind kills what a user's login leaves, this process
// with it (logind.conf(5)). It spares what the user's service manager has started. As
// long as it kills nobody, what goes on keeps the session, and that the run-time
// directory, with linger or without.
func endsAtLogout(root string, uid int) bool {
	if _, err := os.Stat(filepath.Join(root, "run/systemd/users", strconv.Itoa(uid))); err != nil {
		return false // logind has nothing to do with this user
	}
	if group, err := os.ReadFile(filepath.Join(root, "proc/self/cgroup")); err == nil && strings.Contains(string(group), "/user@") {
		return false
	}
	var parts []string
	for _, dir := range []string{"usr/lib", "run", "etc"} {
		found, _ := filepath.Glob(filepath.Join(root, dir, "systemd/logind.conf.d/*.conf")) // the only error is one of the pattern
		parts = append(parts, found...)
	}
	slices.SortStableFunc(parts, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	kills := false // as Debian, Ubuntu and Fedora build it
	for _, file := range append([]string{filepath.Join(root, "etc/systemd/logind.conf")}, parts...) {
		text, _ := os.ReadFile(file) // what can't be read says nothing
		for line := range strings.Lines(string(text)) {
			if name, value, ok := strings.Cut(line, "="); ok && strings.TrimSpace(name) == "KillUserProcesses" {
				kills = slices.Contains([]string{"1", "yes", "y", "true", "t", "on"}, strings.ToLower(strings.TrimSpace(value)))
			}
		}
	}
	return kills
}
