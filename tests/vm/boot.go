//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The guest's ends of two virtio ports, by their names there. The host's ends
// are descriptors of the emulator.
const (
	portOut    = "aisb-out"    // what the command prints
	portStatus = "aisb-status" // "started", later "ended STATUS" or "rebooting"

	outFD, statusFD = 3, 4
)

// emulatorArgs are the machine: hardware that any Debian has drivers for, and no
// network but the one that the disk's own configuration makes inside.
func emulatorArgs(dir, job, console string, hardware, reboot bool) []string {
	var args []string
	if hardware {
		args = append(args, "-accel", "kvm")
	}
	args = append(args,
		"-accel", "tcg", // next, where there is no access to KVM
		"-nodefaults", "-no-user-config", "-display", "none",
		"-machine", "q35,sata=off,usb=off,smbus=off", // less to find drivers for
		"-cpu", "max,la57=off,svm=off", "-smp", "2", "-m", "2048",
		"-kernel", filepath.Join(dir, "vmlinuz"), "-initrd", filepath.Join(dir, "initrd"),
		// Emulated, each of these is paid for many times over: messages on a serial
		// line, the detours around branches, tests of ciphers, a slower clock.
		"-append", "root=/dev/vda rw console=ttyS0 panic=-1 quiet mitigations=off cryptomgr.notests tsc=reliable nowatchdog systemd.default_timeout_start_sec=900",
		// Writes go to a file without a name, which ends with the emulator.
		"-drive", "if=virtio,format=raw,snapshot=on,cache=unsafe,file="+comma(filepath.Join(dir, "disk.img")),
		"-drive", "if=virtio,format=raw,readonly=on,file="+comma(job),
		"-device", "virtio-rng-pci", // or the guest waits for entropy
		"-device", "virtio-serial-pci",
		"-chardev", fmt.Sprintf("file,id=out,path=/dev/fd/%d", outFD),
		"-device", "virtserialport,chardev=out,name="+portOut,
		"-chardev", fmt.Sprintf("file,id=status,path=/dev/fd/%d", statusFD),
		"-device", "virtserialport,chardev=status,name="+portStatus,
		"-chardev", "file,id=console,path="+comma(console), "-serial", "chardev:console",
	)
	if !reboot {
		args = append(args, "-no-reboot") // with panic=-1, a panic ends the emulator
	}
	return args
}

// virtualizes reports whether the processor of /proc/cpuinfo runs machines. Where it
// doesn't, KVM may be there all the same (kvm_pvm), but runs no kernel that hasn't been
// made for it.
func virtualizes(cpuinfo string) bool {
	for line := range strings.Lines(cpuinfo) {
		key, flags, _ := strings.Cut(line, ":")
		if strings.TrimSpace(key) != "flags" {
			continue
		}
		has := strings.Fields(flags)
		return slices.Contains(has, "vmx") || slices.Contains(has, "svm")
	}
	return false
}

// comma doubles commas, as the emulator's options want them in a value.
func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

// machine is an emulator that runs.
type machine struct {
	cmd         *exec.Cmd
	out, status *os.File
}

// boot starts a machine, which ends with ctx or with this process.
func boot(ctx context.Context, args []string) (*machine, error) {
	out, outGuest, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer outGuest.Close()
	status, statusGuest, err := os.Pipe()
	if err != nil {
		out.Close()
		return nil, err
	}
	defer statusGuest.Close()
	// nice(1) becomes the emulator: the same process, so the same pid to end.
	cmd := exec.CommandContext(ctx, "nice", append([]string{"-n", "10", emulator}, args...)...)
	cmd.ExtraFiles = []*os.File{outGuest, statusGuest} // from descriptor 3 on
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, out.Close(), status.Close())
	}
	return &machine{cmd: cmd, out: out, status: status}, nil
}

// end ends the machine and tells how it ended by itself, if it did.
func (m *machine) end() error {
	_ = m.cmd.Process.Kill() // it may have ended just now
	err := m.cmd.Wait()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		return fmt.Errorf("%s: %w\n%s", emulator, err, lastLines(fmt.Sprint(m.cmd.Stderr), 10))
	}
	return nil
}

// errEnded is a machine that ended before its command did, errAgain one that came up
// again without having been told to.
var (
	errEnded = errors.New("the machine ended before the command did")
	errAgain = errors.New("the machine has booted again by itself")
)

// follow reads the status port until the command's end. The command is started with
// each boot.
func follow(r io.Reader, started func()) (int, error) {
	lines := bufio.NewScanner(r)
	expected := true
	for lines.Scan() {
		word, rest, _ := strings.Cut(strings.TrimSpace(lines.Text()), " ")
		switch word {
		case "started":
			if !expected {
				return 0, errAgain
			}
			expected = false
			started()
		case "rebooting":
			expected = true
		case "ended":
			n, err := strconv.ParseUint(rest, 10, 8)
			if err != nil {
				return 0, fmt.Errorf("the machine names the status %q", rest)
			}
			return int(n), nil
		}
	}
	return 0, errors.Join(errEnded, lines.Err())
}

// run boots a machine for one command, and returns the command's status.
func (p place) run(ctx context.Context, o options) (int, error) {
	work, err := os.MkdirTemp("", "aisb-vm-")
	if err != nil {
		return statusFailed, err
	}
	defer os.RemoveAll(work)
	console := filepath.Join(work, "console")
	if o.console != "" {
		if console, err = filepath.Abs(o.console); err != nil {
			return statusFailed, err
		}
	}
	job := filepath.Join(work, "job.tar")
	if err := writeJob(job, o); err != nil {
		return statusFailed, err
	}
	late, cancel := context.WithTimeout(ctx, o.limit)
	defer cancel()
	cpuinfo, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return statusFailed, err
	}
	hardware := virtualizes(string(cpuinfo))
	if !hardware {
		say("the processor runs no machines, so this one is emulated")
	}
	code, err := runMachine(late, emulatorArgs(p.dir, job, console, hardware, o.reboot), os.Stdout)
	switch {
	case err == nil:
		return code, nil
	case ctx.Err() != nil:
		return 128 + int(syscall.SIGTERM), errors.New("interrupted")
	case late.Err() != nil:
		code, err = statusLate, fmt.Errorf("the command had not ended after %v", o.limit)
	}
	if text, rerr := os.ReadFile(console); rerr == nil && len(text) > 0 {
		err = fmt.Errorf("%w; the console's last lines:\n%s", err, lastLines(string(text), 20))
	}
	return code, err
}

// runMachine boots, copies what the command prints to w, and ends the machine as
// soon as the command has ended: there is nothing to shut down.
func runMachine(ctx context.Context, args []string, w io.Writer) (int, error) {
	start := time.Now()
	m, err := boot(ctx, args)
	if err != nil {
		return statusFailed, err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(w, m.out)
		copied <- err
	}()
	code, err := follow(m.status, func() { say("up after %s", time.Since(start).Round(time.Second)) })
	// The guest's write has returned, so all of it is in the pipe by now.
	if ended := m.end(); err != nil {
		return statusFailed, errors.Join(err, ended, <-copied)
	}
	say("ended after %s", time.Since(start).Round(time.Second))
	return code, <-copied
}
