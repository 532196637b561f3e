package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// TestMain lets the test binary be, by argv[0], everything that runs in a
// container of these tests.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case containerName:
		fmt.Fprintln(os.Stderr, becomeEntry())
		os.Exit(99)
	case Name:
		if len(os.Args) == 2 && os.Args[1] != probeArg {
			os.Exit((&entry{seam: pauseAt(os.Args[1])}).run())
		}
		os.Exit(Main(os.Args[1:]))
	case dropperName:
		os.Exit(dropWithout(os.Args[1]))
	case harnessName:
		os.Exit(harness(os.Args[1:]))
	}
	status := m.Run()
	if path, err := exe(); err == nil {
		os.Remove(path)
	}
	os.Exit(status)
}

const (
	containerName = "test-container"
	harnessName   = "test-harness"

	entryPath   = "/usr/libexec/aisb-entry"
	harnessPath = "/bin/test-harness"
)

// layout is what a container of the tests is made of. It plays podman's part.
type layout struct {
	Exe      string   // on the host: the test binary
	Project  string   // on the host, bound to /project
	Caps     []int    // that remain
	NoNNP    bool     // without no_new_privs
	Rules    string   // nft text loaded before the entrypoint starts
	Pause    string   // the point at which the start waits for box.spoil
	NoNet    bool     // nothing is outside: for starts that end before the proof
	Writable bool     // /bin/test-harness can be written to
	RootRW   bool     // so can the root file system
	Extra    []string // more tmpfs mounts
	Probes   int
}

// podmanCaps are the capabilities that the entrypoint gets.
var podmanCaps = []int{unix.CAP_NET_ADMIN, unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_SETPCAP}

// becomeEntry runs as root of new namespaces: it waits until the network is
// made, builds a root file system and becomes the entrypoint.
func becomeEntry() error {
	runtime.LockOSThread()
	var l layout
	in := os.NewFile(4, "layout")
	if err := json.NewDecoder(in).Decode(&l); err != nil {
		return err
	}
	in.Close()
	if l.Rules != "" {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(l.Rules)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
	}
	if err := l.build("/mnt"); err != nil {
		return err
	}
	for c := 0; c <= unix.CAP_LAST_CAP; c++ {
		if !slices.Contains(l.Caps, c) {
			if err := unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(c), 0, 0, 0); err != nil && !errors.Is(err, unix.EINVAL) {
				return err
			}
		}
	}
	if !l.NoNNP {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return err
		}
	}
	args := []string{Name}
	if l.Pause != "" {
		args = append(args, l.Pause)
	}
	// An environment that must not reach anything.
	return syscall.Exec(entryPath, args, []string{"LEAKED=1", "PATH=/nowhere"})
}

// build makes the root file system and moves into it.
func (l layout) build(root string) error {
	type bind struct {
		source, fstype, target string
		flags                  uintptr
	}
	list := []bind{
		{"", "", "/", unix.MS_REC | unix.MS_PRIVATE},
		{"tmpfs", "tmpfs", root, 0},
		{"proc", "proc", root + "/proc", 0},
		{"tmpfs", "tmpfs", root + "/dev", 0},
		{"devpts", "devpts", root + "/dev/pts", 0},
		{"/dev/null", "", root + "/dev/null", unix.MS_BIND},
		{"/dev/zero", "", root + "/dev/zero", unix.MS_BIND},
		{"/dev/tty", "", root + "/dev/tty", unix.MS_BIND},
		{l.Exe, "", root + entryPath, unix.MS_BIND},
		{l.Exe, "", root + harnessPath, unix.MS_BIND},
		{l.Project, "", root + "/project", unix.MS_BIND},
		{"tmpfs", "tmpfs", root + "/tmp", 0},
	}
	for _, e := range l.Extra {
		list = append(list, bind{"tmpfs", "tmpfs", root + e, 0})
	}
	for _, b := range list {
		if err := placeFor(b.target, b.flags == unix.MS_BIND && b.source != l.Project); err != nil {
			return err
		}
		data := ""
		if b.fstype == "devpts" {
			data = "newinstance,ptmxmode=0666,mode=620"
		}
		if err := unix.Mount(b.source, b.target, b.fstype, b.flags, data); err != nil {
			return fmt.Errorf("mount %s: %w", b.target, err)
		}
		if b.source == l.Exe && (!l.Writable || b.target != root+harnessPath) {
			if err := unix.Mount("", b.target, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID, ""); err != nil {
				return fmt.Errorf("make %s read-only: %w", b.target, err)
			}
		}
	}
	for _, err := range []error{
		os.Symlink("pts/ptmx", root+"/dev/ptmx"), os.WriteFile(root+"/plain", []byte("no program\n"), 0o755),
		os.WriteFile(root+"/data", nil, 0o644), os.Chmod(root+"/tmp", 0o1777),
		os.Chdir(root), unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH), os.Chdir("/"),
	} {
		if err != nil {
			return fmt.Errorf("build root: %w", err)
		}
	}
	if l.RootRW {
		return nil
	}
	return unix.Mount("", "/", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, "")
}

// placeFor makes a mount point.
func placeFor(target string, file bool) error {
	if !file {
		return os.MkdirAll(target, 0o755)
	}
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		return err
	}
	return os.WriteFile(target, nil, 0o755)
}

// mounts is what aisb would expect of a layout.
func (l layout) mounts(t *testing.T) []handshake.Mount {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(l.Project, &st); err != nil {
		t.Fatal(err)
	}
	return []handshake.Mount{
		{Target: entryPath, ReadOnly: true},
		{Target: harnessPath, ReadOnly: true},
		{Target: "/project", Dev: st.Dev, Ino: st.Ino},
		{Target: "/tmp"},
	}
}
