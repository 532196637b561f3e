package entry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/seccomp"
)

// drop is the point of no return of pid 1.
func (e *entry) drop() *failure {
	e.spoil("proved")
	if f := e.proberGone(); f != nil {
		return f
	}
	if err := drop(e.cfg.UID, e.cfg.GID, seccomp.Options{AllowUserNS: e.cfg.AllowUserNS}); err != nil {
		return &failure{handshake.Dropped, handshake.ExitProof, fmt.Errorf("give up rights: %w", err),
			"the container needs the capabilities SETUID, SETGID and SETPCAP to give up all"}
	}
	for _, m := range e.retry {
		if err := checkSource(m); err != nil {
			return &failure{handshake.Dropped, handshake.ExitProof, err, "the mounted directory was replaced while aisb started"}
		}
	}
	return e.tell(handshake.Stage{Stage: handshake.Dropped})
}

// drop makes this process one that has nothing and can gain nothing: on every
// thread, for itself and for all it starts. The proof's child and pid 1, and so
// the command, go through this one function. It returns nil only when the
// kernel's own account of every thread says so.
func drop(uid, gid int, filter seccomp.Options) error {
	// Filters are of all threads alike so far: the container's runtime has set them.
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return fmt.Errorf("read own status: %w", err)
	}
	before := parseStatus("before", string(text)).filters
	for _, step := range dropSteps(uid, gid, filter) {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	return dropped(uid, gid, before)
}

// dropStep is a part of the drop.
type dropStep struct {
	name string
	do   func() error
}

// dropSteps are the parts in their order.
func dropSteps(uid, gid int, filter seccomp.Options) []dropStep {
	return []dropStep{
		{"clear ambient set", func() error { return prctlAll(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL) }},
		{"empty bounding set", dropBounds},
		// These three act on all threads (syscall package). Leaving uid 0 empties
		// the effective and permitted sets (capabilities(7)), so they come first.
		{"setgroups", func() error { return syscall.Setgroups([]int{}) }},
		{"setresgid", func() error { return syscall.Setresgid(gid, gid, gid) }},
		{"setresuid", func() error { return syscall.Setresuid(uid, uid, uid) }},
		{"clear capability sets", clearSets},
		{"set no_new_privs", func() error { return prctlAll(unix.PR_SET_NO_NEW_PRIVS, 1) }},
		// A change of uid sets it to fs.suid_dumpable (prctl(2)).
		{"become undumpable", func() error { return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) }},
		{"install system call filter", func() error { return seccomp.Install(filter) }},
	}
}

// dropBounds empties the bounding set.
func dropBounds() error {
	for c := uintptr(0); ; c++ {
		// EINVAL: the kernel knows no capability of that number.
		switch set, err := unix.PrctlRetInt(unix.PR_CAPBSET_READ, c, 0, 0, 0); {
		case errors.Is(err, unix.EINVAL):
			return nil
		case err != nil:
			return fmt.Errorf("read: %w", err)
		case set == 0:
			continue
		}
		if err := prctlAll(unix.PR_CAPBSET_DROP, c); err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
}

// clearSets empties the effective, permitted and inheritable set.
func clearSets() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// prctlAll calls prctl(2) on all threads.
func prctlAll(option, arg uintptr) error {
	if _, _, errno := syscall.AllThreadsSyscall6(unix.SYS_PRCTL, option, arg, 0, 0, 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// thread is what /proc/PID/task/TID/status says of one thread.
type thread struct {
	name    string
	fields  map[string]string
	filters int // seccomp filters, 0 before Linux 5.9, which doesn't count them
}

// threads reads the status of every thread of this process.
func threads() ([]thread, error) {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, fmt.Errorf("list threads: %w", err)
	}
	var list []thread
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it ended meanwhile
		}
		if err != nil {
			return nil, fmt.Errorf("read thread: %w", err)
		}
		list = append(list, parseStatus(task.Name(), string(text)))
	}
	if len(list) == 0 {
		return nil, errors.New("list threads: none found")
	}
	return list, nil
}

func parseStatus(name, text string) thread {
	t := thread{name: name, fields: map[string]string{}}
	for line := range strings.Lines(text) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			t.fields[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	t.filters, _ = strconv.Atoi(t.fields["Seccomp_filters"]) // absent in old kernels
	return t
}

// dropped checks every thread. filters is how many seccomp filters there were.
func dropped(uid, gid, filters int) error {
	list, err := threads()
	if err != nil {
		return err
	}
	dumpable, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	if err != nil || dumpable != 0 {
		return fmt.Errorf("still dumpable: %d (%v)", dumpable, err)
	}
	return judgeThreads(list, uid, gid, filters)
}

// judgeThreads refuses a thread that has anything left.
func judgeThreads(list []thread, uid, gid, filters int) error {
	four := func(id int) string { return strings.TrimSpace(strings.Repeat(strconv.Itoa(id)+" ", 4)) }
	const none = "0000000000000000"
	want := map[string]string{
		"CapInh": none, "CapPrm": none, "CapEff": none, "CapBnd": none, "CapAmb": none,
		"NoNewPrivs": "1", "Seccomp": "2", "Groups": "",
		"Uid": four(uid), "Gid": four(gid),
	}
	for _, t := range list {
		for key, value := range want {
			if got, ok := t.fields[key]; !ok || got != value {
				return fmt.Errorf("thread %s still has %s %q", t.name, key, got)
			}
		}
		if _, counted := t.fields["Seccomp_filters"]; counted && t.filters <= filters {
			return fmt.Errorf("thread %s has %d system call filters, as before", t.name, t.filters)
		}
	}
	return nil
}
