package seccomp

import (
	"encoding/binary"
	"fmt"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/callfilter"
)

// call is a system call as the filter sees it.
type call struct {
	name string
	arch uint32
	nr   uint32
	args [6]uint64
	want syscall.Errno // 0: let through
}

// judge runs the program in the interpreter of golang.org/x/net/bpf. That one
// reads big-endian packets, so each word of struct seccomp_data is written so.
func judge(t *testing.T, o Options, c call) string {
	t.Helper()
	vm, err := bpf.NewVM(native.filter(o))
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 64)
	binary.BigEndian.PutUint32(data[callfilter.Number.Off:], c.nr)
	binary.BigEndian.PutUint32(data[callfilter.Arch.Off:], c.arch)
	for i, arg := range c.args {
		binary.BigEndian.PutUint32(data[callfilter.Low(uint32(i)).Off:], uint32(arg))
		binary.BigEndian.PutUint32(data[callfilter.High(uint32(i)).Off:], uint32(arg>>32))
	}
	ret, err := vm.Run(data)
	if err != nil {
		t.Fatal(err)
	}
	return action(uint32(ret))
}

func action(ret uint32) string {
	switch ret & unix.SECCOMP_RET_ACTION_FULL {
	case unix.SECCOMP_RET_ALLOW:
		return "allow"
	case unix.SECCOMP_RET_ERRNO:
		return syscall.Errno(ret & unix.SECCOMP_RET_DATA).Error()
	}
	return fmt.Sprintf("action %#x", ret)
}

func (c call) wanted() string {
	if c.want == 0 {
		return "allow"
	}
	return c.want.Error()
}

func TestFilter(t *testing.T) {
	const n = nativeArch
	const junk = 0xdead_beef << 32 // in the half that the kernel doesn't read
	sock := func(family, typ, proto uint64) [6]uint64 { return [6]uint64{family, typ, proto} }
	flags := func(f uint64) [6]uint64 { return [6]uint64{f} }
	const thread = unix.CLONE_VM | unix.CLONE_FS | unix.CLONE_FILES | unix.CLONE_SIGHAND | unix.CLONE_THREAD |
		unix.CLONE_SYSVSEM | unix.CLONE_SETTLS | unix.CLONE_PARENT_SETTID | unix.CLONE_CHILD_CLEARTID

	rows := []call{
		{"tcp", n, unix.SYS_SOCKET, sock(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0), 0},
		{"tcp over ipv6", n, unix.SYS_SOCKET, sock(unix.AF_INET6, unix.SOCK_STREAM, unix.IPPROTO_TCP), 0},
		{"multipath tcp", n, unix.SYS_SOCKET, sock(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP), 0},
		{"udp", n, unix.SYS_SOCKET, sock(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0), 0},
		{"unix", n, unix.SYS_SOCKET, sock(unix.AF_UNIX, unix.SOCK_SEQPACKET, 0), 0},
		{"unix pair", n, unix.SYS_SOCKETPAIR, sock(unix.AF_UNIX, unix.SOCK_STREAM, 0), 0},
		{"route netlink", n, unix.SYS_SOCKET, sock(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_ROUTE), 0},
		{"high half of family is not read", n, unix.SYS_SOCKET, sock(junk|unix.AF_INET, unix.SOCK_STREAM, 0), 0},

		{"netfilter netlink", n, unix.SYS_SOCKET, sock(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER), unix.EPROTONOSUPPORT},
		{"generic netlink", n, unix.SYS_SOCKET, sock(unix.AF_NETLINK, unix.SOCK_DGRAM, unix.NETLINK_GENERIC), unix.EPROTONOSUPPORT},
		{"netlink, route only in the high half", n, unix.SYS_SOCKET, sock(unix.AF_NETLINK, unix.SOCK_RAW, junk|unix.NETLINK_AUDIT), unix.EPROTONOSUPPORT},
		{"packet", n, unix.SYS_SOCKET, sock(unix.AF_PACKET, unix.SOCK_RAW, 0x300), unix.EAFNOSUPPORT},
		{"packet, disguised as inet", n, unix.SYS_SOCKET, sock(unix.AF_INET, unix.SOCK_PACKET|unix.SOCK_CLOEXEC, 0x300), unix.EPERM},
		{"raw inet", n, unix.SYS_SOCKET, sock(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP), unix.EPERM},
		{"raw inet6", n, unix.SYS_SOCKET, sock(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_RAW), unix.EPERM},
		{"vsock", n, unix.SYS_SOCKET, sock(unix.AF_VSOCK, unix.SOCK_STREAM, 0), unix.EAFNOSUPPORT},
		{"vsock, high half set", n, unix.SYS_SOCKET, sock(junk|unix.AF_VSOCK, unix.SOCK_STREAM, 0), unix.EAFNOSUPPORT},
		{"kernel crypto", n, unix.SYS_SOCKET, sock(unix.AF_ALG, unix.SOCK_SEQPACKET, 0), unix.EAFNOSUPPORT},
		{"bluetooth", n, unix.SYS_SOCKET, sock(unix.AF_BLUETOOTH, unix.SOCK_RAW, 1), unix.EAFNOSUPPORT},
		{"xdp", n, unix.SYS_SOCKET, sock(unix.AF_XDP, unix.SOCK_RAW, 0), unix.EAFNOSUPPORT},
		{"tipc pair", n, unix.SYS_SOCKETPAIR, sock(unix.AF_TIPC, unix.SOCK_SEQPACKET, 0), unix.EAFNOSUPPORT},
		{"family -1", n, unix.SYS_SOCKET, sock(^uint64(0), unix.SOCK_STREAM, 0), unix.EAFNOSUPPORT},

		{"fork", n, unix.SYS_CLONE, flags(uint64(unix.SIGCHLD)), 0},
		{"vfork", n, unix.SYS_CLONE, flags(unix.CLONE_VFORK | unix.CLONE_VM | unix.CLONE_PIDFD | uint64(unix.SIGCHLD)), 0},
		{"new thread", n, unix.SYS_CLONE, flags(thread), 0},
		{"own descriptors", n, unix.SYS_UNSHARE, flags(unix.CLONE_FILES | unix.CLONE_FS), 0},
		{"own limits", n, unix.SYS_PRLIMIT64, [6]uint64{0, 7, 0x7fff_0000_1000, 0}, 0},
		{"own limits, junk in the high half of the pid", n, unix.SYS_PRLIMIT64, [6]uint64{junk, 7, 4096, 0}, 0},
		{"limits of another, read", n, unix.SYS_PRLIMIT64, [6]uint64{1, 7, 0, 4096}, 0},
		{"limits of another", n, unix.SYS_PRLIMIT64, [6]uint64{1, 7, 4096, 0}, unix.EPERM},
		{"limits of another, from a round address", n, unix.SYS_PRLIMIT64, [6]uint64{1, 7, 1 << 32, 0}, unix.EPERM},
		{"own priority", n, unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, junk, 19}, 0},
		{"priority of the own group", n, unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PGRP, 0, 19}, 0},
		{"priority of another", n, unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PROCESS, 1, 19}, unix.EPERM},
		{"priority of another group", n, unix.SYS_SETPRIORITY, [6]uint64{unix.PRIO_PGRP, 1, 19}, unix.EPERM},
		{"priority of the user's", n, unix.SYS_SETPRIORITY, [6]uint64{junk | unix.PRIO_USER, 0, 19}, unix.EPERM},
		{"own turn at the disk", n, unix.SYS_IOPRIO_SET, [6]uint64{1, junk, 0x6000}, 0},
		{"turn of another at the disk", n, unix.SYS_IOPRIO_SET, [6]uint64{1, 1, 0x6000}, unix.EPERM},
		{"turn of the user's at the disk", n, unix.SYS_IOPRIO_SET, [6]uint64{3, 0, 0x6000}, unix.EPERM},
		{"own scheduler", n, unix.SYS_SCHED_SETSCHEDULER, [6]uint64{junk, unix.SCHED_IDLE, 4096}, 0},
		{"the usual scheduler, as C libraries ask", n, unix.SYS_SCHED_SETSCHEDULER, [6]uint64{7, 0x40000000 | unix.SCHED_NORMAL, 4096}, 0},
		{"idle scheduler for another", n, unix.SYS_SCHED_SETSCHEDULER, [6]uint64{1, junk | unix.SCHED_IDLE, 4096}, unix.EPERM},
		{"idle scheduler for another, but not its children", n, unix.SYS_SCHED_SETSCHEDULER, [6]uint64{1, 0x40000000 | unix.SCHED_IDLE, 4096}, unix.EPERM},
		{"scheduler of a program for another", n, unix.SYS_SCHED_SETSCHEDULER, [6]uint64{1, 7, 4096}, unix.EPERM},
		{"own scheduling", n, unix.SYS_SCHED_SETATTR, [6]uint64{0, 4096}, 0},
		{"scheduling of another", n, unix.SYS_SCHED_SETATTR, [6]uint64{1, 4096}, unix.EPERM},
		{"no call", n, 0xffff_ffff, [6]uint64{}, unix.ENOSYS},
		{"the newest known", n, unix.SYS_FILE_SETATTR, [6]uint64{}, 0},
		{"newer than known", n, unix.SYS_FILE_SETATTR + 1, [6]uint64{}, unix.ENOSYS},
		{"of an unknown ABI", 0xc000_00ff, unix.SYS_GETPID, [6]uint64{}, unix.ENOSYS},
		{"exit of an unknown ABI", 0xc000_00ff, 1, [6]uint64{}, unix.ENOSYS},
	}
	for name, nr := range needed {
		rows = append(rows, call{name, n, nr, [6]uint64{}, 0})
	}
	for name, nr := range refusedAlways {
		want := unix.EPERM
		if lacking[nr] {
			want = unix.ENOSYS
		}
		rows = append(rows, call{name, n, nr, [6]uint64{}, want})
	}
	for _, c := range append(rows, foreignCalls...) {
		for _, o := range []Options{{}, {AllowUserNS: true}} {
			if got := judge(t, o, c); got != c.wanted() {
				t.Errorf("%s %+v: got %s, want %s", c.name, o, got, c.wanted())
			}
		}
	}
}

// TestNesting holds what AllowUserNS opens: refused without it, let through
// with it.
func TestNesting(t *testing.T) {
	rows := []call{{"clone3", nativeArch, unix.SYS_CLONE3, [6]uint64{}, unix.ENOSYS}}
	for name, flag := range map[string]uint64{
		"user": unix.CLONE_NEWUSER, "mount": unix.CLONE_NEWNS, "net": unix.CLONE_NEWNET, "pid": unix.CLONE_NEWPID,
		"ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "cgroup": unix.CLONE_NEWCGROUP,
	} {
		rows = append(rows,
			call{"clone " + name, nativeArch, unix.SYS_CLONE, [6]uint64{flag | uint64(unix.SIGCHLD)}, unix.EPERM},
			call{"clone high half " + name, nativeArch, unix.SYS_CLONE, [6]uint64{1<<63 | flag}, unix.EPERM},
			call{"unshare " + name, nativeArch, unix.SYS_UNSHARE, [6]uint64{flag}, unix.EPERM},
			call{"unshare among others " + name, nativeArch, unix.SYS_UNSHARE, [6]uint64{flag | unix.CLONE_FS}, unix.EPERM})
	}
	rows = append(rows,
		call{"unshare time", nativeArch, unix.SYS_UNSHARE, [6]uint64{unix.CLONE_NEWTIME}, unix.EPERM},
		call{"unshare of times to come", nativeArch, unix.SYS_UNSHARE, [6]uint64{1 << 40}, unix.EPERM})
	for name, nr := range refusedUnlessNested {
		rows = append(rows, call{name, nativeArch, nr, [6]uint64{}, unix.EPERM})
	}
	for _, c := range rows {
		if got := judge(t, Options{}, c); got != c.wanted() {
			t.Errorf("%s: got %s, want %s", c.name, got, c.wanted())
		}
		if got := judge(t, Options{AllowUserNS: true}, c); got != "allow" {
			t.Errorf("%s, allowed: got %s", c.name, got)
		}
	}
}

// TestProgram holds the translation to the kernel's form, by number of
// instructions and by what the first must do before anything else.
func TestProgram(t *testing.T) {
	program, err := Program(Options{})
	if err != nil {
		t.Fatal(err)
	}
	if len(program) != len(native.filter(Options{})) {
		t.Errorf("program has %d instructions, filter %d", len(program), len(native.filter(Options{})))
	}
	first := unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callfilter.Arch.Off}
	if program[0] != first {
		t.Errorf("first instruction %+v, want load of the ABI %+v", program[0], first)
	}
	last := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}
	if program[len(program)-1] != last {
		t.Errorf("last instruction %+v, want %+v", program[len(program)-1], last)
	}
}
