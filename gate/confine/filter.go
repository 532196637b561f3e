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
	return []bpf.Instruction{
		callfilter.Low(2),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.PROT_EXEC, SkipFalse: 1},
		callfilter.Refuse(unix.EPERM),
		callfilter.Allow,
	}
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
