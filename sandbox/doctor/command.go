package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// command is a program to ask. Without a path there is none.
type command struct {
	path string
	argv []string // instead of path and args
	args []string
	env  []string
	dir  string
	attr *syscall.SysProcAttr
	// terminal makes its standard output a terminal: pasta of 2025 ends without
	// writing out what it printed into a pipe.
	terminal bool
}

// lastOutput is how long what a program has written may take to be read, when it has
// ended and something still holds its output open. On a busy machine less has cost the
// output of programs that had left nothing behind.
const lastOutput = time.Second

// mostOutput is more than podman info ever says.
const mostOutput = 4 << 20

// run runs a command to its end, or to that of its time with all that it has
// started.
func run(ctx context.Context, limit time.Duration, c command) Output {
	o := Output{Path: c.path}
	if c.path == "" {
		return o
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, c.args...)
	if c.argv != nil {
		cmd.Args = c.argv
	}
	cmd.Env, cmd.Dir = c.env, c.dir
	if cmd.SysProcAttr = c.attr; c.attr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// In a group of its own: its children are ended with it.
	cmd.SysProcAttr.Setpgid = true
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = lastOutput // some may have left the group
	out, errs := &capped{}, &capped{}
	cmd.Stdout, cmd.Stderr = out, errs
	screen := noScreen
	if c.terminal {
		var err error
		if screen, err = onTerminal(cmd, out); err != nil {
			cmd.Stdout = out // better than nothing
		}
	}
	err := cmd.Start()
	if err == nil {
		o.Ran = true
		err = cmd.Wait()
	}
	screen()
	o.Text, o.Errors = out.kept.String(), errs.kept.String()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		o.TimedOut = limit
	case errors.As(err, &exit) && exit.Exited():
		o.Status = exit.ExitCode()
	case err != nil:
		o.Err = err.Error()
	}
	return o
}

// capped keeps the beginning of what is written to it.
type capped struct{ kept bytes.Buffer }

func (c *capped) Write(p []byte) (int, error) {
	if room := mostOutput - c.kept.Len(); room > 0 {
		c.kept.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func noScreen() {}

// onTerminal gives cmd a terminal to write to, and out what it writes. The
// function that is returned waits for the last of it.
func onTerminal(cmd *exec.Cmd, out io.Writer) (func(), error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return noScreen, fmt.Errorf("open terminal: %w", err)
	}
	master := os.NewFile(uintptr(fd), "ptmx")
	slave, errno := uintptr(0), syscall.Errno(0)
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
		slave, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	}
	if slave == 0 || errno != 0 {
		master.Close()
		return noScreen, fmt.Errorf("open terminal's other end: %w", errno)
	}
	tty := os.NewFile(slave, "tty")
	cmd.Stdout = tty
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(out, master) // EIO is a terminal's end of file (tty(4))
	}()
	return func() {
		tty.Close()
		// A child that lives on holds the terminal open.
		_ = master.SetReadDeadline(time.Now().Add(lastOutput))
		<-read
		master.Close()
	}, nil
}
