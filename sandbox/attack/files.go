//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

// project is where the project is mounted.
const project = "/project"

// files are attacks by paths.
func files() []Attack {
	list := []Attack{
		{ID: "canary-file", Row: "T2", Try: "read the host's canary files by their own paths", Run: canaryFiles("")},
		{ID: "canary-pid1-root", Row: "T2", Try: "the same below /proc/1/root", Run: canaryFiles("/proc/1/root")},
		{ID: "canary-parent-root", Row: "T2", Try: "the same below /proc/PARENT/root and cwd", Run: func(ctx context.Context, p Plan) Finding {
			dir := fmt.Sprintf("/proc/%d", os.Getppid())
			return worst([]Finding{canaryFiles(dir+"/root")(ctx, p), canaryFiles(dir+"/cwd/../../..")(ctx, p)})
		}},
		{ID: "canary-dotdot", Row: "T1", Try: "the same by .. from the project", Run: canaryFiles("/project/../../../..")},
		{ID: "canary-sibling", Row: "T1", Try: "files beside the project", Run: sibling},
		{ID: "canary-mounts", Row: "T2", Try: "the same below every mount point", Run: canaryMounts},
		{ID: "canary-symlink", Row: "T20", Try: "a symbolic link in the project to a host's file", Run: canarySymlink},
		{ID: "canary-hard-link", Row: "T20", Try: "a hard link in the project to a file outside it", Run: hardLink},
		{ID: "mounts-expected", Row: "T1", Try: "a mount that is neither the project nor aisb's", Run: strangeMounts},
		{ID: "home-secrets", Row: "T2", Try: "~/.ssh, ~/.aws, ~/.gnupg, browser and cloud profiles", Run: homeSecrets},
		{ID: "host-homes", Row: "T2", Try: "other homes: /root, /home/*", Run: hostHomes},
		{ID: "devices", Row: "T1", Try: "disks, memory, ports and the kernel's log in /dev", Run: anyOpens("/dev/mem", "/dev/kmem", "/dev/port", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/nvme0n1", "/dev/dm-0", "/dev/loop0", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vsock", "/dev/vhost-vsock")},
		{ID: "device-nodes", Row: "T1", Try: "a device in /dev beyond the harmless ones", Run: strangeDevices},
		{ID: "kcore", Row: "T3", Try: "the kernel's memory: /proc/kcore, kallsyms with addresses", Run: kernelMemory},
		{ID: "sysrq", Row: "T1", Try: "write /proc/sysrq-trigger", Run: cannotWrite("/proc/sysrq-trigger")},
		{ID: "sysctl-core-pattern", Row: "T1", Try: "write kernel.core_pattern: the host would run it", Run: cannotWrite("/proc/sys/kernel/core_pattern")},
		{ID: "sysctl-modprobe", Row: "T1", Try: "write kernel.modprobe: the host would run it", Run: cannotWrite("/proc/sys/kernel/modprobe")},
		{ID: "sysctl-binfmt", Row: "T1", Try: "register a binary format", Run: cannotWrite("/proc/sys/fs/binfmt_misc/register")},
		{ID: "sysctl-net", Row: "T7", Try: "write net.ipv4.ip_forward and route_localnet", Run: cannotWrite("/proc/sys/net/ipv4/ip_forward", "/proc/sys/net/ipv4/conf/all/route_localnet")},
		{ID: "sysctl-hostname", Row: "T1", Try: "write kernel.hostname", Run: cannotWrite("/proc/sys/kernel/hostname")},
		{ID: "uevent-helper", Row: "T1", Try: "write /sys/kernel/uevent_helper: the host would run it", Run: cannotWrite("/sys/kernel/uevent_helper")},
		{ID: "release-agent", Row: "T1", Try: "write a cgroup's release_agent or processes", Run: cannotWrite("/sys/fs/cgroup/release_agent", "/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/cgroup.subtree_control")},
		{ID: "write-sysfs", Row: "T1", Try: "write in /sys", Run: cannotWrite("/sys/power/state", "/sys/kernel/mm/transparent_hugepage/enabled", "/sys/module/kernel/parameters/panic")},
		{ID: "write-uid-map", Row: "T9", Try: "write the own uid_map", Run: call(func() error {
			return os.WriteFile("/proc/self/uid_map", []byte("0 0 1\n"), 0)
		})},
		{ID: "kept-home", Row: "T13", Try: "leave something in a home that is kept", Run: keptHome},
		{ID: "project-socket-relay", Row: "T19", Try: "a listening socket in the project, for another sandbox to meet", Run: projectSocket},
	}
	list = append(list, written()...)
	return append(list, planted()...)
}

// read tries to read a canary.
func read(path, mark string) Finding {
	text, err := os.ReadFile(path)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return held("no such file")
		}
		return judged(err)
	}
	if strings.Contains(string(text), mark) {
		return got("read the canary at %s", path)
	}
	return held("another file")
}

func canaryFiles(below string) func(context.Context, Plan) Finding {
	return func(_ context.Context, p Plan) Finding {
		var list []Finding
		for _, path := range p.Files {
			list = append(list, read(below+path, p.Mark))
		}
		return worst(list)
	}
}

// sibling looks for the file beside the project, where .. would lead on the
// host.
func sibling(_ context.Context, p Plan) Finding {
	var list []Finding
	for _, path := range p.Files {
		for _, up := range []string{project + "/..", "/proc/self/cwd/..", "."} {
			list = append(list, read(filepath.Join(up, filepath.Base(path)), p.Mark), read(up+"/"+filepath.Base(path), p.Mark))
		}
	}
	return worst(list)
}

// canaryMounts tries each end of the canaries' paths below each mount point: a
// mounted ancestor shows them, wherever it lies.
func canaryMounts(_ context.Context, p Plan) Finding {
	mounts, err := mountinfo.Read()
	if err != nil {
		return unknown("%v", err)
	}
	tries := 0
	for _, m := range mounts {
		for _, path := range p.Files {
			for rest := strings.TrimPrefix(path, "/"); rest != ""; _, rest, _ = strings.Cut(rest, "/") {
				tries++
				if f := read(filepath.Join(m.Target, rest), p.Mark); f.Verdict == Out {
					return f
				}
			}
		}
	}
	if tries == 0 {
		return unknown("there is no canary to look for")
	}
	return held("in none of %d places", tries)
}

func canarySymlink(_ context.Context, p Plan) Finding {
	var list []Finding
	for i, path := range p.Files {
		link := fmt.Sprintf("%s/aisb-attack-link-%d", project, i)
		if err := os.Symlink(path, link); err != nil {
			list = append(list, unknown("could not make the link: %s", errnoName(err)))
			continue
		}
		list = append(list, read(link, p.Mark))
	}
	return worst(list)
}

// hardLink would make a file outside the project one of the project's.
func hardLink(context.Context, Plan) Finding {
	var list []Finding
	for _, path := range []string{"/etc/passwd", "/etc/hosts", "/usr/local/bin/aisb", "/etc/resolv.conf"} {
		list = append(list, judged(os.Link(path, project+"/aisb-attack-hard-link")))
	}
	return worst(list)
}

// known are the mount points that aisb, podman and the kernel make. Whatever is
// below the kernel's own is of theirs.
var known = []string{
	"/", project, "/home/agent", "/tmp", "/var/tmp", "/run", "/usr/libexec/aisb-entry", "/usr/local/bin/aisb",
	"/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/run/.containerenv", "/run/secrets", "/run/lock", "/var/log/journal",
}

func strangeMounts(context.Context, Plan) Finding {
	mounts, err := mountinfo.Read()
	if err != nil {
		return unknown("%v", err)
	}
	top := slices.IndexFunc(mounts, func(m mountinfo.Mount) bool { return m.Target == project })
	if top < 0 {
		return unknown("the project is not mounted")
	}
	for _, m := range mounts {
		// What the host would execute is mounted over itself.
		if rest, below := strings.CutPrefix(m.Target, project+"/"); below && m.Device == mounts[top].Device && m.Root == mounts[top].Root+"/"+rest {
			continue
		}
		kernels := slices.ContainsFunc([]string{"/proc", "/sys", "/dev"}, func(dir string) bool {
			return m.Target == dir || strings.HasPrefix(m.Target, dir+"/")
		})
		if !kernels && !slices.Contains(known, m.Target) {
			return got("%s (%s of %s)", m.Target, m.Root, m.Type)
		}
	}
	return held("none among %d mounts", len(mounts))
}

func homeSecrets(context.Context, Plan) Finding {
	home, err := os.UserHomeDir()
	if err != nil {
		return unknown("%v", err)
	}
	for _, name := range []string{".ssh", ".aws", ".gnupg", ".kube", ".docker", ".netrc", ".git-credentials", ".password-store",
		".config/gcloud", ".config/gh", ".config/google-chrome", ".config/chromium", ".mozilla", ".local/share/keyrings"} {
		if _, err := os.Lstat(filepath.Join(home, name)); err == nil {
			return got("%s is there", filepath.Join(home, name))
		}
	}
	return held("none of 14 exists")
}

func hostHomes(context.Context, Plan) Finding {
	var list []Finding
	dirs, _ := filepath.Glob("/home/*")
	for _, dir := range dirs {
		if dir == "/home/agent" {
			continue
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
			list = append(list, judged(err))
		}
	}
	_, err := os.ReadDir(filepath.Join("/root", ".ssh"))
	if errors.Is(err, fs.ErrNotExist) {
		err = unix.EACCES // nothing of that name: as good as a refusal
	}
	return worst(append(list, judged(err)))
}

func anyOpens(paths ...string) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		var list []Finding
		for _, path := range paths {
			fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
			if err == nil {
				unix.Close(fd)
				return got("opened %s", path)
			}
			if err == unix.ENOENT || err == unix.ENXIO {
				list = append(list, held("no such device"))
				continue
			}
			list = append(list, judged(err))
		}
		return worst(list)
	}
}

// harmless are the devices of every container (OCI runtime spec, "Default
// Devices").
var harmless = []string{"null", "zero", "full", "random", "urandom", "tty", "console", "ptmx"}

func strangeDevices(context.Context, Plan) Finding {
	entries, err := os.ReadDir("/dev")
	if err != nil {
		return unknown("%s", errnoName(err))
	}
	for _, e := range entries {
		if e.Type()&os.ModeDevice != 0 && !slices.Contains(harmless, e.Name()) {
			return got("/dev/%s", e.Name())
		}
	}
	return held("none but the harmless")
}

func kernelMemory(context.Context, Plan) Finding {
	list := []Finding{}
	if text, err := os.ReadFile("/proc/kcore"); errors.Is(err, fs.ErrNotExist) {
		list = append(list, held("no such file"))
	} else if err != nil {
		list = append(list, judged(err))
	} else if len(text) > 0 {
		return got("read /proc/kcore")
	}
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return worst(append(list, judged(err)))
	}
	defer f.Close()
	line := make([]byte, 16)
	if n, _ := f.Read(line); strings.Trim(string(line[:n]), "0") != "" && n == 16 {
		return got("addresses in /proc/kallsyms: %s", line)
	}
	return worst(append(list, held("empty")))
}

// projectSocket listens in the project: another sandbox on it could connect. That
// aisb refuses such a second one can't be seen from inside the first.
func projectSocket(context.Context, Plan) Finding {
	l, err := net.Listen("unix", project+"/aisb-attack.sock")
	if err != nil {
		return judged(err)
	}
	l.Close()
	return unknown("a socket in the project can listen; 'aisb run' refuses a second sandbox there, which this one can't try")
}
