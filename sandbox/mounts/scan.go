package mounts

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a scan. A tree beyond them is reported as not looked through; its
// listening sockets are still found by the kernel's own list.
const (
	scanEntries = 100_000
	scanTime    = 500 * time.Millisecond
	scanDepth   = 200 // each level holds a descriptor
)

// special is a socket or FIFO in a tree.
type special struct {
	rel      string // from the tree's top
	socket   bool
	dev, ino uint64
}

// scan walks a tree for sockets and FIFOs without following a link.
type scan struct {
	found    []special
	linked   []string // files with other names as well, of the first file in each directory
	looked   bool     // at the links of a file of this directory
	entries  int
	deadline time.Time
	capped   bool
	buf      []byte
}

func newScan() *scan {
	return &scan{deadline: time.Now().Add(scanTime), buf: make([]byte, 64<<10)}
}

// walk reads dir, which lies at rel. What can't be read is nobody's way in:
// the agent has no more rights than the user.
func (s *scan) walk(dir *os.File, rel string, depth int) {
	if depth > scanDepth {
		s.capped = true
		return
	}
	f, err := openDir(dir, ".")
	if err != nil {
		return
	}
	defer f.Close()
	s.looked = false
	var subdirs []string
	for !s.full() {
		n, err := unix.Getdents(int(f.Fd()), s.buf)
		if err == unix.EINTR {
			continue
		}
		if err != nil || n <= 0 {
			break
		}
		subdirs = s.dirents(f, rel, s.buf[:n], subdirs)
	}
	for _, name := range subdirs {
		if s.full() {
			return
		}
		sub, err := openBeneath(f, name, noLinks)
		if err != nil {
			continue
		}
		s.walk(sub, filepath.Join(rel, name), depth+1)
		sub.Close()
	}
}

func (s *scan) full() bool {
	if s.entries >= scanEntries || time.Now().After(s.deadline) {
		s.capped = true
	}
	return s.capped
}

// dirents reads the records of getdents64(2): inode 8, offset 8, length 2,
// type 1, name. Their type saves a stat for every file.
func (s *scan) dirents(f *os.File, rel string, b []byte, subdirs []string) []string {
	for len(b) >= 19 {
		size := int(binary.NativeEndian.Uint16(b[16:]))
		if size < 19 || size > len(b) {
			return subdirs
		}
		kind, name := b[18], b[19:size]
		b = b[size:]
		name, _, _ = bytes.Cut(name, []byte{0})
		if n := string(name); n != "." && n != ".." {
			s.entries++
			subdirs = s.entry(f, rel, n, kind, subdirs)
		}
	}
	return subdirs
}

func (s *scan) entry(f *os.File, rel, name string, kind byte, subdirs []string) []string {
	switch kind {
	case unix.DT_DIR:
		return append(subdirs, name)
	case unix.DT_SOCK, unix.DT_FIFO, unix.DT_UNKNOWN:
	case unix.DT_REG:
		// A sample: who makes hard links makes them of whole trees (git clone, cp -l,
		// package managers), and asking for each file would cost every start.
		if s.looked {
			return subdirs
		}
	default:
		return subdirs
	}
	var st unix.Stat_t
	if unix.Fstatat(int(f.Fd()), name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return subdirs
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		s.looked = true
		if st.Nlink > 1 {
			s.linked = append(s.linked, filepath.Join(rel, name))
		}
	case unix.S_IFDIR: // the file system doesn't tell types
		return append(subdirs, name)
	case unix.S_IFSOCK, unix.S_IFIFO:
		s.found = append(s.found, special{
			rel: filepath.Join(rel, name), socket: st.Mode&unix.S_IFMT == unix.S_IFSOCK,
			dev: st.Dev, ino: st.Ino,
		})
	}
	return subdirs
}

// openDir opens rel below dir for reading its entries.
func openDir(dir *os.File, rel string) (*os.File, error) {
	for {
		fd, err := unix.Openat2(int(dir.Fd()), rel, &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: noLinks,
		})
		if err == unix.EINTR || err == unix.EAGAIN {
			continue
		}
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), dir.Name()), nil
	}
}
