// Package trust reads the configuration files so that nobody but the user decides
// what aisb may do: the user's own file only where no other user can write, and a
// project's file, which an agent can write, through no link. It keeps which content
// of a project's file the user has approved, where no sandbox can write.
package trust

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// ProjectName is the name of a project's file, which lies at the top of what is
// mounted and is looked for nowhere else.
const ProjectName = ".aisb.toml"

// maxSize bounds a configuration file.
const maxSize = 256 << 10

// Problem is why a file isn't read, and what to do about it.
type Problem struct {
	Path   string
	Reason string
	Hint   string
}

func (p *Problem) Error() string { return fmt.Sprintf("%q %s", p.Path, p.Reason) }

// ReadUser reads the file of the user uid. It returns nil when there is none, and a
// *Problem when another user could have written it: the rules of every run stand in
// it. Where it really lies, links followed, is returned too.
func ReadUser(path string, uid int) (data []byte, real string, err error) {
	if real, err = filepath.EvalSymlinks(path); err != nil {
		if _, lerr := os.Lstat(path); errors.Is(lerr, fs.ErrNotExist) {
			return nil, path, nil
		}
		return nil, path, &Problem{Path: path, Reason: "can't be read: " + reason(err), Hint: "make it a file that you can read, or remove it"}
	}
	dir, err := os.Stat(filepath.Dir(real))
	if err == nil {
		err = private(filepath.Dir(real), dir, uid)
	}
	if err != nil {
		return nil, real, err
	}
	f, err := os.OpenFile(real, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0) // a FIFO is waited for by nobody
	if err != nil {
		return nil, real, &Problem{Path: path, Reason: "can't be read: " + reason(err), Hint: "make it a file that you can read, or remove it"}
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil {
		err = private(real, info, uid)
	}
	if err != nil {
		return nil, real, err
	}
	data, err = readAll(f, info, path)
	return data, real, err
}

// private refuses what another user than uid and root can write to.
func private(path string, info fs.FileInfo, uid int) error {
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok || int(st.Uid) != uid && st.Uid != 0:
		return &Problem{Path: path, Reason: "belongs to another user, who so decides what your sandboxes may do", Hint: "make it your own: chown, or move it away"}
	case info.Mode().Perm()&0o022 != 0:
		return &Problem{Path: path, Reason: fmt.Sprintf("can be written by other users (mode %04o), who so decide what your sandboxes may do", info.Mode().Perm()),
			Hint: fmt.Sprintf("chmod go-w %q", path)}
	}
	return nil
}

// Project is a project's file as it was read, once: what is judged is what is
// applied.
type Project struct {
	Dir  string // of the project, as the kernel names it: without links
	Data []byte // nil when there is no file
}

// ReadProject reads the file at the top of the project dir. A link in its place, or
// anything but a file, is a *Problem: its denials can't be told.
func ReadProject(dir string) (Project, error) {
	top, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return Project{}, fmt.Errorf("open the project: %w", err)
	}
	defer top.Close()
	var p Project
	if p.Dir, err = os.Readlink(fmt.Sprintf("/proc/self/fd/%d", top.Fd())); err != nil {
		return Project{}, fmt.Errorf("name the project: %w", err)
	}
	hint := "an agent can have put it there: look at it, then remove it"
	f, err := openIn(top, ProjectName)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p, nil
	case errors.Is(err, unix.ELOOP):
		return p, &Problem{Path: ProjectName, Reason: "is a symbolic link, which is not followed", Hint: hint}
	case errors.Is(err, unix.ENXIO): // a socket
		return p, &Problem{Path: ProjectName, Reason: "is no file", Hint: hint}
	case err != nil:
		return p, &Problem{Path: ProjectName, Reason: "can't be read: " + reason(err), Hint: "make it a file that you can read, or remove it"}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return p, fmt.Errorf("read %s: %w", ProjectName, err)
	}
	p.Data, err = readAll(f, info, ProjectName)
	return p, err
}

// openIn opens a file of a directory, following no link (openat2(2)).
func openIn(dir *os.File, name string) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), name, how)
		if err == unix.EINTR || err == unix.EAGAIN { // something was renamed meanwhile
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), name), nil
	}
}

// readAll reads a file, which is never nil then, even when it is empty.
func readAll(f *os.File, info fs.FileInfo, name string) ([]byte, error) {
	if !info.Mode().IsRegular() {
		return nil, &Problem{Path: name, Reason: "is no file", Hint: "remove it"}
	}
	data, err := io.ReadAll(io.LimitReader(f, maxSize+1))
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", name, err)
	}
	if len(data) > maxSize {
		return nil, &Problem{Path: name, Reason: fmt.Sprintf("has more than %d KiB", maxSize>>10), Hint: "a long list of rules belongs into a file of its own: allow-files"}
	}
	return append([]byte{}, data...), nil
}

// reason is the bare reason of a file system's error.
func reason(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		err = e.Err
	}
	return strings.TrimPrefix(err.Error(), "lstat ")
}
