//go:build linux

package attack

import (
	"context"
	"fmt"
	"runtime/debug"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// int80 makes a system call by the 32-bit entry of the kernel, which a 64-bit
// process may use too, with the numbers of i386.
func int80(nr, a, b, c uint32) int32

// System calls of i386 (arch/x86/entry/syscalls/syscall_32.tbl).
const (
	i386Clone      = 120
	i386Socketcall = 102
	i386Unshare    = 310
	i386Keyctl     = 288
	i386Socket     = 359
	i386IOUring    = 425
)

// x32 marks a system call of the x32 ABI: 64-bit registers, other numbers.
const x32 = 0x40000000

func foreign() []Attack {
	all := []Attack{
		{ID: "int80-socketcall-vsock", Row: "T5", Try: "socketcall of 32-bit programs: vsock", Run: call(func() error { return socketcall(unix.AF_VSOCK, unix.SOCK_STREAM, 0) })},
		{ID: "int80-socketcall-packet", Row: "T5", Try: "the same: a packet socket", Run: call(func() error { return socketcall(unix.AF_PACKET, unix.SOCK_RAW, 0x0300) })},
		{ID: "int80-socket-vsock", Row: "T5", Try: "socket of 32-bit programs: vsock", Run: call(func() error { return errno32(int80(i386Socket, unix.AF_VSOCK, unix.SOCK_STREAM, 0)) })},
		{ID: "int80-unshare-user", Row: "T8", Try: "unshare of 32-bit programs: user", Run: call(func() error { return errno32(int80(i386Unshare, unix.CLONE_NEWUSER, 0, 0)) })},
		{ID: "int80-unshare-net", Row: "T8", Try: "the same: net", Run: call(func() error { return errno32(int80(i386Unshare, unix.CLONE_NEWNET, 0, 0)) })},
		{ID: "int80-clone-user", Row: "T8", Try: "clone of 32-bit programs: user", Run: call(func() error {
			pid := int80(i386Clone, unix.CLONE_NEWUSER|uint32(unix.SIGCHLD), 0, 0)
			if pid == 0 {
				_, _, _ = unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) // does not return
			}
			return errno32(pid)
		})},
		{ID: "int80-keyctl", Row: "T3", Try: "keyctl of 32-bit programs", Run: call(func() error { return errno32(int80(i386Keyctl, 0, ^uint32(2), 1)) })},
		{ID: "int80-io-uring", Row: "T5", Try: "io_uring of 32-bit programs", Run: call(func() error {
			low, err := lowMemory()
			if err != nil {
				return fmt.Errorf("memory: %v", err)
			}
			return errno32(int80(i386IOUring, 4, uint32(uintptr(unsafe.Pointer(&low[0]))), 0))
		})},
		{ID: "x32-socket-vsock", Row: "T5", Try: "socket of the x32 ABI: vsock", Run: call(func() error { return sys(x32|unix.SYS_SOCKET, unix.AF_VSOCK, unix.SOCK_STREAM, 0) })},
		{ID: "x32-unshare-user", Row: "T8", Try: "unshare of the x32 ABI: user", Run: call(func() error { return sys(x32|unix.SYS_UNSHARE, unix.CLONE_NEWUSER) })},
	}
	for i := range all {
		all[i].Own = true
		all[i].Run = faulting(all[i].Run)
	}
	return all
}

// faulting is an attack that faults on a kernel without 32-bit programs, which
// then has no such gate in its table of interrupts (CONFIG_IA32_EMULATION, or
// ia32_emulation=0).
func faulting(run func(context.Context, Plan) Finding) func(context.Context, Plan) Finding {
	return func(ctx context.Context, p Plan) (f Finding) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() {
			if r := recover(); r != nil {
				f = unknown("could not be tried: the call faults, this kernel runs no 32-bit programs")
			}
		}()
		return run(ctx, p)
	}
}

// socketcall is the i386 call that does all that sockets can, by a number and
// arguments in memory: a filter sees only the number.
func socketcall(domain, kind, proto uint32) error {
	low, err := lowMemory()
	if err != nil {
		return fmt.Errorf("memory: %v", err)
	}
	args := (*[3]uint32)(unsafe.Pointer(&low[0]))
	*args = [3]uint32{domain, kind, proto}
	const sysSocket = 1
	return errno32(int80(i386Socketcall, sysSocket, uint32(uintptr(unsafe.Pointer(args))), 0))
}

// lowMemory is a page that a 32-bit pointer reaches.
func lowMemory() ([]byte, error) {
	return unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_32BIT)
}

func errno32(r int32) error {
	if r < 0 {
		return syscall.Errno(-r)
	}
	return nil
}
