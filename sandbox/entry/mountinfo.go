package entry

import (
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// mount is a line of mountinfo (proc_pid_mountinfo(5)).
type mount struct {
	root, target string
	options      []string // of the mount
	fstype       string
	super        []string // options of the file system
}

func (m mount) readOnly() bool {
	return slices.Contains(m.options, "ro") || slices.Contains(m.super, "ro")
}

// parseMountinfo reads the text of /proc/PID/mountinfo.
func parseMountinfo(text string) ([]mount, error) {
	var mounts []mount
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		left, right, ok := strings.Cut(line, " - ")
		l, r := strings.Fields(left), strings.Fields(right)
		if !ok || len(l) < 6 || len(r) < 2 {
			return nil, fmt.Errorf("malformed line %q", line)
		}
		m := mount{
			root: unescape(l[3]), target: unescape(l[4]), options: strings.Split(l[5], ","),
			fstype: r[0],
		}
		if len(r) > 2 {
			m.super = strings.Split(r[2], ",")
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

// unescape undoes the octal escapes that the kernel writes for space, tab,
// newline and backslash (seq_path in fs/seq_file.c).
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) && octal(s[i+1]) && octal(s[i+2]) && octal(s[i+3]) {
			b.WriteByte((s[i+1]-'0')<<6 | (s[i+2]-'0')<<3 | (s[i+3] - '0'))
			i += 3
			continue
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func octal(c byte) bool { return c >= '0' && c <= '7' }

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
func (m mount) isOwn() bool {
	for _, o := range ownMounts {
		if ok, _ := path.Match(o.target, m.target); !ok { // patterns are constants
			continue
		}
		return (o.fstypes == nil || slices.Contains(o.fstypes, m.fstype)) &&
			(o.root == "" || o.root == m.root) && strings.HasSuffix(m.root, o.kept)
	}
	return m.hides()
}

// hides reports whether the mount masks a part of the kernel's own file
// systems or makes it read-only, as runtimes do below /proc and /sys.
func (m mount) hides() bool {
	inProc, inSys := strings.HasPrefix(m.target, "/proc/"), strings.HasPrefix(m.target, "/sys/")
	switch {
	case !inProc && !inSys:
		return false
	case m.fstype == "proc":
		return inProc && m.readOnly() && m.target == "/proc"+m.root
	case m.fstype == "sysfs":
		return inSys && m.readOnly() && m.target == "/sys"+m.root
	case m.fstype == "tmpfs" && m.root == "/":
		return m.readOnly()
	}
	return slices.Contains(devices, m.fstype) && m.root == "/null"
}

// compareMounts returns what is wrong with the mounts of the container, "" if
// nothing: an unexpected mount, a missing one, or one that can be written to
// and shouldn't. Two mounts on one target count as unexpected: the upper one
// hides what was checked.
func compareMounts(have []mount, want []handshake.Mount) string {
	seen := map[string]bool{}
	for _, m := range have {
		if seen[m.target] {
			return fmt.Sprintf("two mounts lie on %q", m.target)
		}
		seen[m.target] = true
		i := slices.IndexFunc(want, func(w handshake.Mount) bool { return w.Target == m.target })
		switch {
		case i >= 0 && want[i].ReadOnly && !m.readOnly():
			return fmt.Sprintf("mount %q is writable", m.target)
		case i < 0 && !m.isOwn():
			return fmt.Sprintf("mount %q (%s, %q) was not asked for", m.target, m.fstype, m.root)
		}
	}
	for _, w := range want {
		if !seen[w.Target] {
			return fmt.Sprintf("mount %q is missing", w.Target)
		}
	}
	return ""
}

func readMounts() ([]mount, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	return parseMountinfo(string(text))
}
