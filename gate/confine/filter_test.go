package confine

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/callfilter"
)

const ownPID = 4711

// judge runs the filter in the interpreter of golang.org/x/net/bpf. That one reads
// big-endian packets, so each word of struct seccomp_data is written so.
func judge(t *testing.T, arch, nr uint32, args ...uint64) string {
	t.Helper()
	vm, err := bpf.NewVM(program(ownPID))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[callfilter.Number.Off:], nr)
	binary.BigEndian.PutUint32(data[callfilter.Arch.Off:], arch)
	for i, arg := range args {
		binary.BigEndian.PutUint32(data[callfilter.Low(uint32(i)).Off:], uint32(arg))
		binary.BigEndian.PutUint32(data[callfilter.High(uint32(i)).Off:], uint32(arg>>32))
	}
	ret, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	switch ret := uint32(ret); ret & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_ERRNO:
		return unix.ErrnoName(syscall.Errno(ret & unix.SECCOMP_RET_DATA))
	default:
		return fmt.Sprintf("action %#x", ret)
	}
}

func TestFilter(t *testing.T) {
	const junk = 0xdead_beef << 32 // in the half that the kernel doesn't read
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD | unix.CLONE_SYSVSEM | unix.CLONE_SETTLS
	const flags = unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK
	for _, c := range []struct {
		name string
		nr   uint32
		args []uint64
		want string
	}{
		{"read", unix.SYS_READ, nil, "allow"},
		{"after a stop", unix.SYS_RESTART_SYSCALL, nil, "allow"},
		{"thread", unix.SYS_CLONE, []uint64{thread}, "allow"},
		{"thread of a C library", unix.SYS_CLONE, []uint64{junk | thread | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID}, "allow"},
		{"fork", unix.SYS_CLONE, []uint64{uint64(unix.SIGCHLD)}, "EPERM"},
		{"vfork", unix.SYS_CLONE, []uint64{unix.CLONE_VFORK | unix.CLONE_VM | uint64(unix.SIGCHLD)}, "EPERM"},
		{"thread only in the high half", unix.SYS_CLONE, []uint64{unix.CLONE_THREAD << 32}, "EPERM"},
		{"thread in a network of its own", unix.SYS_CLONE, []uint64{thread | unix.CLONE_NEWNET}, "EPERM"},
		{"clone3", unix.SYS_CLONE3, nil, "ENOSYS"}, // Go and C libraries do without on nothing else

		{"tcp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM | flags, 0}, "allow"},
		{"tcp over ipv6", unix.SYS_SOCKET, []uint64{junk | unix.AF_INET6, junk | unix.SOCK_STREAM, unix.IPPROTO_TCP}, "allow"},
		{"udp", unix.SYS_SOCKET, []uint64{unix.AF_INET6, unix.SOCK_DGRAM | flags, unix.IPPROTO_UDP}, "allow"},
		{"addresses", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW | flags, unix.NETLINK_ROUTE}, "allow"},
		{"owners", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_INET_DIAG}, "allow"},
		{"unix", unix.SYS_SOCKET, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, "EAFNOSUPPORT"},
		{"unix pair", unix.SYS_SOCKETPAIR, []uint64{unix.AF_UNIX, unix.SOCK_STREAM, 0}, "ENOSYS"},
		{"multipath tcp, which Landlock doesn't see", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP}, "EPROTONOSUPPORT"},
		{"sctp", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_SCTP}, "EPROTONOSUPPORT"},
		{"ping", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_ICMP}, "EPROTONOSUPPORT"},
		{"raw", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP}, "EPERM"},
		{"packet, disguised as inet", unix.SYS_SOCKET, []uint64{unix.AF_INET, unix.SOCK_PACKET, 0x300}, "EPERM"},
		{"netfilter", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER}, "EPROTONOSUPPORT"},
		{"uevents", unix.SYS_SOCKET, []uint64{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT}, "EPROTONOSUPPORT"},
		{"packet", unix.SYS_SOCKET, []uint64{unix.AF_PACKET, unix.SOCK_RAW, 0x300}, "EAFNOSUPPORT"},
		{"kernel crypto", unix.SYS_SOCKET, []uint64{unix.AF_ALG, unix.SOCK_SEQPACKET, 0}, "EAFNOSUPPORT"},
		{"vsock", unix.SYS_SOCKET, []uint64{unix.AF_VSOCK, unix.SOCK_STREAM, 0}, "EAFNOSUPPORT"},

		{"memory", unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_READ | unix.PROT_WRITE}, "allow"},
		{"memory for code", unix.SYS_MMAP, []uint64{0, 4096, unix.PROT_READ | unix.PROT_EXEC}, "EPERM"},
		{"memory becomes code", unix.SYS_MPROTECT, []uint64{0, 4096, unix.PROT_READ | unix.PROT_WRITE | unix.PROT_EXEC}, "EPERM"},
		{"memory becomes code by a key", unix.SYS_PKEY_MPROTECT, []uint64{0, 4096, unix.PROT_EXEC}, "ENOSYS"},
		{"a file", unix.SYS_OPENAT, []uint64{junk | 3, 0x1000, junk | unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOFOLLOW}, "allow"},
		{"a directory", unix.SYS_OPENAT, []uint64{3, 0x1000, unix.O_RDONLY | unix.O_DIRECTORY}, "allow"},
		{"a file to write", unix.SYS_OPENAT, []uint64{3, 0x1000, unix.O_WRONLY}, "EACCES"},
		{"a file to read and write", unix.SYS_OPENAT, []uint64{3, 0x1000, unix.O_RDWR | unix.O_CLOEXEC}, "EACCES"},
		{"a new file", unix.SYS_OPENAT, []uint64{3, 0x1000, unix.O_CREAT}, "EACCES"},
		{"a file that is emptied", unix.SYS_OPENAT, []uint64{3, 0x1000, unix.O_RDONLY | unix.O_TRUNC}, "EACCES"},
		{"a file without a name", unix.SYS_OPENAT, []uint64{3, 0x1000, unix.O_TMPFILE}, "EACCES"},

		{"is it waited for", unix.SYS_FCNTL, []uint64{3, junk | unix.F_GETFL}, "allow"},
		{"not to wait", unix.SYS_FCNTL, []uint64{3, unix.F_SETFL, junk | unix.O_NONBLOCK}, "allow"},
		{"copy", unix.SYS_FCNTL, []uint64{3, unix.F_DUPFD_CLOEXEC, 0}, "allow"},
		{"size of a pipe", unix.SYS_FCNTL, []uint64{3, unix.F_SETPIPE_SZ, 1 << 20}, "allow"},
		{"signals at each byte", unix.SYS_FCNTL, []uint64{3, unix.F_SETFL, unix.O_NONBLOCK | unix.O_ASYNC}, "EPERM"},
		{"whom they reach", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN, 1}, "EPERM"},
		{"whom they reach, thread or group", unix.SYS_FCNTL, []uint64{3, unix.F_SETOWN_EX, 0x1000}, "EPERM"},
		{"which it is", unix.SYS_FCNTL, []uint64{3, unix.F_SETSIG, uint64(unix.SIGKILL)}, "EPERM"},
		{"news of a directory", unix.SYS_FCNTL, []uint64{3, unix.F_NOTIFY, 4}, "EPERM"},
		{"lease", unix.SYS_FCNTL, []uint64{3, unix.F_SETLEASE, unix.F_RDLCK}, "EPERM"},
		{"lock", unix.SYS_FCNTL, []uint64{3, unix.F_SETLK, 0x1000}, "EPERM"},

		{"address of netlink", unix.SYS_BIND, []uint64{3, 0x1000, junk | unix.SizeofSockaddrNetlink}, "allow"},
		{"port", unix.SYS_BIND, []uint64{3, 0x1000, unix.SizeofSockaddrInet4}, "EACCES"},
		{"port of ipv6", unix.SYS_BIND, []uint64{3, 0x1000, unix.SizeofSockaddrInet6}, "EACCES"},
		{"port, in more room", unix.SYS_BIND, []uint64{3, 0x1000, unix.SizeofSockaddrAny}, "EACCES"},

		{"names of memory", unix.SYS_PRCTL, []uint64{unix.PR_SET_VMA}, "allow"},
		{"dumpable again", unix.SYS_PRCTL, []uint64{unix.PR_SET_DUMPABLE, 1}, "EPERM"},

		{"own thread", unix.SYS_TGKILL, []uint64{ownPID, 1, 23}, "allow"},
		{"another's thread", unix.SYS_TGKILL, []uint64{ownPID + 1, 1, 23}, "EPERM"},
		{"itself", unix.SYS_KILL, []uint64{ownPID, 6}, "allow"},
		{"its group", unix.SYS_KILL, []uint64{0, 9}, "EPERM"},
		{"everybody", unix.SYS_KILL, []uint64{^uint64(0), 9}, "EPERM"},

		{"its limits", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_NOFILE, 0, 0x1000}, "allow"},
		{"set its limits", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 0x1000, 0}, "EPERM"},
		{"set its limits, from high memory", unix.SYS_PRLIMIT64, []uint64{0, unix.RLIMIT_CORE, 1 << 32, 0}, "EPERM"},
		{"another's limits", unix.SYS_PRLIMIT64, []uint64{1, unix.RLIMIT_NOFILE, 0, 0x1000}, "EPERM"},
	} {
		if got := judge(t, nativeArch, c.nr, c.args...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if got := judge(t, nativeArch^0x80000000, c.nr, c.args...); got != "ENOSYS" {
			t.Errorf("%s, of another architecture: %s", c.name, got)
		}
		if got := judge(t, nativeArch, 1<<30|c.nr, c.args...); got != "ENOSYS" {
			t.Errorf("%s, of x32: %s", c.name, got)
		}
	}
}

// TestFilterIsAList holds that what nobody has listed is refused, whatever number a
// kernel gives it, and that it is never more than what is said here.
func TestFilterIsAList(t *testing.T) {
	allowed := 0
	for nr := range uint32(1024) {
		switch got := judge(t, nativeArch, nr); got {
		case "allow":
			allowed++
		case "ENOSYS", "EPERM", "EACCES", "EAFNOSUPPORT", "EPROTONOSUPPORT":
		default:
			t.Errorf("call %d: %s", nr, got)
		}
	}
	// With arguments of zero mmap, mprotect, openat and prlimit64 pass too.
	if want := len(calls) + len(nativeCalls) + 4; allowed != want {
		t.Errorf("%d calls pass, want %d: one is listed twice, or passes by accident", allowed, want)
	}
	for name, nr := range map[string]uint32{
		"execve": unix.SYS_EXECVE, "execveat": unix.SYS_EXECVEAT, "ptrace": unix.SYS_PTRACE,
		"process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV,
		"pidfd_getfd": unix.SYS_PIDFD_GETFD, "pidfd_send_signal": unix.SYS_PIDFD_SEND_SIGNAL,
		"mount": unix.SYS_MOUNT, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN, "pivot_root": unix.SYS_PIVOT_ROOT,
		"bpf": unix.SYS_BPF, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "keyctl": unix.SYS_KEYCTL,
		"userfaultfd": unix.SYS_USERFAULTFD, "io_uring_setup": unix.SYS_IO_URING_SETUP,
		"init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE,
		"kexec_load": unix.SYS_KEXEC_LOAD, "reboot": unix.SYS_REBOOT, "setns": unix.SYS_SETNS, "unshare": unix.SYS_UNSHARE,
		"ioctl": unix.SYS_IOCTL, "listen": unix.SYS_LISTEN, "memfd_create": unix.SYS_MEMFD_CREATE,
		"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT, "seccomp": unix.SYS_SECCOMP, "tkill": unix.SYS_TKILL,
		"rt_sigqueueinfo": unix.SYS_RT_SIGQUEUEINFO, "setuid": unix.SYS_SETUID, "capset": unix.SYS_CAPSET,
		"renameat2": unix.SYS_RENAMEAT2, "linkat": unix.SYS_LINKAT, "mkdirat": unix.SYS_MKDIRAT, "fchmodat": unix.SYS_FCHMODAT,
	} {
		if got := judge(t, nativeArch, nr); got != "ENOSYS" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
