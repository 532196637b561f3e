// Package seccomp filters the system calls of the sandbox: what would open a
// way around the fence or into rarely tried parts of the kernel is refused,
// what a developer needs is not. The engine's own profile, where there is one,
// stays in force beneath; nothing here relies on it.
//
// A filter sees the registers of a call and not the memory they point to. So a
// call whose meaning lies in memory (clone3, io_uring, the socketcall of 32-bit
// programs) is refused whole, and one whose meaning lies in its arguments
// (socket, clone, unshare) is judged by them.
package seccomp

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Options is what a user may open.
type Options struct {
	// AllowUserNS lets the command make namespaces and mount in them, for
	// sandboxes inside the sandbox. The fence belongs to the outer user
	// namespace, so a new one gives no right over it.
	AllowUserNS bool
}

// Program returns the filter for the architecture that aisb was built for, in
// the kernel's form, and changes nothing. Other architectures than amd64 and
// arm64 don't build, since nobody has reviewed their calls.
func Program(o Options) ([]unix.SockFilter, error) {
	raw, err := bpf.Assemble(native.filter(o))
	if err != nil {
		return nil, fmt.Errorf("assemble system call filter: %w", err)
	}
	program := make([]unix.SockFilter, len(raw))
	for i, ins := range raw {
		program[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	return program, nil
}

// Install puts the filter on every thread of this process, and so on all that
// it starts, for good. no_new_privs has to be set (seccomp(2), EACCES), on all
// threads, or with the goroutine locked to the one that has it. On an error no
// thread has the filter.
func Install(o Options) error {
	program, err := Program(o)
	if err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	// TSYNC is all or nothing. A thread with a filter that the caller lacks
	// makes it fail with that thread's number as the *result*, not as an error.
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
