package home

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Bounds of a look: an agent may have put anything there.
const (
	maxNames = 1000    // of one directory
	maxRead  = 1 << 20 // of one file, to tell whether it is another
)

// Entry is a file of a home that matters.
type Entry struct {
	Path     string // below the home
	Kinds    []Kind
	Mode     fs.FileMode
	Size     int64
	Modified time.Time
	More     bool // a directory of which not all was looked at

	mark string // is another when the file is
}

// Look finds what lies at the places of the home in dir, by path. It opens regular
// files alone and waits for nothing. What a link leads to is not looked at: the
// link is the entry.
func Look(dir string, places []Place) ([]Entry, error) {
	root, err := os.OpenFile(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("look at the home: %w", err)
	}
	defer root.Close()
	l := look{root: root, found: map[string]*Entry{}}
	for _, p := range places {
		if err := l.place(p); err != nil {
			return nil, fmt.Errorf("look at the home: %w", err)
		}
	}
	var list []Entry
	for _, e := range l.found {
		list = append(list, *e)
	}
	slices.SortFunc(list, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	return list, nil
}

type look struct {
	root  *os.File
	found map[string]*Entry
}

// place adds what lies at one place.
func (l look) place(p Place) error {
	if !strings.ContainsAny(p.Pattern, "*?[") {
		return l.add(p.Pattern, p.Kind)
	}
	dir, pattern := path.Split(p.Pattern)
	dir = path.Clean(dir)
	f, err := l.open(dir, unix.O_RDONLY|unix.O_DIRECTORY)
	switch {
	case nothing(err):
		return nil
	case errors.Is(err, unix.ELOOP):
		return l.add(dir, p.Kind) // a link on the way, which is what matters
	case errors.Is(err, fs.ErrPermission):
		l.shut(dir, p.Kind)
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	names, err := f.Readdirnames(maxNames + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if len(names) > maxNames {
		names = names[:maxNames]
		l.part(dir, p.Kind, "more")
	}
	for _, name := range names {
		if ok, err := path.Match(pattern, name); err != nil {
			return err
		} else if ok {
			if err := l.add(path.Join(dir, name), p.Kind); err != nil {
				return err
			}
		}
	}
	return nil
}

// add adds one file, if it is there and no directory.
func (l look) add(name string, kind Kind) error {
	if e := l.found[name]; e != nil {
		if !slices.Contains(e.Kinds, kind) {
			e.Kinds = append(e.Kinds, kind)
		}
		return nil
	}
	f, err := l.open(name, unix.O_PATH|unix.O_NOFOLLOW)
	switch {
	case nothing(err):
		return nil
	case errors.Is(err, unix.ELOOP):
		return l.add(path.Dir(name), kind) // it ends: what lies in the home itself has no link before it
	case errors.Is(err, fs.ErrPermission):
		l.shut(name, kind)
		return nil
	case err != nil:
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.IsDir() {
		return err
	}
	e := &Entry{Path: name, Kinds: []Kind{kind}, Mode: info.Mode(), Size: info.Size(), Modified: info.ModTime()}
	e.mark = l.mark(f, name, info)
	l.found[name] = e
	return nil
}

// part adds a directory of which not all can be looked at.
func (l look) part(dir string, kind Kind, why string) {
	l.found[dir] = &Entry{Path: dir, Mode: fs.ModeDir, Kinds: []Kind{kind}, More: true, mark: why}
}

// shut adds the directory on the way to name that can't be entered or, if that is
// the last, can't be read.
func (l look) shut(name string, kind Kind) {
	for i, c := range name {
		if c != '/' {
			continue
		}
		f, err := l.open(name[:i], unix.O_PATH|unix.O_NOFOLLOW)
		if errors.Is(err, fs.ErrPermission) {
			l.part(path.Dir(name[:i]), kind, "shut")
			return
		}
		f.Close()
	}
	dir := name
	if f, err := l.open(name, unix.O_PATH|unix.O_NOFOLLOW); err == nil {
		f.Close()
	} else {
		dir = path.Dir(name)
	}
	l.part(dir, kind, "shut")
}

// nothing is the error of a path that leads to no file.
func nothing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ENAMETOOLONG)
}

// open opens a path below the home that holds no link, but perhaps as its last part.
// It never waits, as for the writer of a FIFO.
func (l look) open(name string, flags uint64) (*os.File, error) {
	how := &unix.OpenHow{
		Flags:   flags | unix.O_CLOEXEC | unix.O_NONBLOCK,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	}
	if flags&unix.O_PATH != 0 {
		how.Flags &^= unix.O_NONBLOCK // openat2(2) refuses what O_PATH ignores
	}
	for range 1000 {
		fd, err := unix.Openat2(int(l.root.Fd()), name, how)
		if err == unix.EINTR || err == unix.EAGAIN { // as something was renamed meanwhile
			continue
		}
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return os.NewFile(uintptr(fd), name), nil
	}
	return nil, &fs.PathError{Op: "open", Path: name, Err: unix.EAGAIN}
}

// mark is another when the file is another one: by content where that can be read,
// otherwise by the time of the last change, which nobody in a sandbox can set.
func (l look) mark(f *os.File, name string, info fs.FileInfo) string {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return "unknown"
	}
	outside := fmt.Sprintf("%v %d %d %d.%d", info.Mode(), st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		buf := make([]byte, unix.PathMax)
		if n, err := unix.Readlinkat(int(f.Fd()), "", buf); err == nil {
			return "link " + string(buf[:n])
		}
	case info.Mode().IsRegular() && info.Size() <= maxRead:
		if sum, err := l.sum(name); err == nil {
			return info.Mode().String() + " " + sum
		}
	case !info.Mode().IsRegular():
		return info.Mode().String()
	}
	return outside
}

var errNotRead = errors.New("not a regular file that can be read whole")

func (l look) sum(name string) (string, error) {
	f, err := l.open(name, unix.O_RDONLY|unix.O_NOFOLLOW)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errNotRead
	}
	h := sha256.New()
	if n, err := io.Copy(h, io.LimitReader(f, maxRead+1)); err != nil || n > maxRead {
		return "", errNotRead
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}

// Change is a file that differs between two looks.
type Change struct {
	Path string
	What string // new, changed or removed
}

// Compare tells two looks at the same places apart, by path.
func Compare(before, after []Entry) []Change {
	old := map[string]Entry{}
	for _, e := range before {
		old[e.Path] = e
	}
	var list []Change
	for _, e := range after {
		was, ok := old[e.Path]
		delete(old, e.Path)
		switch {
		case !ok:
			list = append(list, Change{e.Path, "new"})
		case was.mark != e.mark:
			list = append(list, Change{e.Path, "changed"})
		}
	}
	for name := range old {
		list = append(list, Change{name, "removed"})
	}
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Path, b.Path) })
	return list
}
