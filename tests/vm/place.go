//go:build linux

package main

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// recipe turns the lab's root into a disk, inside the lab. Every change of it,
// or of the lab, gives another hash and so a new disk.
//
//go:embed disk
var recipe string

const emulator = "qemu-system-x86_64"

// place is where one version of the disk is.
type place struct {
	cache string // of all versions
	dir   string // of this one: disk.img, vmlinuz, initrd, versions
	lab   string // the lab's script
}

func open() (place, error) {
	p := place{cache: os.Getenv("AISB_VM_CACHE"), lab: os.Getenv("AISB_VM_LAB")}
	if p.cache == "" || p.lab == "" {
		return p, errors.New("AISB_VM_CACHE or AISB_VM_LAB is not set: call tests/vm/vm")
	}
	h := sha256.New()
	for _, part := range []string{recipe, os.Getenv("AISB_VM_LAB_VERSION")} {
		fmt.Fprintf(h, "%d:%s\n", len(part), part)
	}
	var err error
	p.cache, err = filepath.Abs(p.cache)
	p.dir = filepath.Join(p.cache, "vm-"+hex.EncodeToString(h.Sum(nil))[:12])
	return p, err
}

// make makes the disk where it is missing: beside its place first, so that an
// interrupted make leaves nothing that looks whole.
func (p place) make(ctx context.Context) error {
	if runtime.GOARCH != "amd64" {
		return fmt.Errorf("the VM is made for amd64 alone, this is %s", runtime.GOARCH)
	}
	if err := needEmulator(ctx); err != nil {
		return err
	}
	if exists(p.dir) {
		return nil
	}
	if os.Geteuid() != 0 {
		return fmt.Errorf("%s is missing, and making it needs root, as the lab does", p.dir)
	}
	release, err := lock(filepath.Join(p.cache, "vm.lock"))
	if err != nil {
		return err
	}
	defer release()
	if exists(p.dir) {
		return nil
	}
	part := p.dir + ".partial"
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := os.MkdirAll(part, 0o755); err != nil {
		return err
	}
	say("making the disk of a Debian 13 (once; takes some minutes)")
	start := time.Now()
	if err := p.cook(ctx, part); err != nil {
		return err
	}
	if err := p.remove(part); err != nil { // what was made of an older recipe
		return err
	}
	if err := os.Rename(part, p.dir); err != nil {
		return err
	}
	say("made %s in %s", p.dir, time.Since(start).Round(time.Second))
	return nil
}

// cook runs the recipe in an entry of the lab, which throws away all but what
// it writes to dir.
func (p place) cook(ctx context.Context, dir string) error {
	out, err := tool(ctx, p.lab, "base")
	if err != nil {
		return err
	}
	tar := strings.TrimSpace(string(out))
	script := filepath.Join(dir, "recipe")
	if err := os.WriteFile(script, []byte(recipe), 0o755); err != nil {
		return err
	}
	_, err = tool(ctx, p.lab, "run", "--root", "--scratch", "--dir", "/",
		"--bind", dir+":/mnt/out", "--bind", tar+":/mnt/base.tar:ro", "--", "/bin/sh", "/mnt/out/recipe")
	return errors.Join(err, os.Remove(script))
}

// clean removes all versions. A machine that runs keeps its open files.
func (p place) clean() error {
	release, err := lock(filepath.Join(p.cache, "vm.lock"))
	if err != nil {
		return err
	}
	defer release()
	return p.remove("")
}

func (p place) remove(butFor string) error {
	dirs, err := filepath.Glob(filepath.Join(p.cache, "vm-*"))
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if dir == butFor {
			continue
		}
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	return nil
}

// needEmulator installs the emulator, where it is missing and that can be done
// without asking: as root on a Debian.
func needEmulator(ctx context.Context) error {
	if _, err := exec.LookPath(emulator); err == nil {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("%s is missing: on a Debian 'apt install qemu-system-x86'", emulator)
	}
	say("installing qemu-system-x86")
	if _, err := tool(ctx, "apt-get", "-qq", "update"); err != nil {
		return err
	}
	_, err := tool(ctx, "apt-get", "-qq", "install", "-y", "--no-install-recommends", "qemu-system-x86")
	return err
}

// tool runs a command of the machine and returns what it prints; what it says on
// stderr is shown only when it fails.
func tool(ctx context.Context, name string, args ...string) ([]byte, error) {
	var said strings.Builder
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) } // the lab ends its entry
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // nothing goes on without us
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive", "LC_ALL=C")
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", filepath.Base(name), err, lastLines(said.String(), 30))
	}
	return out, nil
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// lock takes the lock file path and returns its release.
func lock(path string) (func(), error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		if err = unix.Flock(int(f.Fd()), unix.LOCK_EX); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
