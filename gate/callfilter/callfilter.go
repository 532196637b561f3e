// Package callfilter has what filters of system calls are made of, and puts one on a
// process. What a filter lets pass is its owner's: the gate's is a list of what may
// be called, the sandbox's one of what may not.
package callfilter

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Namespaces are the flags of clone(2) that make one. CLONE_NEWTIME is not among
// them: its bit is part of the signal at the end there.
const Namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID |
	unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// TypeMask is the part of the type of a socket(2) that is no flag (SOCK_TYPE_MASK in
// include/linux/net.h).
const TypeMask = 0xf

// What a filter can load, in struct seccomp_data. Both architectures are
// little-endian, so the low half of an argument comes first.
var (
	Number = bpf.LoadAbsolute{Off: 0, Size: 4} // of the call
	Arch   = bpf.LoadAbsolute{Off: 4, Size: 4} // AUDIT_ARCH of the caller
)

const offArgs = 16

// Low loads the low half of an argument, counted from 0. Of an int the kernel reads
// no more.
func Low(arg uint32) bpf.LoadAbsolute {
	return bpf.LoadAbsolute{Off: offArgs + 8*arg, Size: 4}
}

// High loads the high half of an argument.
func High(arg uint32) bpf.LoadAbsolute {
	return bpf.LoadAbsolute{Off: offArgs + 8*arg + 4, Size: 4}
}

// Allow ends a filter: the call is made.
var Allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

// Refuse ends a filter: the call isn't made, and has this error.
func Refuse(errno syscall.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// When runs the block if the value just loaded is v. A block ends in Allow or Refuse,
// so what follows it is reached with that value still loaded. It has at most 255
// instructions, as far as a jump goes.
func When(v uint32, block ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: uint8(len(block))}}, block...)
}

// Assemble brings a filter into the kernel's form.
func Assemble(filter []bpf.Instruction) ([]unix.SockFilter, error) {
	raw, err := bpf.Assemble(filter)
	if err != nil {
		return nil, fmt.Errorf("assemble system call filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, ins := range raw {
		program[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	return program, nil
}

// Install puts a filter on every thread of this process, and so on all that it
// starts, for good. no_new_privs has to be set (seccomp(2), EACCES), on all threads,
// or with the goroutine locked to the one that has it: the others get it with the
// filter. On an error no thread has the filter.
func Install(filter []bpf.Instruction) error {
	program, err := Assemble(filter)
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// TSYNC is all or nothing. A thread with a filter that the caller lacks makes it
	// fail with that thread's number as the *result*, not as an error.
	thread, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&prog)))
	switch {
	case errno == unix.ENOSYS || errno == unix.EINVAL:
		return fmt.Errorf("kernel has no system call filters (CONFIG_SECCOMP_FILTER): %w", errno)
	case errno == unix.EACCES:
		return fmt.Errorf("filter needs no_new_privs first: %w", errno)
	case errno != 0:
		return errno
	case thread != 0:
		return fmt.Errorf("thread %d has a system call filter of its own", thread)
	}
	return nil
}
