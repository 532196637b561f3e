package entry

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

// inspect compares what podman made with what aisb asked for, by the kernel's
// own account.
func (e *entry) inspect() *failure {
	refuse := func(err error) *failure {
		return &failure{handshake.Fenced, handshake.ExitProof, fmt.Errorf("container is not what was asked for: %w", err),
			"extra podman arguments, hooks of the container runtime or another program may have changed it"}
	}
	for _, m := range []struct {
		file, kind string
		want       handshake.IDMap
	}{
		{"/proc/self/uid_map", "uid", e.cfg.UserMap},
		{"/proc/self/gid_map", "gid", e.cfg.GroupMap},
	} {
		text, err := os.ReadFile(m.file)
		if err == nil {
			err = checkIDMap(m.kind, string(text), m.want)
		}
		if err != nil {
			return refuse(err)
		}
	}
	nnp, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil || nnp != 1 {
		return refuse(fmt.Errorf("no_new_privs is %d (%v)", nnp, err))
	}
	mounts, err := mountinfo.Read()
	if err != nil {
		return refuse(fmt.Errorf("read mounts: %w", err))
	}
	if wrong := compareMounts(mounts, e.cfg.Mounts); wrong != "" {
		return refuse(errors.New(wrong))
	}
	for _, m := range e.cfg.Mounts {
		err := checkSource(m)
		if errors.Is(err, unix.EACCES) {
			// Root in here has no right to pass the user's directories. The
			// command's user has, so it looks once it is that user.
			e.retry = append(e.retry, m)
			continue
		}
		if err != nil {
			return refuse(err)
		}
	}
	return nil
}

// checkSource compares what lies on a mount point with what aisb opened on the
// host: a source that was swapped in between has another inode.
func checkSource(m handshake.Mount) error {
	if m.Ino == 0 {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Stat(m.Target, &st); err != nil {
		return fmt.Errorf("look at mount %q: %w", m.Target, err)
	}
	if st.Dev != m.Dev || st.Ino != m.Ino {
		return fmt.Errorf("mount %q shows another file or directory than aisb opened", m.Target)
	}
	return nil
}

// checkIDMap refuses the map of the initial user namespace, in which root in
// here would be the host's root, and one in which another id than expected is
// the user's. A map is one to one (user_namespaces(7)), so no second id in here
// can be the user's.
func checkIDMap(kind, text string, want handshake.IDMap) error {
	mapped, to := false, uint64(0)
	for line := range strings.Lines(text) {
		var inside, outside, count uint64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return fmt.Errorf("malformed %s map %q", kind, text)
		}
		if count == 1<<32-1 {
			return errors.New("it has no user namespace of its own")
		}
		if in := uint64(want.Inside); inside <= in && in-inside < count {
			mapped, to = true, outside+in-inside
		}
	}
	switch {
	case !mapped:
		return fmt.Errorf("%s %d is not mapped in it", kind, want.Inside)
	case to != uint64(want.Outside):
		return fmt.Errorf("%s %d is not you: it is mapped to %d, not to %d", kind, want.Inside, to, want.Outside)
	}
	return nil
}
