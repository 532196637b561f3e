package mounts

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

// source is an opened part of the host.
type source struct {
	file     *os.File // O_PATH
	path     string   // absolute, clean, without symbolic links
	via      []string // symbolic links on the user's way to it
	dir      bool
	regular  bool
	links    uint64 // names of it
	device   bool
	socket   bool
	fifo     bool
	uid      int
	dev, ino uint64
}

func (s *source) mount(target string, ro bool) Mount {
	return Mount{Source: s.path, Target: target, ReadOnly: ro, Dev: s.dev, Ino: s.ino}
}

// open follows the user's path once and opens what it leads to; from then on a
// symbolic link in any component is an error, so nothing can be put in the way
// between the two.
func (p *Plan) open(path string) (*source, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	real, via, err := follow(abs)
	if err != nil {
		return nil, refuse("name something that exists", "%q: %v", path, errnoText(err))
	}
	s, err := p.openReal(real)
	if err == nil {
		s.via = via
	}
	return s, err
}

// is reports whether it is the file that info is of.
func (s *source) is(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Dev == s.dev && st.Ino == s.ino
}

// follow is filepath.EvalSymlinks for an absolute path, and tells by which
// symbolic links it went.
func follow(path string) (real string, via []string, err error) {
	const most = 40 // as the kernel (path_resolution(7))
	real = "/"
	for rest := path; rest != ""; {
		var name string
		name, rest, _ = strings.Cut(rest, "/")
		switch name {
		case "", ".":
			continue
		case "..":
			real = filepath.Dir(real)
			continue
		}
		next := filepath.Join(real, name)
		info, err := os.Lstat(next)
		if err != nil {
			return "", nil, err
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			real = next
			continue
		}
		target, err := os.Readlink(next)
		if err != nil {
			return "", nil, err
		}
		if via = append(via, next); len(via) > most {
			return "", nil, unix.ELOOP
		}
		if filepath.IsAbs(target) {
			real = "/"
		}
		rest = target + "/" + rest
	}
	return real, via, nil
}

// openReal opens an absolute path that may hold no symbolic link.
func (p *Plan) openReal(real string) (*source, error) {
	root, err := os.OpenFile("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := openBeneath(root, strings.TrimPrefix(real, "/"), noLinks)
	if errors.Is(err, unix.ELOOP) {
		return nil, refuse("run aisb again when nothing is changing the path", "%q: a symbolic link appeared in it", real)
	}
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", real, err)
	}
	s, err := newSource(f, real)
	if err != nil {
		f.Close()
		return nil, err
	}
	p.files = append(p.files, f)
	return s, nil
}

// openIn opens rel below parent, without any symbolic link.
func (p *Plan) openIn(parent *source, rel string) (*source, error) {
	f, err := openBeneath(parent.file, rel, noLinks)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", filepath.Join(parent.path, rel), err)
	}
	s, err := newSource(f, filepath.Join(parent.path, rel))
	if err != nil {
		f.Close()
		return nil, err
	}
	p.files = append(p.files, f)
	return s, nil
}

func newSource(f *os.File, path string) (*source, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("stat %q: no inode", path)
	}
	return &source{
		file: f, path: path, dir: info.IsDir(), regular: info.Mode().IsRegular(), links: uint64(st.Nlink), device: info.Mode()&fs.ModeDevice != 0, socket: info.Mode()&fs.ModeSocket != 0, //nolint:unconvert // 32 bits on arm64
		fifo: info.Mode()&fs.ModeNamedPipe != 0,
		uid:  int(st.Uid), dev: st.Dev, ino: st.Ino,
	}, nil
}

// oneName refuses a file that has other names as well: what is written
// under one of them shows in the mount, read-only or not, and an agent may have
// made it where it can write.
func (s *source) oneName() error {
	if !s.regular || s.links < 2 {
		return nil
	}
	return refuse("mount a copy of it, or the directory that it lies in: find DIR -samefile FILE shows the other names",
		"%q is not mounted: it has %d hard links, and whoever writes to another one changes it", s.path, s.links)
}

// ledOut refuses a source that lies outside of a writable mount and to which a
// link in that mount led: the agent of an earlier run may have put it there. In the
// project it may have done so although that is read-only this time.
func (s *source) ledOut(ms []Mount) error {
	for _, m := range ms {
		for _, link := range s.via {
			if (!m.ReadOnly || m.Target == Project) && within(filepath.Dir(link), m.Source) && !within(s.path, m.Source) {
				return refuse("if you mean it, name what it leads to: "+s.path,
					"the symbolic link %q leads out of %q, and an agent can have made it", link, m.Source)
			}
		}
	}
	return nil
}

// Resolution of openBeneath (openat2(2)).
const (
	noLinks      = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
	followInside = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS
)

// openBeneath opens rel below dir for naming only (O_PATH).
func openBeneath(dir *os.File, rel string, resolve uint64) (*os.File, error) {
	if rel == "" {
		rel = "."
	}
	how := &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve}
	for {
		fd, err := unix.Openat2(int(dir.Fd()), rel, how)
		// EAGAIN: something was renamed meanwhile and RESOLVE_BENEATH could not
		// be decided; EINTR as ever.
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), filepath.Join(dir.Name(), rel)), nil
	}
}

// openRegular opens a regular file below a directory for reading. Below that
// nothing may be a link, and nothing is waited for, as the opening of a FIFO waits
// for its writer.
func openRegular(path, rel string) (*os.File, error) {
	dir, err := os.OpenFile(path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return openRegularBeneath(dir, rel)
}

func openRegularBeneath(dir *os.File, rel string) (*os.File, error) {
	f, err := openBeneath(dir, rel, noLinks)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", rel)
	}
	// The descriptor is of the checked file: opening the name again could be
	// another one.
	return os.Open(fmt.Sprintf("/proc/self/fd/%d", f.Fd()))
}

// readSmall reads a small regular file of a directory in the same way.
func readSmall(dir, rel string, limit int64) ([]byte, error) {
	f, err := openRegular(dir, rel)
	if err != nil {
		return nil, err
	}
	return readAtMost(f, limit)
}

// readBeneath reads a small regular file below dir, without any symbolic link.
func readBeneath(dir *os.File, rel string, limit int64) ([]byte, error) {
	f, err := openRegularBeneath(dir, rel)
	if err != nil {
		return nil, err
	}
	return readAtMost(f, limit)
}

// readAtMost reads a file to its end and closes it. One that is longer is an error.
func readAtMost(f *os.File, limit int64) ([]byte, error) {
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("it is larger than %d bytes", limit)
	}
	return b, err
}

// errnoText is the bare reason of a file system error, for messages that name
// the path themselves.
func errnoText(err error) string {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err.Error()
	}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		if errno == unix.EXDEV {
			return "leads out of it" // RESOLVE_BENEATH
		}
		return errno.Error()
	}
	return err.Error()
}
