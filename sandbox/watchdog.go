package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

// watchEvery is how often a running sandbox is looked at. It bounds how long
// something can be off.
const watchEvery = time.Second

// watchdog looks from the host at what a running sandbox rests on: the ruleset,
// the mounts and the room on the disk. It ends a sandbox in which one of these
// isn't what it was at the start; nothing inside could change them, so whoever
// did was root of the container by another door, or the host.
type watchdog struct {
	filter     *nft.Watcher // nil without a fence
	rules      netpolicy.Ruleset
	generation uint32
	counted    map[string]nft.Count // at the start

	proc   *os.Root // pid 1's directory of /proc: not that of who gets its number later
	mounts []mountinfo.Mount

	pasta *pastaEnd

	room []string // directories whose file systems must keep room
	min  uint64   // bytes; 0 is no floor

	mu   sync.Mutex
	bite *Failure // why it ended the sandbox
}

// openWatchdog takes what the entrypoint has proved as what must stay.
func (s *Session) openWatchdog(filter *os.File, policy netpolicy.Spec) error {
	w := &s.dog
	var err error
	if w.rules, err = netpolicy.Render(policy); err != nil {
		return err
	}
	if blinded() {
		return nil
	}
	w.filter, err = nft.Watch(filter)
	return err
}

// arm takes the state of now, once. It comes as soon as the proof is through,
// while the entrypoint goes on: after the command's start every moment counts, for
// a signal that comes before the relay is lost.
func (w *watchdog) arm() error {
	if w.mounts != nil {
		return nil
	}
	var err error
	w.mounts, err = w.readMounts()
	if pidGone(err) {
		return nil // why it has ended comes in its next word
	}
	if err != nil {
		return err
	}
	if w.filter == nil {
		return nil
	}
	if w.generation, err = w.filter.Generation(); err != nil {
		return fmt.Errorf("watch the fence: %w", err)
	}
	if w.counted, err = w.filter.Counters(w.rules); err != nil {
		return fmt.Errorf("watch the fence: %w", err)
	}
	return nil
}

// watch looks until the sandbox ends, and ends it itself when something is off.
func (s *Session) watch() {
	defer close(s.watched)
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	full := s.watchDisks()
	for {
		var f *Failure
		select {
		case <-s.cut:
			return
		case <-s.ending.done:
			return
		case <-s.podman.done:
			if f = s.podmanLost(); f == nil {
				return
			}
		case <-tick.C:
			f = s.dog.look()
			s.dog.pasta.look()
		case f = <-full:
		case found := <-s.direct.answers():
			f = s.reopen(found)
		}
		if f == nil {
			continue
		}
		select {
		case <-s.ending.done: // its mounts have gone with it
			return
		default:
		}
		s.dog.mu.Lock()
		s.dog.bite = f
		s.dog.mu.Unlock()
		s.Kill()
		return
	}
}

// bitten is why the watchdog has ended the sandbox, or nil.
func (w *watchdog) bitten() *Failure {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.bite
}

// look compares fence and mounts once.
func (w *watchdog) look() *Failure {
	if err := w.lookAtFence(); err != nil {
		return fenceFailure(err)
	}
	if err := w.lookAtMounts(); err != nil {
		return &Failure{Status: handshake.ExitProof, Err: fmt.Errorf("the sandbox was stopped: %w", err),
			Hint: "a file or directory that a mount lies on was replaced or removed on the host while the sandbox ran"}
	}
	return nil
}

// fenceFailure is why a sandbox ends whose fence is another than it was, or can't be read
// or changed any more, so that nobody knows what holds.
func fenceFailure(err error) *Failure {
	if errors.Is(err, nft.ErrMismatch) || errors.Is(err, nft.ErrChanging) {
		return &Failure{Status: handshake.ExitProof, Err: fmt.Errorf("the sandbox was stopped: its fence was changed from outside: %w", err),
			Hint: "root of the container changed it, as 'podman exec' is, or a tool of the host that writes packet filter rules"}
	}
	return &Failure{Status: handshake.ExitProof, Err: fmt.Errorf("the sandbox was stopped: its fence can't be watched any more: %w", err),
		Hint: "nothing says that it was opened; run it again, and report it if it stays"}
}

// update lets the sets of the ruleset hold something else, and takes that as what must
// stay.
func (w *watchdog) update(policy netpolicy.Spec) error {
	rules, err := netpolicy.Render(policy)
	if err != nil || w.filter == nil || rules.String() == w.rules.String() {
		return err
	}
	now, err := w.filter.Update(w.rules, rules)
	if err != nil {
		return err
	}
	w.rules, w.generation = rules, now
	return nil
}

func (w *watchdog) lookAtFence() error {
	if w.filter == nil {
		return nil
	}
	now, err := w.filter.Generation()
	if err != nil || now == w.generation {
		return err
	}
	// Something was written. What counts is what is there now.
	if _, err := w.filter.Counters(w.rules); err != nil {
		return err
	}
	w.generation = now
	return nil
}

func (w *watchdog) lookAtMounts() error {
	now, err := w.readMounts()
	if pidGone(err) {
		return nil // pid 1 has ended, and so will this
	}
	if err != nil {
		return err
	}
	if len(now) == 0 {
		return nil // as above: a process that is going has none
	}
	return compareKept(w.mounts, now)
}

// compareKept returns an error if a mount is gone, new, writable that wasn't, or
// shows another file system. What of its source was renamed or deleted on the
// host shows in Root, and changes nothing inside.
func compareKept(before, now []mountinfo.Mount) error {
	key := func(m mountinfo.Mount) string {
		mode := "rw"
		if m.ReadOnly() {
			mode = "ro"
		}
		return strings.Join([]string{m.Target, m.Type, m.Device, mode}, "\x00")
	}
	had := map[string]int{}
	for _, m := range before {
		had[key(m)]++
	}
	for _, m := range now {
		if had[key(m)]--; had[key(m)] < 0 {
			if slices.ContainsFunc(before, func(b mountinfo.Mount) bool { return b.Target == m.Target }) {
				return fmt.Errorf("the mount on %q was changed from outside", m.Target)
			}
			return fmt.Errorf("a mount on %q was added from outside", m.Target)
		}
	}
	for _, m := range before {
		if had[key(m)] > 0 {
			return fmt.Errorf("the mount on %q is gone", m.Target)
		}
	}
	return nil
}

// pidGone reports whether a file of /proc/PID couldn't be read because that process
// has ended: one that is about to be gone has no namespaces any more, for which
// mountinfo says EINVAL (mounts_open_common in fs/proc_namespace.c).
func pidGone(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EINVAL)
}

func (w *watchdog) readMounts() ([]mountinfo.Mount, error) {
	text, err := w.proc.ReadFile("mountinfo")
	if err != nil {
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	return mountinfo.Parse(string(text))
}

func (w *watchdog) close() {
	w.pasta.close()
	if w.filter != nil {
		w.filter.Close()
	}
	if w.proc != nil {
		w.proc.Close()
	}
}
