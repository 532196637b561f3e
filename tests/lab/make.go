//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// makeRoot makes the root where it is missing: beside its place first, so that
// an interrupted make leaves nothing that looks whole.
func (l *lab) makeRoot() error {
	if exists(l.dir) {
		return nil
	}
	release, err := lock(l.dir+".lock", unix.LOCK_EX, "another make")
	if err != nil {
		return err
	}
	defer release()
	if exists(l.dir) {
		return nil
	}
	part := &lab{cache: l.cache, dir: l.dir + ".partial"}
	if err := os.RemoveAll(part.dir); err != nil {
		return err
	}
	say("making a Debian %s with podman (once; takes some minutes)", suite)
	start := time.Now()
	if err := l.bootstrap(part.root(), rootPackages); err != nil {
		return err
	}
	say("configuring it")
	if err := part.configure(); err != nil {
		return err
	}
	if err := os.Rename(part.dir, l.dir); err != nil {
		return err
	}
	say("made %s in %s", l.dir, time.Since(start).Round(time.Second))
	return nil
}

// configure adds the user and what a Debian's installer would.
func (l *lab) configure() error {
	root := l.root()
	files := map[string]string{
		"/etc/hostname":         "lab\n",
		"/etc/hosts":            "127.0.0.1 localhost lab\n::1 localhost\n",
		"/etc/gitconfig":        "[safe]\n\tdirectory = *\n", // bound in repositories are root's
		"/etc/profile.d/lab.sh": "export XDG_RUNTIME_DIR=/run/user/$(id -u)\n",
	}
	for name, text := range files {
		if err := os.WriteFile(root+name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	// useradd also gives subordinate ids (login.defs(5), SUB_UID_COUNT).
	if err := inRoot(root, "useradd", "--uid", fmt.Sprint(userID), "--create-home", "--shell", "/bin/bash", userName); err != nil {
		return err
	}
	if err := os.Rename(root+userHome, l.home()); err != nil {
		return err
	}
	for _, dir := range []string{root + userHome, l.entries()} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
	}
	return nil
}

// makeBase makes the base image's tar where it is missing, and returns its path.
func (l *lab) makeBase() (string, error) {
	if err := l.makeRoot(); err != nil {
		return "", err
	}
	tar, err := l.baseTar()
	if err != nil || exists(tar) {
		return tar, err
	}
	release, err := lock(filepath.Join(l.dir, "base.lock"), unix.LOCK_EX, "another make")
	if err != nil {
		return "", err
	}
	defer release()
	if exists(tar) {
		return tar, nil
	}
	say("making a base image of Debian %s (once)", suite)
	dir := filepath.Join(l.dir, "base.partial")
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	if err := l.bootstrap(dir, basePackages); err != nil {
		return "", err
	}
	if err := copyCAs(dir); err != nil {
		return "", err
	}
	if err := inRoot(dir, "useradd", "--uid", fmt.Sprint(userID), "--create-home", "--shell", "/bin/bash", "agent"); err != nil {
		return "", err
	}
	if err := tool("tar", "--numeric-owner", "--xattrs", "-C", dir, "-cf", tar+".partial",
		"--exclude=./var/cache/apt/*", "--exclude=./var/lib/apt/lists/*", "--exclude=./dev/*", "."); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return tar, os.Rename(tar+".partial", tar)
}

// importBase puts the base image into the user's storage, where it is missing.
func (l *lab) importBase() error {
	const image = "localhost/aisb-base:" + suite
	tar, err := l.makeBase()
	if err != nil {
		return err
	}
	mark := filepath.Base(tar) // tells a tar with other certificate authorities
	const there = `[ "$(podman image inspect --format '{{.Comment}}' "$0" 2>/dev/null)" = "$1" ]`
	// Looking needs no home for itself, and so no waiting for who has it.
	code, err := l.run([]string{"--scratch", "--", "/bin/sh", "-c", there, image, mark})
	if err != nil || code == 0 {
		return err
	}
	say("importing %s", image)
	code, err = l.run([]string{"--bind", tar + ":/aisb-base.tar:ro", "--", "/bin/sh", "-c",
		`exec podman import --quiet --message "$1" /aisb-base.tar "$0" >/dev/null`, image, mark})
	if err == nil && code != 0 {
		err = fmt.Errorf("import %s: status %d", image, code)
	}
	return err
}

// bootstrap makes a Debian in dir, by debootstrap's own default of a mirror.
// Packages are kept, so that a second one needs no second download.
func (l *lab) bootstrap(dir string, packages []string) error {
	if err := needTool("debootstrap", "debootstrap"); err != nil {
		return err
	}
	debs := filepath.Join(l.cache, "debs")
	if err := os.MkdirAll(debs, 0o755); err != nil {
		return err
	}
	var err error
	for try := 1; try <= 3; try++ {
		if try > 1 {
			say("debootstrap failed, trying again: %v", err)
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
		}
		// dpkg need not sync each file of a root that is worthless unless whole.
		conf := dir + "/etc/dpkg/dpkg.cfg.d"
		if err = os.MkdirAll(conf, 0o755); err == nil {
			err = os.WriteFile(conf+"/lab", []byte("force-unsafe-io\n"), 0o644)
		}
		if err != nil {
			return err
		}
		// It mounts proc and sysfs in the new root. In namespaces of its own they go
		// with it, however it ends, before anything removes the root.
		err = tool("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc",
			"debootstrap", "--variant=minbase", "--cache-dir="+debs,
			"--include="+strings.Join(packages, ","), suite, dir)
		if err == nil {
			return os.Remove(conf + "/lab")
		}
	}
	return err
}

// needTool installs a Debian package when its command is missing here.
func needTool(command, pkg string) error {
	if _, err := exec.LookPath(command); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("%s is missing, and there is no apt-get to install it with", command)
	}
	say("installing %s", pkg)
	if err := tool("apt-get", "-qq", "update"); err != nil {
		return err
	}
	return tool("apt-get", "-qq", "install", "-y", "--no-install-recommends", pkg)
}

func inRoot(root string, command ...string) error {
	return tool("chroot", append([]string{root}, command...)...)
}

// tool runs a command of the machine; its output is shown only when it fails.
func tool(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing goes on without us
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C",
		"PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin")
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) > 20 {
		lines = lines[len(lines)-20:]
	}
	return fmt.Errorf("%s: %w\n%s", name, err, strings.Join(lines, "\n"))
}

// copyCAs gives root the machine's certificate authorities: the bundle, and
// those the machine's owner added, or the next update-ca-certificates drops them.
func copyCAs(root string) error {
	const added = "/usr/local/share/ca-certificates"
	extra, err := filepath.Glob(added + "/*.crt")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(root+added, 0o755); err != nil {
		return err
	}
	for _, name := range append(extra, hostCAs) {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err == nil {
			err = os.WriteFile(root+name, text, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
