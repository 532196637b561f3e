package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// HostLoopback is the address in the container's namespace that pasta maps to
// the host's 127.0.0.1. podman takes 169.254.1.1 (DNS forwarder) and
// 169.254.1.2 (host) for itself.
var HostLoopback = netip.MustParseAddr("169.254.1.3")

// HostLoopback6 is the same for ::1: on a host without IPv4 the container has
// none either. It is of the networks that everybody may choose at random for
// himself (RFC 4193, section 3.2.2), so that it is nobody's.
var HostLoopback6 = netip.MustParseAddr("fd3d:8b5a:61e7::3")

// DNSForward is the address on which podman always lets pasta answer DNS: it
// can't be switched off, so the fence closes it and the proof tries it.
var DNSForward = netip.MustParseAddr("169.254.1.1")

// pastaOptions are aisb's options of pasta in a mode: an address mapped to the
// host's loopback, with a gate one of each family, nothing forwarded in either
// direction, no other way to the host. With an open network the host's loopback
// stays unmapped too.
func pastaOptions(mode NetMode) []string {
	options := []string{"--map-host-loopback", HostLoopback.String()}
	switch mode {
	case NetFull:
		options[1] = "none"
	case NetAllow, NetNoGate:
		options = append(options, "--map-host-loopback", HostLoopback6.String())
	}
	return append(options,
		"--map-guest-addr", "none",
		"-t", "none", "-u", "none", "-T", "none", "-U", "none",
		"--no-map-gw")
}

// PastaOptions are those of a run with a gate, for who asks whether the host's
// pasta takes them.
func PastaOptions() []string { return pastaOptions(NetAllow) }

// pastaNetwork is the value of podman's --network.
func pastaNetwork(mode NetMode) string {
	return "pasta:" + strings.Join(pastaOptions(mode), ",")
}

// pastaAllowed are arguments that podman 5 adds by itself, harmless as given.
// The values of --dns-forward and --netns vary.
var pastaAllowed = []string{"--config-net", "--quiet", "--ipv4-only", "--ipv6-only"}

// checkPastaArgs compares the running pasta's arguments (without argv[0]) with
// what aisb asked for and podman adds. Anything else is an error: it would be a
// way out, or a way in.
func checkPastaArgs(args []string, mode NetMode) error {
	seen, err := splitPastaArgs(args)
	if err != nil {
		return err
	}
	want, err := splitPastaArgs(pastaOptions(mode))
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		values := want[name]
		if got := seen[name]; !slices.Equal(got, values) {
			return fmt.Errorf("argument %q is %q, not %q", name, got, values)
		}
		delete(seen, name)
	}
	delete(seen, "--netns")
	if got, ok := seen["--dns-forward"]; ok && !slices.Equal(got, []string{DNSForward.String()}) {
		return fmt.Errorf("argument %q is %q, not %q", "--dns-forward", got, DNSForward)
	}
	delete(seen, "--dns-forward")
	for name, values := range seen {
		return fmt.Errorf("unexpected argument %q %q", name, values)
	}
	return nil
}

// splitPastaArgs are the values of each option, sorted and each once, without
// those that are always harmless.
func splitPastaArgs(args []string) (map[string][]string, error) {
	seen := map[string][]string{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		name, value, joined := strings.Cut(arg, "=")
		switch {
		case slices.Contains(pastaAllowed, arg):
			continue
		case arg == "--no-map-gw":
		case !strings.HasPrefix(arg, "-"):
			return nil, fmt.Errorf("unexpected argument %q", arg)
		case !joined:
			if i++; i >= len(args) {
				return nil, fmt.Errorf("argument %q has no value", arg)
			}
			value = args[i]
		}
		if !slices.Contains(seen[name], value) {
			seen[name] = append(seen[name], value)
			slices.Sort(seen[name])
		}
	}
	return seen, nil
}

// ErrNoPasta reports that the container's namespace has no pasta of the user.
var ErrNoPasta = errors.New("no pasta process serves the container's network namespace")

// FindPasta returns the process that serves the network namespace of the
// container whose first process has host pid. It compares namespaces by inode,
// not names, and checks the arguments that pasta runs with, which are the mode's.
// proc is /proc.
func FindPasta(proc string, pid, uid int, mode NetMode) (int, error) {
	netns, err := inode(filepath.Join(proc, strconv.Itoa(pid), "ns/net"))
	if err != nil {
		return 0, fmt.Errorf("find pasta: %w", err)
	}
	// podman keeps its namespaces' names in a mount namespace of its own,
	// which conmon, the parent of the container's first process, lives in.
	parent, err := parentOf(proc, pid)
	if err != nil {
		return 0, fmt.Errorf("find pasta: %w", err)
	}
	root := filepath.Join(proc, strconv.Itoa(parent), "root")
	entries, err := os.ReadDir(proc)
	if err != nil {
		return 0, fmt.Errorf("find pasta: %w", err)
	}
	for _, e := range entries {
		candidate, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		args, ok := pastaArgs(proc, candidate, uid)
		if !ok {
			continue
		}
		i := slices.Index(args, "--netns")
		if i < 0 || i+1 >= len(args) {
			continue
		}
		if ino, err := namedInode(root, args[i+1]); err != nil || ino != netns {
			continue
		}
		if err := checkPastaArgs(args, mode); err != nil {
			return 0, fmt.Errorf("pasta (process %d) runs with other arguments than aisb's: %w", candidate, err)
		}
		return candidate, nil
	}
	return 0, ErrNoPasta
}

// pastaArgs are the arguments, without argv[0], of process pid if it is a
// pasta of user uid.
func pastaArgs(proc string, pid, uid int) ([]string, bool) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	info, err := os.Stat(dir)
	if err != nil {
		return nil, false
	}
	// A process that is not dumpable belongs to root in /proc.
	if st, ok := info.Sys().(*syscall.Stat_t); !ok || (int(st.Uid) != uid && st.Uid != 0) {
		return nil, false
	}
	comm, err := os.ReadFile(filepath.Join(dir, "comm"))
	if err != nil || !strings.HasPrefix(string(comm), "pasta") {
		return nil, false
	}
	line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
	if err != nil || len(line) == 0 {
		return nil, false
	}
	var args []string
	for arg := range bytes.SplitSeq(bytes.TrimSuffix(line, []byte{0}), []byte{0}) {
		args = append(args, string(arg))
	}
	return args[1:], true
}

// parentOf reads the PPid of a process.
func parentOf(proc string, pid int) (int, error) {
	status, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if v, ok := strings.CutPrefix(line, "PPid:"); ok {
			return strconv.Atoi(strings.TrimSpace(v))
		}
	}
	return 0, fmt.Errorf("process %d has no parent", pid)
}

// namedInode is the inode of a path below root that holds no link: what podman
// names is a file, but a process of another sandbox, which may call itself pasta
// too, could name any namespace by /proc/PID/ns/net or a link to that.
func namedInode(root, path string) (uint64, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(dir)
	fd, err := unix.Openat2(dir, strings.TrimLeft(path, "/"), &unix.OpenHow{
		Flags:   unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return 0, err
	}
	return st.Ino, nil
}

func inode(path string) (uint64, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, fmt.Errorf("%s has no inode", path)
	}
	return st.Ino, nil
}
