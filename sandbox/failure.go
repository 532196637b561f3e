package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// Failure is why a run did not start: the fence's, podman's or aisb's own.
type Failure struct {
	Status int
	Err    error
	Hint   string
}

func (f *Failure) Error() string { return f.Err.Error() }
func (f *Failure) Unwrap() error { return f.Err }

// ownPlaces is where aisb writes.
const ownPlaces = "aisb writes below XDG_STATE_HOME (~/.local/state), XDG_CACHE_HOME (~/.cache) and XDG_RUNTIME_DIR"

// killedOutside is the hint of a start that lost one of its processes.
const killedOutside = "something outside has ended it, such as kill or a lack of memory: run it again, and report it if it stays"

// startHints are what to do about errors of the machine that a start can meet at any of
// its steps.
var startHints = []struct {
	err   error
	place bool // only where it is a file's
	hint  string
}{
	{err: proc.ErrGone, hint: killedOutside},
	{err: unix.ENOSPC, place: true, hint: "the disk is full: make room, or take another one: " + ownPlaces},
	{err: unix.EDQUOT, place: true, hint: "your share of the disk is used up: make room, or take another one: " + ownPlaces},
	{err: unix.EROFS, place: true, hint: "take directories that you can write to: " + ownPlaces},
	{err: unix.EACCES, place: true, hint: "take directories that you can write to: " + ownPlaces},
	{err: unix.EMFILE, hint: "your limit of open files is too low: see ulimit -n, 1024 is usual"},
	{err: unix.ENFILE, hint: "the machine has no file to open left: see sysctl fs.file-max"},
}

// startFailure is the error of a start that failed, with what to do about it where that
// can be known.
func startFailure(ctx context.Context, err error) error {
	if context.Cause(ctx) == errStopped { //nolint:errorlint // the very one
		return &Failure{Status: 128 + int(syscall.SIGTERM), Err: errStopped}
	}
	if _, told := errors.AsType[*Failure](err); told {
		return err
	}
	if hint := StartHint(err); hint != "" {
		return &Failure{Status: podman.StatusPodman, Err: err, Hint: hint}
	}
	return err
}

// StartHint says what to do about an error of the machine, "" when unknown.
func StartHint(err error) string {
	_, place := errors.AsType[*fs.PathError](err)
	for _, h := range startHints {
		if errors.Is(err, h.err) && (place || !h.place) {
			return h.hint
		}
	}
	return ""
}
