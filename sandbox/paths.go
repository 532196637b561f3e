package sandbox

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Paths are aisb's own directories on the host.
type Paths struct {
	Runtime string // $XDG_RUNTIME_DIR/aisb: gone with the login
	State   string // $XDG_STATE_HOME/aisb: logs, trust
	Cache   string // $XDG_CACHE_HOME/aisb: what can be made again
}

// ErrNoRuntimeDir reports that there is no private directory for run-time files.
var ErrNoRuntimeDir = errors.New("no private directory for run-time files")

// FindPaths reads the XDG variables through getenv. It makes nothing.
func FindPaths(getenv func(string) string, uid int) (Paths, error) {
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return Paths{}, fmt.Errorf("HOME is %q, not an absolute path", home)
	}
	runtime, which := getenv("XDG_RUNTIME_DIR"), "XDG_RUNTIME_DIR"
	if runtime == "" {
		// su and cron don't set it, yet the directory may be there.
		runtime, which = fmt.Sprintf("/run/user/%d", uid), "XDG_RUNTIME_DIR is not set, and"
	}
	if err := ownPrivateDir(runtime, uid); err != nil {
		return Paths{}, fmt.Errorf("%w: %s %v", ErrNoRuntimeDir, which, err)
	}
	// One spelling of /run and /var/run: the path is part of podman's
	// configuration, which is checked byte for byte.
	runtime, err := filepath.EvalSymlinks(runtime)
	if err != nil {
		return Paths{}, fmt.Errorf("%w: %s %v", ErrNoRuntimeDir, which, err)
	}
	return Paths{
		Runtime: filepath.Join(runtime, "aisb"),
		State:   filepath.Join(xdg(getenv("XDG_STATE_HOME"), home, ".local/state"), "aisb"),
		Cache:   filepath.Join(xdg(getenv("XDG_CACHE_HOME"), home, ".cache"), "aisb"),
	}, nil
}

// StateDir is where logs are kept, for those who need no run-time directory.
func StateDir(getenv func(string) string) (string, error) {
	home := getenv("HOME")
	if !filepath.IsAbs(home) {
		return "", fmt.Errorf("HOME is %q, not an absolute path", home)
	}
	return filepath.Join(xdg(getenv("XDG_STATE_HOME"), home, ".local/state"), "aisb"), nil
}

// xdg is value, or its default below home: a relative value is to be ignored
// (XDG Base Directory Specification).
func xdg(value, home, def string) string {
	if filepath.IsAbs(value) {
		return value
	}
	return filepath.Join(home, def)
}

// ownPrivateDir checks that nobody else can write to or swap dir.
func ownPrivateDir(dir string, uid int) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("%q is not an absolute path", dir)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || !info.IsDir() || int(st.Uid) != uid || info.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("%s is not a directory of uid %d with mode 0700", dir, uid)
	}
	return nil
}

// RunName makes a name for a run in dir: aisb-DIR-6hex, unique in practice. It
// is also the container's name, so only podman's characters are kept of dir.
func RunName(dir string) string {
	base := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, filepath.Base(dir))
	base = strings.Trim(base, "-_")
	if len(base) > 32 {
		base = strings.Trim(base[:32], "-_")
	}
	if base == "" {
		base = "dir"
	}
	var b [3]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return "aisb-" + base + "-" + hex.EncodeToString(b[:])
}

// RunDirs are the two directories of one run.
type RunDirs struct {
	Runtime string // removed when the run ends, by the gate if aisb is gone
	State   string // kept: the log
	held    *os.File
	uses    *claimed
}

// MakeRunDirs makes the one that is kept, 0700. That of an ended run of the same
// name gets another, and one of a run that goes on is an error. The
// other is only named: nothing lies in it yet. Who first needs it makes it once
// the gate is up, since before that nobody would remove it after a SIGKILL.
func (p Paths) MakeRunDirs(run string) (RunDirs, error) {
	d := RunDirs{
		Runtime: filepath.Join(p.Runtime, run),
		State:   filepath.Join(p.State, "runs", run),
	}
	if err := os.MkdirAll(filepath.Dir(d.State), 0o700); err != nil {
		return RunDirs{}, fmt.Errorf("make run directory: %w", err)
	}
	err := os.Mkdir(d.State, 0o700)
	if errors.Is(err, fs.ErrExist) {
		if err = setAside(d.State); err == nil {
			err = os.Mkdir(d.State, 0o700)
		}
	}
	if err != nil {
		return RunDirs{}, fmt.Errorf("make run directory: %w", err)
	}
	if d.held, err = hold(d.State); err != nil {
		return RunDirs{}, fmt.Errorf("make run directory: %w", err)
	}
	return d, nil
}

// LogPath is where the gate's log of a run lies.
func (d RunDirs) LogPath() string { return filepath.Join(d.State, "log.jsonl") }

// Remove removes the run's directory for run-time files.
func (d RunDirs) Remove() error {
	d.held.Close() // its log may go when it is an old one
	d.uses.release()
	if err := os.RemoveAll(d.Runtime); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove run directory: %w", err)
	}
	return nil
}
