package sandbox

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/podman"
)

// watchDisks says when a disk is nearly full, and tells of what has appeared in the
// project. It is apart from watch, since a disk can hang, one of the network's above
// all, and would take the look at the fence and the end of the run with it.
func (s *Session) watchDisks() <-chan *Failure {
	full := make(chan *Failure, 1) // nobody may want it any more
	go func() {
		defer close(s.disks)
		tick := time.NewTicker(watchEvery)
		defer tick.Stop()
		for {
			select {
			case <-s.watched:
				return
			case <-tick.C:
			}
			s.lookForPlanted()
			if f := s.dog.lookForRoom(); f != nil {
				full <- f
				return
			}
		}
	}()
	return full
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
