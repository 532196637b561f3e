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
)

// Offsets in struct seccomp_data. Both architectures are little-endian, so the low
// half of an argument comes first.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

func low(arg uint32) bpf.Instruction  { return bpf.LoadAbsolute{Off: offArgs + 8*arg, Size: 4} }
func high(arg uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*arg + 4, Size: 4} }

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

func refuse(errno syscall.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// when runs the block if the value just loaded is v. A block ends in a return, so
// what follows it is reached with that value still loaded.
func when(v uint32, block ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: uint8(len(block))}}, block...)
}

// program is the filter for a process. Whatever is not listed answers as a kernel
// that hasn't got it: Go runs on old kernels, so it does without whatever is newer
// than the calls listed here, and what asks for a program, a debugger or a mount has
// no business in a gate. Numbers come first and arguments after, so that the kernel
// can work out once which calls always pass (since Linux 5.11).
func program(pid uint32) []bpf.Instruction {
	p := []bpf.Instruction{bpf.LoadAbsolute{Off: offArch, Size: 4}}
	p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nativeArch, SkipTrue: 1}, refuse(unix.ENOSYS))
	p = append(p, bpf.LoadAbsolute{Off: offNr, Size: 4})
	for _, call := range slices.Concat(calls, nativeCalls) {
		p = append(p, when(call, allow)...)
	}
	p = append(p, when(unix.SYS_SOCKET, sockets()...)...)
	p = append(p, when(unix.SYS_CLONE, threads()...)...)
	p = append(p, when(unix.SYS_MMAP, notExecutable()...)...)
	p = append(p, when(unix.SYS_MPROTECT, notExecutable()...)...)
	p = append(p, when(unix.SYS_TGKILL, only(pid)...)...)
	p = append(p, when(unix.SYS_KILL, only(pid)...)...)
	p = append(p, when(unix.SYS_PRCTL, only(unix.PR_SET_VMA)...)...) // names of memory, of Go's runtime
	p = append(p, when(unix.SYS_PRLIMIT64, ownLimits()...)...)
	return append(p, refuse(unix.ENOSYS))
}

// sockets are TCP and UDP, and the two protocols of netlink by which a gate knows its
// clients and this machine's addresses. Not unix sockets: of those a user has many
// that do things for whoever connects (systemd, podman, agents of keys), and before
// Landlock's version 9 nothing else keeps a process from them. All three arguments
// are ints, of which the kernel reads the low half.
func sockets() []bpf.Instruction {
	const typeMask = 0xf // include/linux/net.h, SOCK_TYPE_MASK: the rest is flags
	protocol := func(list ...uint32) []bpf.Instruction {
		p := []bpf.Instruction{low(2)}
		for _, v := range list {
			p = append(p, when(v, allow)...)
		}
		return append(p, refuse(unix.EPROTONOSUPPORT))
	}
	internet := []bpf.Instruction{low(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: typeMask}}
	internet = append(internet, when(unix.SOCK_STREAM, protocol(0, unix.IPPROTO_TCP)...)...)
	internet = append(internet, when(unix.SOCK_DGRAM, protocol(0, unix.IPPROTO_UDP)...)...)
	internet = append(internet, refuse(unix.EPERM))
	p := []bpf.Instruction{low(0)}
	p = append(p, when(unix.AF_INET, internet...)...)
	p = append(p, when(unix.AF_INET6, internet...)...)
	p = append(p, when(unix.AF_NETLINK, protocol(unix.NETLINK_ROUTE, unix.NETLINK_INET_DIAG)...)...)
	return append(p, refuse(unix.EAFNOSUPPORT))
}

// threads lets threads of this process be made, and no process. The kernel reads no
// more than the low half of the flags (kernel/fork.c, lower_32_bits).
func threads() []bpf.Instruction {
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	return []bpf.Instruction{
		low(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.CLONE_THREAD, SkipFalse: 1},
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaces, SkipFalse: 1},
		refuse(unix.EPERM),
		allow,
	}
}

// notExecutable lets memory be made and changed that holds no code: Go has all of
// its own from the start.
func notExecutable() []bpf.Instruction {
	return []bpf.Instruction{
		low(2),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: unix.PROT_EXEC, SkipFalse: 1},
		refuse(unix.EPERM),
		allow,
	}
}

// only lets a call pass whose first argument, an int, is v.
func only(v uint32) []bpf.Instruction {
	return append(append([]bpf.Instruction{low(0)}, when(v, allow)...), refuse(unix.EPERM))
}

// ownLimits lets a process see its limits. The third argument is where new ones are.
func ownLimits() []bpf.Instruction {
	return []bpf.Instruction{
		low(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 4},
		low(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 2},
		high(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		refuse(unix.EPERM),
		allow,
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
	raw, err := bpf.Assemble(program(uint32(os.Getpid())))
	if err != nil {
		return fmt.Errorf("assemble: %w", err)
	}
	insns := make([]unix.SockFilter, len(raw))
	for i, ins := range raw {
		insns[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	release, err := noNewPrivs()
	if err != nil {
		return err
	}
	defer release()
	prog := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	// TSYNC is all or nothing, and takes no_new_privs along. A thread with a filter that
	// the caller lacks makes it fail with that thread's number as the *result*.
	thread, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has a filter of its own", thread)
	}
	return nil
}
