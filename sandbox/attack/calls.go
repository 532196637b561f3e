//go:build linux

package attack

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sys makes a system call.
func sys(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

// negative is a small negative argument of a system call.
func negative(n int) uintptr { return ^uintptr(n - 1) }

// refused is an attack that a filter has to refuse before the kernel looks at
// its arguments, which are nonsense: any other error came from the call itself,
// so the filter let it through. want is the filter's, others what a kernel says
// that lacks the call or wants a capability.
func refused(nr uintptr, args ...uintptr) func(context.Context, Plan) Finding {
	return func(context.Context, Plan) Finding {
		err := sys(nr, args...)
		switch {
		case err == nil:
			return got("it worked")
		case errors.Is(err, unix.EPERM), errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EACCES):
			return held("%s", errnoName(err))
		}
		return got("%s: the call itself answered, so nothing refused it", errnoName(err))
	}
}

const bad = ^uintptr(0) // neither a descriptor nor an address

// calls are attacks by system calls: on the ruleset's protection (T7), on
// namespaces (T8) and by privileges (T9).
func calls() []Attack {
	const nsAll = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID
	list := []Attack{
		{ID: "setns", Own: true, Row: "T8", Try: "setns", Run: refused(unix.SYS_SETNS, bad, 0)},
		{ID: "nsenter-pid1", Row: "T8", Try: "open the namespaces of pid 1", Run: call(func() error { return open("/proc/1/ns/net") })},
		{ID: "unshare-all", Own: true, Row: "T8", Try: "unshare of user, mount, net and pid at once", Run: call(func() error { return alone(unix.SYS_UNSHARE, nsAll) })},
		{ID: "clone3-user", Row: "T8", Try: "clone3 with CLONE_NEWUSER", Run: call(func() error { return clone3(unix.CLONE_NEWUSER) })},
		{ID: "clone3-all", Row: "T8", Try: "clone3 with all namespaces", Run: call(func() error { return clone3(nsAll) })},
		{ID: "open-by-handle", Row: "T2", Try: "open_by_handle_at", Run: refused(unix.SYS_OPEN_BY_HANDLE_AT, bad, 0, 0)},
		{ID: "mount", Own: true, Row: "T1", Try: "mount a tmpfs", Run: call(func() error { return unix.Mount("none", "/mnt", "tmpfs", 0, "") })},
		{ID: "mount-proc", Own: true, Row: "T1", Try: "mount a fresh /proc", Run: call(func() error { return unix.Mount("proc", "/mnt", "proc", 0, "") })},
		{ID: "remount-root", Own: true, Row: "T12", Try: "remount the root file system read-write", Run: call(func() error {
			return unix.Mount("none", "/", "", unix.MS_REMOUNT|unix.MS_BIND, "")
		})},
		{ID: "umount", Own: true, Row: "T1", Try: "unmount /etc/resolv.conf, to see what is under it", Run: call(func() error { return unix.Unmount("/etc/resolv.conf", unix.MNT_DETACH) })},
		{ID: "move-mount", Own: true, Row: "T1", Try: "move_mount", Run: refused(unix.SYS_MOVE_MOUNT, bad, 0, bad, 0, 0)},
		{ID: "open-tree", Row: "T1", Try: "open_tree", Run: refused(unix.SYS_OPEN_TREE, bad, 0, 0)},
		{ID: "fsopen", Row: "T1", Try: "fsopen", Run: refused(unix.SYS_FSOPEN, 0, 0)},
		{ID: "mount-setattr", Row: "T1", Try: "mount_setattr", Run: refused(unix.SYS_MOUNT_SETATTR, bad, 0, bad, 0, 0)},
		{ID: "pivot-root", Own: true, Row: "T1", Try: "pivot_root", Run: refused(unix.SYS_PIVOT_ROOT, 0, 0)},
		{ID: "chroot", Own: true, Row: "T1", Try: "chroot", Run: refused(unix.SYS_CHROOT, 0)},
		{ID: "mknod", Row: "T1", Try: "make a device node", Run: call(func() error { return unix.Mknod("/tmp/aisb-attack-node", unix.S_IFBLK|0o600, 0x0800) })},
		{ID: "init-module", Row: "T7", Try: "load a kernel module", Run: refused(unix.SYS_INIT_MODULE, 0, 0, 0)},
		{ID: "kexec", Row: "T7", Try: "kexec_load", Run: refused(unix.SYS_KEXEC_LOAD, 0, 0, 0, bad)},
		{ID: "bpf", Row: "T7", Try: "make an eBPF map", Run: call(bpf)},
		{ID: "perf", Row: "T7", Try: "perf_event_open", Run: call(perf)},
		{ID: "userfaultfd", Row: "T7", Try: "userfaultfd", Run: call(func() error { return sys(unix.SYS_USERFAULTFD, 1 /* user mode only */) })},
		{ID: "io-uring", Row: "T5", Try: "io_uring, which opens sockets without a system call", Run: call(ioUring)},
		{ID: "keyctl", Row: "T3", Try: "keyctl: keys of the host's user", Run: refused(unix.SYS_KEYCTL, 0, negative(3), 1)},
		{ID: "add-key", Row: "T3", Try: "add_key", Run: call(addKey)},
		{ID: "request-key", Row: "T3", Try: "request_key", Run: refused(unix.SYS_REQUEST_KEY, 0, 0, 0, 0)},
		{ID: "syslog", Row: "T3", Try: "read the kernel's log", Run: refused(unix.SYS_SYSLOG, 3, 0, 0)},
		{ID: "capset", Own: true, Row: "T7", Try: "capset: ask for CAP_NET_ADMIN", Run: call(gain)},
		{ID: "ambient", Own: true, Row: "T7", Try: "raise CAP_NET_ADMIN in the ambient set", Run: call(func() error {
			return unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_NET_ADMIN, 0, 0)
		})},
		{ID: "securebits", Own: true, Row: "T9", Try: "lift securebits", Run: call(func() error { return unix.Prctl(unix.PR_SET_SECUREBITS, 0, 0, 0, 0) })},
		{ID: "setuid-0", Own: true, Row: "T9", Try: "become uid 0", Run: func(context.Context, Plan) Finding {
			if os.Getuid() == 0 {
				return got("the command is uid 0 of the container already")
			}
			return judgedAs(sys(unix.SYS_SETUID, 0), unix.EINVAL)
		}},
		{ID: "setuid-host", Own: true, Row: "T9", Try: "become another uid", Run: func(context.Context, Plan) Finding { return judgedAs(sys(unix.SYS_SETUID, 1), unix.EINVAL) }},
		{ID: "no-new-privs", Own: true, Row: "T9", Try: "take no_new_privs back", Run: noNewPrivs},
		{ID: "setuid-binary", Row: "T9", Try: "setuid programs of the image: what could one gain", Run: setuidPrograms},
	}
	for _, ns := range namespaces {
		list = append(list,
			Attack{ID: "unshare-" + ns.name, Own: true, Row: "T8", Try: "unshare: a fresh " + ns.name + " namespace",
				Run: call(func() error { return alone(unix.SYS_UNSHARE, ns.flag) })},
			Attack{ID: "clone-" + ns.name, Row: "T8", Try: "clone into a fresh " + ns.name + " namespace",
				Run: call(func() error { return fork(unix.SYS_CLONE, ns.flag|uintptr(unix.SIGCHLD)) })})
	}
	return list
}

// namespaces are all kinds that clone knows.
var namespaces = []struct {
	name string
	flag uintptr
}{
	{"user", unix.CLONE_NEWUSER}, {"net", unix.CLONE_NEWNET}, {"mount", unix.CLONE_NEWNS}, {"pid", unix.CLONE_NEWPID},
	{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"cgroup", unix.CLONE_NEWCGROUP},
}

// judgedAs is judged where one of the errors that else say nothing is the
// refusal: setuid(2) says EINVAL of an id that the user namespace doesn't map.
func judgedAs(err error, refusal syscall.Errno) Finding {
	if errors.Is(err, refusal) {
		return held("%s", errnoName(err))
	}
	return judged(err)
}

// fork is a clone whose child, if there is one, ends at once.
func fork(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	pid, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) // does not return
	}
	return nil
}

// alone makes a call in a process of one thread, which a Go program never is:
// the kernel lets no other leave its user namespace (unshare(2), EINVAL).
func alone(nr, arg uintptr) error {
	pid, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		_, _, errno := unix.RawSyscall(nr, arg, 0, 0)
		_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, uintptr(errno), 0, 0) // does not return
	}
	var ws unix.WaitStatus
	for {
		_, err := unix.Wait4(int(pid), &ws, 0, nil)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return fmt.Errorf("wait for it: %v", err)
		}
		break
	}
	if !ws.Exited() {
		return fmt.Errorf("ended by signal %d", ws.Signal())
	}
	if ws.ExitStatus() != 0 {
		return syscall.Errno(ws.ExitStatus())
	}
	return nil
}

func clone3(flags uint64) error {
	args := struct {
		flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	}{flags: flags, exitSignal: uint64(unix.SIGCHLD)}
	return fork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
}

func addKey() error {
	kind, name, payload := []byte("user\x00"), []byte("aisb\x00"), []byte("x")
	return sys(unix.SYS_ADD_KEY, uintptr(unsafe.Pointer(&kind[0])), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&payload[0])), 1, negative(2))
}

func bpf() error {
	// BPF_MAP_CREATE of an array, which needs no more than this.
	attr := struct{ kind, key, value, entries, flags uint32 }{2, 4, 4, 1, 0}
	return sys(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

func perf() error {
	attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0, Bits: unix.PerfBitExcludeKernel}
	return sys(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr)), 0, negative(1), negative(1), 0)
}

func ioUring() error {
	var params [120]byte
	return sys(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)))
}

// gain asks for CAP_NET_ADMIN.
func gain() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	data[0].Effective, data[0].Permitted = 1<<unix.CAP_NET_ADMIN, 1<<unix.CAP_NET_ADMIN
	return unix.Capset(&header, &data[0])
}

func noNewPrivs(context.Context, Plan) Finding {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	if err != nil {
		return unknown("read no_new_privs: %s", errnoName(err))
	}
	if set != 1 {
		return got("no_new_privs is off")
	}
	// Only 1 is a value that prctl takes: EINVAL is the kernel's refusal.
	return judgedAs(unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0), unix.EINVAL)
}

// setuidPrograms looks for programs that would give rights and checks what one
// could give: with no_new_privs the kernel ignores the bit (execve(2)).
func setuidPrograms(ctx context.Context, p Plan) Finding {
	found := 0
	for _, dir := range []string{"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib/openssh", "/usr/lib/dbus-1.0", "/usr/libexec", "/usr/local/bin"} {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // not in this image
		}
		for _, e := range entries {
			var st unix.Stat_t
			if unix.Stat(filepath.Join(dir, e.Name()), &st) == nil && st.Mode&(unix.S_ISUID|unix.S_ISGID) != 0 && st.Mode&unix.S_IFMT == unix.S_IFREG {
				found++
			}
		}
	}
	if f := noNewPrivs(ctx, p); f.Verdict != Held {
		return f
	}
	if f := boundingSet(ctx, p); f.Verdict != Held {
		return f
	}
	return held("%d there; no_new_privs and an empty bounding set leave them nothing", found)
}
