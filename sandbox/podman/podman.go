package podman

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"syscall"
)

// StatusPodman is the status of podman run that failed before the container ran
// (libpod/define/exec_codes.go).
const StatusPodman = 125

// ErrNotInstalled reports that there is no podman in PATH.
var ErrNotInstalled = errors.New("podman is not installed")

// ErrNoImage reports that the image to run is not there.
var ErrNoImage = errors.New("no such image")

// Podman runs podman(1) under a configuration of its own.
type Podman struct {
	Path string   // absolute
	Env  []string // whole environment, see Conf.Environ
	args []string // global arguments, see Conf.globalArgs
}

// Find looks podman up in PATH. Where there is none, what it returns beside the
// error says how it would be called.
func Find(conf Conf, user []string) (Podman, error) {
	p := Podman{Path: "podman", Env: conf.Environ(user), args: conf.globalArgs()}
	path, err := exec.LookPath("podman")
	if err != nil {
		return p, fmt.Errorf("%w (%v)", ErrNotInstalled, err)
	}
	p.Path = path
	return p, nil
}

// Command prepares a call. The process gets a group of its own: ^C belongs to
// the harness, and podman must live to clean up.
func (p Podman) Command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, p.Path, slices.Concat(p.args, args)...)
	cmd.Env = p.Env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}
