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
	"github.com/aisb-dev/aisb/sandbox/podman"
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

	mountinfo string // path of pid 1's, on the host
	mounts    []mountinfo.Mount

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
	w.mounts, err = readMounts(w.mountinfo)
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
	full := s.watchRoom()
	for {
		var f *Failure
		select {
		case <-s.cut:
			return
		case <-s.ending.done:
			return
		case <-s.podman.done:
			return
		case <-tick.C:
			s.lookForPlanted()
			f = s.dog.look()
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

// watchRoom says when a disk is nearly full. It is apart from watch, since a disk can
// hang, one of the network's above all, and would take the look at the fence and the
// end of the run with it.
func (s *Session) watchRoom() <-chan *Failure {
	full := make(chan *Failure, 1) // nobody may want it any more
	go func() {
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-s.watched:
				return
			case <-tick.C:
			}
			if f := s.dog.lookForRoom(); f != nil {
				full <- f
				return
			}
		}
	}()
	return full
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
		return fenceChanged(err)
	}
	if err := w.lookAtMounts(); err != nil {
		return &Failure{Status: handshake.ExitProof, Err: fmt.Errorf("the sandbox was stopped: %w", err),
			Hint: "a file or directory that a mount lies on was replaced or removed on the host while the sandbox ran"}
	}
	return nil
}

func fenceChanged(err error) *Failure {
	return &Failure{Status: handshake.ExitProof, Err: fmt.Errorf("the sandbox was stopped: its fence was changed from outside: %w", err),
		Hint: "root of the container changed it, as 'podman exec' is, or a tool of the host that writes packet filter rules"}
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
	now, err := readMounts(w.mountinfo)
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

func readMounts(path string) ([]mountinfo.Mount, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("watch mounts: %w", err)
	}
	return mountinfo.Parse(string(text))
}

// keepRoom are the directories that the sandbox or aisb writes to.
func (s *Session) keepRoom() []string {
	dirs := []string{s.host.Paths.State}
	for _, m := range s.spec.Mounts {
		if !m.ReadOnly {
			dirs = append(dirs, m.Source)
		}
	}
	return dirs
}

// lookForRoom refuses a disk that is nearly full: the host needs room too.
func (w *watchdog) lookForRoom() *Failure {
	for _, dir := range w.room {
		var st unix.Statfs_t
		if w.min == 0 || unix.Statfs(dir, &st) != nil {
			continue // what can't be looked at is no reason to stop work
		}
		if free := st.Bavail * uint64(st.Bsize); free < w.min {
			return &Failure{Status: podman.StatusPodman, Err: fmt.Errorf("the disk is nearly full: %d MiB are left at %q", free>>20, dir),
				Hint: fmt.Sprintf("make room, or let aisb go on below %d MiB: --min-free SIZE, 0 for no limit", w.min>>20)}
		}
	}
	return nil
}

func (w *watchdog) close() {
	if w.filter != nil {
		w.filter.Close()
	}
}
