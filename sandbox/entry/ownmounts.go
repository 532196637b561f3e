package entry

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

// own is a mount that podman and its runtime make in every container.
type own struct {
	target  string   // exact, or a path.Match pattern
	fstypes []string // nil: any
	root    string   // of the mount within its file system, "": any
	kept    string   // instead: the end of the path where podman keeps the file
}

// ownMounts is what a rootless podman with crun or runc makes by itself.
// None of it shows files of the host but those that podman wrote.
var ownMounts = []own{
	{target: "/", root: "/"},
	{target: "/proc", fstypes: []string{"proc"}, root: "/"},
	{target: "/dev", fstypes: []string{"tmpfs"}, root: "/"},
	{target: "/dev/pts", fstypes: []string{"devpts"}, root: "/"},
	{target: "/dev/shm", fstypes: []string{"tmpfs"}, root: "/"},
	{target: "/dev/mqueue", fstypes: []string{"mqueue"}, root: "/"},
	{target: "/sys", fstypes: []string{"sysfs"}, root: "/"},
	{target: "/sys/fs/cgroup", fstypes: []string{"cgroup2", "tmpfs"}},
	{target: "/sys/fs/cgroup/*", fstypes: []string{"cgroup", "cgroup2"}},
	// A user can't make device nodes: the runtime binds the host's.
	{target: "/dev/null", fstypes: devices, root: "/null"},
	{target: "/dev/zero", fstypes: devices, root: "/zero"},
	{target: "/dev/full", fstypes: devices, root: "/full"},
	{target: "/dev/tty", fstypes: devices, root: "/tty"},
	{target: "/dev/random", fstypes: devices, root: "/random"},
	{target: "/dev/urandom", fstypes: devices, root: "/urandom"},
	{target: "/etc/hostname", kept: "/userdata/hostname"},
	{target: "/run/.containerenv", kept: "/userdata/.containerenv"},
	// For an image that does not know the users 0 and 1000.
	{target: "/etc/passwd", kept: "/userdata/passwd"},
	{target: "/etc/group", kept: "/userdata/group"},
}

// devices are the file systems that hold device nodes.
var devices = []string{"devtmpfs", "tmpfs"}

// isOwn reports whether podman makes the mount by itself.
func isOwn(m mountinfo.Mount) bool {
	for _, o := range ownMounts {
		if ok, _ := path.Match(o.target, m.Target); !ok { // patterns are constants
			continue
		}
		return (o.fstypes == nil || slices.Contains(o.fstypes, m.Type)) &&
			(o.root == "" || o.root == m.Root) && strings.HasSuffix(m.Root, o.kept)
	}
	return hides(m)
}

// hides reports whether the mount masks a part of the kernel's own file
// systems or makes it read-only, as runtimes do below /proc and /sys.
func hides(m mountinfo.Mount) bool {
	inProc, inSys := strings.HasPrefix(m.Target, "/proc/"), strings.HasPrefix(m.Target, "/sys/")
	switch {
	case !inProc && !inSys:
		return false
	case m.Type == "proc":
		return inProc && m.ReadOnly() && m.Target == "/proc"+m.Root
	case m.Type == "sysfs":
		return inSys && m.ReadOnly() && m.Target == "/sys"+m.Root
	case m.Type == "tmpfs" && m.Root == "/":
		return m.ReadOnly()
	}
	return slices.Contains(devices, m.Type) && m.Root == "/null"
}

// compareMounts returns what is wrong with the mounts of the container, "" if
// nothing: an unexpected mount, a missing one, or one that can be written to
// and shouldn't. Two mounts on one target count as unexpected: the upper one
// hides what was checked.
func compareMounts(have []mountinfo.Mount, want []handshake.Mount) string {
	seen := map[string]bool{}
	for _, m := range have {
		if seen[m.Target] {
			return fmt.Sprintf("two mounts lie on %q", m.Target)
		}
		seen[m.Target] = true
		i := slices.IndexFunc(want, func(w handshake.Mount) bool { return w.Target == m.Target })
		switch {
		case i >= 0 && want[i].ReadOnly && !m.ReadOnly():
			return fmt.Sprintf("mount %q is writable", m.Target)
		case m.Target == "/" && !m.ReadOnly():
			return "the root file system is writable"
		case i < 0 && !isOwn(m):
			return fmt.Sprintf("mount %q (%s, %q) was not asked for", m.Target, m.Type, m.Root)
		}
	}
	for _, w := range want {
		if !seen[w.Target] {
			return fmt.Sprintf("mount %q is missing", w.Target)
		}
	}
	return ""
}
