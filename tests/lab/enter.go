//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// enter makes the entry's view of the world and moves into it.
func enter(ord order) error {
	steps := []struct {
		name string
		do   func(order) error
	}{
		{"mount root", mountRoot},
		{"make devices", makeDevices},
		{"mount kernel file systems", mountKernel},
		{"take over the machine's settings", takeOver},
		{"bind", bindAll},
		{"change root", pivot},
		{"set up network", setUpNet},
	}
	for _, s := range steps {
		if err := s.do(ord); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	return unix.Sethostname([]byte("lab"))
}

func mountRoot(ord order) error {
	// Nothing mounted here may reach the host's namespace.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("overlay", ord.Root, "overlay", 0, ord.Overlay); err != nil {
		return err
	}
	return bindMount(ord.Home, ord.Root+userHome, false)
}

// mount is a file system to mount below the new root.
type mount struct {
	fs, at string
	flags  uintptr
	data   string
	mode   os.FileMode // of the directory, made when missing
}

func mountAll(root string, mounts []mount) error {
	for _, m := range mounts {
		at := root + m.at
		if err := os.MkdirAll(at, m.mode); err != nil {
			return err
		}
		if err := unix.Mount(m.fs, at, m.fs, m.flags, m.data); err != nil {
			return fmt.Errorf("%s on %s: %w", m.fs, m.at, err)
		}
	}
	return nil
}

func mountKernel(ord order) error {
	return mountAll(ord.Root, []mount{
		// Fresh and with nothing over it, or the kernel refuses a proc or sysfs to
		// user namespaces (mount_too_revealing).
		{"proc", "/proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", 0o555},
		{"sysfs", "/sys", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", 0o555},
		// Version 2 alone: crun refuses the hybrid layout.
		{"cgroup2", "/sys/fs/cgroup", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", 0o555},
		{"tmpfs", "/run", unix.MS_NOSUID | unix.MS_NODEV, "mode=755", 0o755},
		{"tmpfs", "/run/lock", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "mode=1777", 0o755},
		{"tmpfs", fmt.Sprintf("/run/user/%d", userID), unix.MS_NOSUID | unix.MS_NODEV,
			fmt.Sprintf("mode=700,uid=%d,gid=%d", userID, userID), 0o755},
	})
}

// makeDevices makes /dev. Nodes are made and not bound: the machine's own
// /dev/net/tun may be root's alone, and pasta needs it.
func makeDevices(ord order) error {
	err := mountAll(ord.Root, []mount{
		{"tmpfs", "/dev", unix.MS_NOSUID, "mode=755", 0o755},
		{"devpts", "/dev/pts", unix.MS_NOSUID | unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620,gid=5", 0o755},
		{"tmpfs", "/dev/shm", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777", 0o755},
		{"mqueue", "/dev/mqueue", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, "", 0o755},
	})
	if err != nil {
		return err
	}
	dev := ord.Root + "/dev/"
	if err := os.Mkdir(dev+"net", 0o755); err != nil {
		return err
	}
	// Numbers from the kernel's Documentation/admin-guide/devices.txt.
	for name, number := range map[string][2]uint32{
		"null": {1, 3}, "zero": {1, 5}, "full": {1, 7}, "random": {1, 8}, "urandom": {1, 9}, "tty": {5, 0},
		"net/tun": {10, 200}, "fuse": {10, 229},
	} {
		if err := unix.Mknod(dev+name, unix.S_IFCHR, int(unix.Mkdev(number[0], number[1]))); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.Chmod(dev+name, 0o666); err != nil {
			return err
		}
	}
	for name, to := range map[string]string{
		"ptmx": "pts/ptmx", "fd": "/proc/self/fd",
		"stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
	} {
		if err := os.Symlink(to, dev+name); err != nil {
			return err
		}
	}
	return nil
}

// takeOver copies what the machine's way to the network needs.
func takeOver(ord order) error {
	if err := copyCAs(ord.Root); err != nil {
		return err
	}
	conf, err := os.ReadFile("/etc/resolv.conf")
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// It may be a symlink into a /run that is another one here.
	if err := os.Remove(ord.Root + "/etc/resolv.conf"); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.WriteFile(ord.Root+"/etc/resolv.conf", conf, 0o644)
}

func bindAll(ord order) error {
	for _, b := range ord.Binds {
		if err := bindMount(b.From, ord.Root+b.To, b.ReadOnly); err != nil {
			return fmt.Errorf("%s: %w", b.To, err)
		}
	}
	return nil
}

func bindMount(from, to string, readOnly bool) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		err = os.MkdirAll(to, 0o755)
	} else {
		if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			var f *os.File
			if f, err = os.OpenFile(to, os.O_RDONLY|os.O_CREATE, 0o644); err == nil {
				f.Close()
			}
		}
	}
	if err != nil {
		return err
	}
	if err := unix.Mount(from, to, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if !readOnly {
		return nil
	}
	return unix.MountSetattr(unix.AT_FDCWD, to, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// pivot makes the new root the root: after a mere chroot the kernel refuses user
// namespaces (user_namespaces(7), EPERM).
func pivot(ord order) error {
	if err := os.Chdir(ord.Root); err != nil {
		return err
	}
	// The old root is stacked under the new one and taken from there, which
	// needs no directory for it (pivot_root(2), "pivot_root(".", ".")").
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return err
	}
	if err := os.Chdir("/"); err != nil {
		return err
	}
	// podman wants a shared root, as systemd makes it.
	return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}

// setUpNet gives the network namespace of --net private a link with addresses
// and default routes that lead nowhere: pasta copies them.
func setUpNet(ord order) error {
	if !ord.Net {
		return nil
	}
	script := strings.Join([]string{
		"ip link set lo up",
		"ip link add net0 type veth peer name net1", // not every kernel has dummy
		"ip addr add 10.76.0.2/24 dev net0",
		"ip -6 addr add fd76:76::2/64 dev net0 nodad",
		"ip link set net1 up",
		"ip link set net0 up",
		"ip route add default via 10.76.0.1",
		"ip -6 route add default via fd76:76::1",
	}, "\n")
	cmd := exec.Command("/bin/sh", "-ec", script)
	cmd.Env = []string{"PATH=" + defaultPath}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}
