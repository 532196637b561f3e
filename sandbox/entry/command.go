package entry

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// command is what the sandbox is for, or another in it.
type command struct {
	files []*os.File // its standard input, output and error
	env   []string
	path  string
}

// find looks the command up, as its user, so that what can be known to fail is
// told while aisb still listens.
func (e *entry) find() *failure {
	for _, kv := range e.cfg.Env {
		e.command.env = append(e.command.env, string(kv))
	}
	if err := os.Chdir(string(e.cfg.Dir)); err != nil {
		return noDirectory(string(e.cfg.Dir), errors.Unwrap(err))
	}
	found, err := lookPath(e.cfg.Argv[0], e.command.env)
	e.command.path = found
	return noCommand(err)
}

// noDirectory is the failure of a command whose working directory can't be entered.
func noDirectory(dir string, err error) *failure {
	return &failure{handshake.Start, handshake.ExitNoExec,
		fmt.Errorf("working directory %q: %w", dir, err), "choose a directory that exists in the sandbox"}
}

// noCommand is the failure of a command for which lookPath has returned err.
func noCommand(err error) *failure {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return &failure{handshake.Start, handshake.ExitNoCmd, err,
			"the command must exist in the image or in a mounted directory; check its spelling and PATH"}
	case err != nil:
		return &failure{handshake.Start, handshake.ExitNoExec, err, "make it executable, or name its interpreter as the command"}
	}
	return nil
}

// lookPath finds a command as execvp(3) does: a name with a slash is a path,
// another is looked for in PATH of env. The error wraps os.ErrNotExist when
// there is no such file, and another error when there is one that can't run.
func lookPath(name string, env []string) (string, error) {
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", fmt.Errorf("command %q: %w", name, err)
		}
		return name, nil
	}
	search := ""
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			search = v
		}
	}
	result := error(unix.ENOENT)
	for dir := range strings.SplitSeq(search, ":") {
		if !path.IsAbs(dir) {
			// An empty or relative entry would mean the project, where the
			// agent writes.
			continue
		}
		file := path.Join(dir, name)
		err := executable(file)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, os.ErrNotExist) {
			result = err
		}
	}
	return "", fmt.Errorf("command %q: %w", name, result)
}

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		if errors.Is(err, unix.ENOTDIR) {
			return unix.ENOENT
		}
		return errors.Unwrap(err)
	}
	if info.IsDir() {
		return errors.New("is a directory")
	}
	return unix.Faccessat(unix.AT_FDCWD, file, unix.X_OK, unix.AT_EACCESS)
}

// start tells aisb, shuts the sending side for good, and starts the command. An
// error of exec after that is the command's own (a broken interpreter, say).
func (e *entry) start() *failure {
	if err := leaveToKernel(faults); err != nil {
		return &failure{handshake.Start, handshake.ExitProof, err, notToTrust}
	}
	if f := e.tell(handshake.Stage{Stage: handshake.Start}); f != nil {
		return f
	}
	e.shut = true
	if err := e.conn.CloseWrite(); err != nil {
		return &failure{handshake.Start, killed, err, ""}
	}
	err := e.signals.fork(!e.cfg.TTY, func() (int, error) {
		return e.oom.lend(func() (int, error) { return e.command.fork("", e.cfg.Argv, e.cfg.TTY, nil) })
	})
	if err != nil {
		fmt.Fprintf(e.command.files[2], "%s: error: run %q: %v\n", Name, e.command.path, err)
		return &failure{handshake.Start, handshake.ExitNoExec, err, ""}
	}
	e.keep = sync.OnceFunc(keepThreads)
	time.AfterFunc(threadsAfter, e.keep)
	closeAll(e.command.files)
	return nil
}

// fork starts the command in dir, "" for that of pid 1, in a session of its own,
// whose controlling process it is with a terminal. It gets its three descriptors
// and no other: all of pid 1's are closed on exec. handle gets its pidfd unless it is nil.
func (c *command) fork(dir string, argv []string, tty bool, handle *int) (pid int, err error) {
	files := make([]uintptr, 0, 3)
	for _, f := range c.files {
		files = append(files, f.Fd())
	}
	return syscall.ForkExec(c.path, argv, &syscall.ProcAttr{
		Dir: dir, Env: c.env, Files: files,
		Sys: &syscall.SysProcAttr{Setsid: true, Setctty: tty, Ctty: 0, PidFD: handle},
	})
}
