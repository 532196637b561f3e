package confine

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/callfilter"
)

// program is the filter for a process. Whatever is not listed answers as a kernel
// that hasn't got it: Go runs on old kernels, so it does without whatever is newer
// than the calls listed here, and what asks for a program, a debugger or a mount has
// no business in a gate. Numbers come first and arguments after, so that the kernel
// can work out once which calls always pass (since Linux 5.11).
func program(pid uint32) []bpf.Instruction {
	p := []bpf.Instruction{callfilter.Arch}
	p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nativeArch, SkipTrue: 1}, callfilter.Refuse(unix.ENOSYS))
	p = append(p, callfilter.Number)
	for _, number := range slices.Concat(calls, nativeCalls) {
		p = append(p, callfilter.When(number, callfilter.Allow)...)
	}
	p = append(p, callfilter.When(unix.SYS_SOCKET, sockets()...)...)
	p = append(p, callfilter.When(unix.SYS_CLONE, threads()...)...)
	p = append(p, callfilter.When(unix.SYS_MMAP, notExecutable()...)...)
	p = append(p, callfilter.When(unix.SYS_MPROTECT, notExecutable()...)...)
	p = append(p, callfilter.When(unix.SYS_OPENAT, toRead()...)...)
	p = append(p, callfilter.When(unix.SYS_FCNTL, descriptors()...)...)
	p = append(p, callfilter.When(unix.SYS_BIND, netlinkAddress()...)...)
	p = append(p, callfilter.When(unix.SYS_TGKILL, only(pid)...)...)
	p = append(p, callfilter.When(unix.SYS_KILL, only(pid)...)...)
	p = append(p, callfilter.When(unix.SYS_PRCTL, only(unix.PR_SET_VMA)...)...) // names of memory, of Go's runtime
	p = append(p, callfilter.When(unix.SYS_PRLIMIT64, ownLimits()...)...)
	return append(p, callfilter.Refuse(unix.ENOSYS))
}

// sockets are TCP and UDP, and the two protocols of netlink by which a gate knows its
// clients and this machine's addresses. Not unix sockets: of those a user has many
// that do things for whoever connects (systemd, podman, agents of keys), and before
// Landlock's version 9 nothing else keeps a process from them. All three arguments
// are ints, of which the kernel reads the low half.
func sockets() []bpf.Instruction {
	protocol := func(list ...uint32) []bpf.Instruction {
		p := []bpf.Instruction{callfilter.Low(2)}
		for _, v := range list {
			p = append(p, callfilter.When(v, callfilter.Allow)...)
		}
		return append(p, callfilter.Refuse(unix.EPROTONOSUPPORT))
	}
	internet := []bpf.Instruction{callfilter.Low(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: callfilter.TypeMask}}
	internet = append(internet, callfilter.When(unix.SOCK_STREAM, protocol(0, unix.IPPROTO_TCP)...)...)
	internet = append(internet, callfilter.When(unix.SOCK_DGRAM, protocol(0, unix.IPPROTO_UDP)...)...)
	internet = append(internet, callfilter.Refuse(unix.EPERM))
	p := []bpf.Instruction{callfilter.Low(0)}
	p = append(p, callfilter.When(unix.AF_INET, internet...)...)
	p = append(p, callfilter.When(unix.AF_INET6, internet...)...)
	p = append(p, callfilter.When(unix.AF_NETLINK, protocol(unix.NETLINK_ROUTE, unix.NETLINK_INET_DIAG)...)...)
	return append(p, callfilter.Refuse(unix.EAFNOSUPPORT))
}

// threads lets threads of this process be made, and no process. The kernel reads no
// more than the low half of the flags (kernel/fork.c, lower_32_bits).
func threads() []bpf.Instruction {
	return []bpf.Instruction{
		callfilter.Low(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: callfilter.Namespaces, SkipFalse: 1},
		callfilter.Refuse(unix.EPERM),
		callfilter.Allow,
	}
}

// notExecutable lets memory be made and changed that holds no code: Go has all of
// its own from the start.
func notExecutable() []bpf.Instruction {
	return unless(unix.PROT_EXEC, unix.EPERM)
}

// unless lets a call pass in whose third argument, an int, none of these bits is set.
func unless(bits uint32, errno syscall.Errno) []bpf.Instruction {
	return []bpf.Instruction{
		callfilter.Low(2),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: bits, SkipFalse: 1},
		callfilter.Refuse(errno),
		callfilter.Allow,
	}
}

// toRead lets files be opened that are neither written to, nor made, nor emptied:
// Landlock knows nothing of O_TRUNC before its version 3 (Linux 6.2), for which a file
// need not be opened for writing. It answers as Landlock does.
func toRead() []bpf.Instruction {
	const odd = unix.O_TMPFILE &^ unix.O_DIRECTORY // which is a part of it, and harmless
	return unless(unix.O_ACCMODE|unix.O_CREAT|unix.O_TRUNC|odd, unix.EACCES)
}

// descriptors are what Go does with them. Not F_SETOWN and F_SETSIG, by which any
// process of the user gets any signal as soon as there is something to read, and
// not O_ASYNC, by which a terminal sends SIGIO to those who use it (fcntl(2)); no locks
// and leases either, which hold others up.
func descriptors() []bpf.Instruction {
	p := []bpf.Instruction{callfilter.Low(1)}
	for _, op := range []uint32{unix.F_GETFL, unix.F_DUPFD_CLOEXEC, unix.F_GETFD, unix.F_SETFD, unix.F_SETPIPE_SZ} {
		p = append(p, callfilter.When(op, callfilter.Allow)...)
	}
	p = append(p, callfilter.When(unix.F_SETFL, unless(unix.O_ASYNC, unix.EPERM)...)...)
	return append(p, callfilter.Refuse(unix.EPERM))
}

// netlinkAddress lets sockets of netlink be bound, by the length of their addresses:
// those of the internet are longer, and refused when they are said to be shorter
// (inet_bind_sk, inet6_bind_sk in the kernel). Landlock has no rule for UDP, and none
// for TCP before its version 4.
func netlinkAddress() []bpf.Instruction {
	return append(append([]bpf.Instruction{callfilter.Low(2)}, callfilter.When(unix.SizeofSockaddrNetlink, callfilter.Allow)...), callfilter.Refuse(unix.EACCES))
}

// only lets a call pass whose first argument, an int, is v.
func only(v uint32) []bpf.Instruction {
	return append(append([]bpf.Instruction{callfilter.Low(0)}, callfilter.When(v, callfilter.Allow)...), callfilter.Refuse(unix.EPERM))
}

// ownLimits lets a process see its limits. The third argument is where new ones are.
func ownLimits() []bpf.Instruction {
	return []bpf.Instruction{
		callfilter.Low(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 4},
		callfilter.Low(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 2},
		callfilter.High(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		callfilter.Refuse(unix.EPERM),
		callfilter.Allow,
	}
}

// canFilter says why this process can't have a filter, if it can't.
func canFilter() error {
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	switch errno {
	case 0:
		return nil
	case unix.ENOSYS, unix.EINVAL:
		return errors.New("this kernel has no filter of system calls (CONFIG_SECCOMP_FILTER, Linux 4.14)")
	}
	return fmt.Errorf("ask for filters of system calls: %w", errno)
}

// filterCalls puts the filter on every thread.
func filterCalls() error {
	release, err := noNewPrivs()
	if err != nil {
		return err
	}
	defer release()
	return callfilter.Install(program(uint32(os.Getpid())))
}
