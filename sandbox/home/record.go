package home

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/newer"
)

// ErrInUse reports that a running sandbox uses a home.
var ErrInUse = errors.New("a running sandbox uses it")

// Records is the directory of what aisb remembers of the homes, a file each: where
// podman keeps the volume, so that a start need not ask, and by its time the last
// use. A run holds a lock on it, which no death leaves behind.
type Records struct{ Dir string }

// recordFormat is the format of a record. Raise it when one who knows the format before
// would take another directory for the home.
const recordFormat = 1

// record is what a file holds.
type record struct {
	Format     int    `json:"format"`
	Mountpoint string `json:"mountpoint"`
}

// Held is a home that this process uses, or is about to remove.
type Held struct{ file *os.File }

// Use holds a home that is about to be used. Several may.
func (r Records) Use(name string) (*Held, error) { return r.hold(name, unix.LOCK_SH) }

// Take holds a home that is about to be removed, for this process alone. It
// returns ErrInUse when another uses it.
func (r Records) Take(name string) (*Held, error) {
	h, err := r.hold(name, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = ErrInUse
	}
	return h, err
}

func (r Records) hold(name string, how int) (*Held, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(r.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("hold the home: %w", err)
	}
	for {
		f, err := os.OpenFile(filepath.Join(r.Dir, name), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, fmt.Errorf("hold the home: %w", err)
		}
		if err := flock(f, how); err != nil {
			f.Close()
			return nil, fmt.Errorf("hold the home: %w", err)
		}
		var st unix.Stat_t
		if err := unix.Fstat(int(f.Fd()), &st); err != nil || st.Nlink > 0 {
			return &Held{f}, err
		}
		f.Close() // it was removed while this one waited
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := unix.Flock(int(f.Fd()), how); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// Mountpoint is where the home lies, as noted; "" when that isn't known, or nothing
// lies there any more. It returns a *newer.Error when a newer aisb has noted it.
func (h *Held) Mountpoint() (string, error) {
	var text json.RawMessage
	var head struct{ Format int }
	var r record
	// What can't be read says nothing: it is empty, or another is just writing the same.
	_ = json.NewDecoder(io.NewSectionReader(h.file, 0, 1<<16)).Decode(&text)
	_ = json.Unmarshal(text, &head)
	if err := newer.Check(h.file.Name(), head.Format, recordFormat); err != nil {
		return "", err
	}
	if _ = json.Unmarshal(text, &r); !filepath.IsAbs(r.Mountpoint) || !isDir(r.Mountpoint) {
		return "", nil
	}
	return r.Mountpoint, nil
}

func isDir(path string) bool {
	info, err := os.Lstat(path)
	return err == nil && info.IsDir()
}

// Note notes where the home lies.
func (h *Held) Note(mountpoint string) error {
	text, err := json.Marshal(record{recordFormat, mountpoint})
	if err == nil {
		_, err = h.file.WriteAt(append(text, '\n'), 0)
	}
	if err == nil {
		err = h.file.Truncate(int64(len(text)) + 1)
	}
	if err != nil {
		return fmt.Errorf("note where the home is: %w", err)
	}
	return nil
}

// Used notes a use.
func (h *Held) Used(now time.Time) error {
	if err := os.Chtimes(h.file.Name(), now, now); err != nil {
		return fmt.Errorf("note the use of the home: %w", err)
	}
	return nil
}

// Forget removes what is remembered of a home that is gone.
func (h *Held) Forget() error {
	if err := os.Remove(h.file.Name()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forget the home: %w", err)
	}
	return nil
}

// Close lets go.
func (h *Held) Close() error { return h.file.Close() }

// LastUse is when a run last used a home; the zero time when none is known to have.
func (r Records) LastUse(name string) time.Time {
	info, err := os.Lstat(filepath.Join(r.Dir, name))
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// Names are the homes that are remembered, used or not, podman's or not.
func (r Records) Names() []string {
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if CheckName(e.Name()) == nil {
			names = append(names, e.Name())
		}
	}
	return names
}
