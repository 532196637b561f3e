package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/mounts"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// checkUser refuses root: podman would be rootful, and what holds is another
// product.
func checkUser(command string, uid int) error {
	if builtWithCgo {
		// With cgo the runtime can't make a system call on all threads
		// (syscall.AllThreadsSyscall), so pid 1 couldn't give its rights up.
		return &exitError{code: exitPodman, err: errors.New("this aisb was built with cgo and can't run in a container"),
			hint: "build it with CGO_ENABLED=0, as 'make build' does"}
	}
	if uid != 0 {
		return nil
	}
	return &exitError{
		code: exitPodman,
		err:  fmt.Errorf("%s needs rootless podman and can't run as root", command),
		hint: "run it as an ordinary user\non a machine with root alone, 'make run' and 'make test' use the project's lab",
	}
}

// openHost finds podman and the directories. podman and its helpers are looked
// for where no sandbox can write to: none of writable may hold them.
func openHost(writable []mounts.Mount) (sandbox.Host, error) {
	host, err := nameHost(writable)
	if err != nil && !errors.Is(err, podman.ErrNotInstalled) {
		return sandbox.Host{}, err
	}
	if _, err := podman.EnsureConf(host.Paths.Runtime, hasSystemd()); err != nil {
		return sandbox.Host{}, &exitError{code: exitPodman, err: err, hint: sandbox.StartHint(err)}
	}
	return host, err
}

// nameHost is openHost without making anything.
func nameHost(writable []mounts.Mount) (sandbox.Host, error) {
	err := errors.Join(os.Setenv("PATH", hostPath(os.Getenv("PATH"), writable)),
		os.Setenv("TMPDIR", hostTemp(os.Getenv("TMPDIR"), writable)),
		checkStorageConf(os.Getenv("CONTAINERS_STORAGE_CONF"), writable))
	if err != nil {
		return sandbox.Host{}, err
	}
	uid := os.Getuid()
	paths, err := sandbox.FindPaths(os.Getenv, uid)
	if err != nil {
		return sandbox.Host{}, &exitError{code: exitPodman, err: err,
			hint: noRuntimeDir(uid)}
	}
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		return sandbox.Host{}, &exitError{code: exitPodman, err: err}
	}
	conf := podman.FindConf(paths.Runtime, hasSystemd())
	p, err := podman.Find(conf, os.Environ())
	if err != nil {
		err = &exitError{code: exitPodman, err: err, hint: "install podman 5.3 or newer, and passt: sudo apt install podman passt uidmap"}
	}
	return sandbox.Host{Self: self, Exe: "/proc/self/exe", Podman: p, Conf: conf, Paths: paths, UID: uid, Version: version()}, err
}

// noRuntimeDir is what to do without XDG_RUNTIME_DIR.
func noRuntimeDir(uid int) string {
	if uid == 0 {
		return "sandboxes are an ordinary user's: run it as the one who started them"
	}
	return "log in as that user (ssh, a console, machinectl shell) rather than by su, or: loginctl enable-linger"
}

// hasSystemd reports whether the user has a systemd session, which podman asks
// for cgroups.
func hasSystemd() bool {
	bus := strings.TrimPrefix(os.Getenv("DBUS_SESSION_BUS_ADDRESS"), "unix:path=")
	if bus == "" {
		bus = filepath.Join(os.Getenv("XDG_RUNTIME_DIR"), "bus")
	}
	_, err := os.Stat(filepath.Join(filepath.Dir(bus), "systemd/private"))
	return err == nil
}
