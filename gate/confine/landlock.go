package confine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
	"golang.org/x/sys/unix"
)

// Landlock is the version of the kernel's Landlock, or the error says why there is
// none for this process.
func Landlock() (abi int, err error) {
	abi, err = ll.LandlockGetABIVersion()
	switch {
	case errors.Is(err, unix.ENOSYS):
		return 0, errors.New("this kernel has no Landlock (CONFIG_SECURITY_LANDLOCK, Linux 5.13)")
	case errors.Is(err, unix.EOPNOTSUPP):
		return 0, errors.New("this kernel was booted without its Landlock")
	case err != nil:
		return 0, fmt.Errorf("ask for Landlock: %w", err)
	}
	return abi, nil
}

// handled are the rights that are taken away where no rule gives them: everything
// that the kernel knows of files, and
//   - binding TCP sockets: listeners are there already. Not connecting, and nothing
//     of UDP, where a query binds its socket by itself.
//   - abstract unix sockets of others, although the filter has no unix sockets at
//     all. Not signals: before Landlock's erratum 2 was mended (Linux 6.15) threads
//     that were each restricted could not signal one another, by which Go stops
//     them; the filter knows this process's number.
var handled = landlock.Config{
	HandledAccessFS:  ll.AccessFSResolveUnix<<1 - 1,
	HandledAccessNet: ll.AccessNetBindTCP,
	Scoped:           ll.ScopeAbstractUnixSocket,
}

// restrict takes the rights away from all threads.
func (n Needs) restrict() error {
	rules, err := n.rules()
	if err != nil {
		return err
	}
	return handled.BestEffort().Restrict(rules...)
}

// rules give rights back.
func (n Needs) rules() ([]landlock.Rule, error) {
	readable, err := n.Readable()
	if err != nil {
		return nil, err
	}
	give := func(rights landlock.AccessFSSet, dirs ...string) landlock.Rule {
		return landlock.PathAccess(rights, dirs...).IgnoreIfMissing()
	}
	// Reading a file by its name takes no right to list its directory.
	rules := []landlock.Rule{give(ll.AccessFSReadFile, readable...)}
	if n.Self {
		// A rule holds on to an inode, and /proc makes another one when memory is
		// short: unless its directory stays open.
		fd, err := unix.Open("/proc/self", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, fmt.Errorf("open /proc/self: %w", err)
		}
		rules = append(rules, give(ll.AccessFSReadFile|ll.AccessFSReadDir, fmt.Sprintf("/proc/self/fd/%d", fd)))
	}
	if n.Scratch != "" {
		rules = append(rules,
			give(ll.AccessFSReadDir|ll.AccessFSRemoveFile|ll.AccessFSRemoveDir, n.Scratch),
			give(ll.AccessFSRemoveDir, filepath.Dir(n.Scratch))) // that is of empty ones, rmdir(2)
	}
	return rules, nil
}

// Readable are the directories below which every file stays readable.
func (n Needs) Readable() ([]string, error) {
	dirs := slices.Clone(n.Dirs)
	for _, name := range n.Files {
		more, err := through(name)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, more...)
	}
	slices.Sort(dirs)
	return slices.Compact(dirs), nil
}

// maxLinks is how many links the kernel follows (path_resolution(7)).
const maxLinks = 40

// through are the directories that a name leads through: its own, and that of each
// link's target. A file that is not there yet has one too. Nothing is cleaned before
// it is resolved, since a/../b is in another directory than b where a is a link.
func through(name string) ([]string, error) {
	at := name
	if !filepath.IsAbs(name) {
		here, err := os.Getwd()
		if err == nil {
			here, err = filepath.EvalSymlinks(here)
		}
		if err != nil {
			return nil, fmt.Errorf("find %s: %w", name, err)
		}
		at = here + "/" + name
	}
	var dirs []string
	for range maxLinks {
		slash := strings.LastIndexByte(at, '/')
		dir, err := filepath.EvalSymlinks(at[:slash+1])
		if err != nil {
			return dirs, nil //nolint:nilerr // nothing to read there, now or through this name
		}
		dirs = append(dirs, dir)
		to, err := os.Readlink(dir + "/" + at[slash+1:])
		if err != nil {
			return dirs, nil //nolint:nilerr // no link: this is the file
		}
		if at = to; !filepath.IsAbs(to) {
			at = dir + "/" + to
		}
	}
	return dirs, nil
}
