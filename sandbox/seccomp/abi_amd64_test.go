package seccomp

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

// i386 numbers are of arch/x86/entry/syscalls/syscall_32.tbl.
var foreignCalls = []call{
	{"i386 exit", 0x40000003, 1, [6]uint64{1}, 0},
	{"i386 exit_group", 0x40000003, 252, [6]uint64{1}, 0},
	{"i386 fork", 0x40000003, 2, [6]uint64{}, unix.ENOSYS},
	{"i386 write", 0x40000003, 4, [6]uint64{1}, unix.ENOSYS},
	{"i386 socketcall", 0x40000003, 102, [6]uint64{1}, unix.ENOSYS},
	{"i386 clone", 0x40000003, 120, [6]uint64{unix.CLONE_NEWUSER}, unix.ENOSYS},
	{"i386 socket", 0x40000003, 359, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, unix.ENOSYS},
	{"i386 getpid", 0x40000003, 20, [6]uint64{}, unix.ENOSYS},
	{"x32 getpid", nativeArch, 1<<30 | unix.SYS_GETPID, [6]uint64{}, unix.ENOSYS},
	{"x32 socket", nativeArch, 1<<30 | unix.SYS_SOCKET, [6]uint64{unix.AF_INET, unix.SOCK_STREAM}, unix.ENOSYS},
	{"x32 ptrace without the bit", nativeArch, 521, [6]uint64{}, unix.ENOSYS},
	{"iopl", nativeArch, unix.SYS_IOPL, [6]uint64{3}, unix.EPERM},
	{"ioperm", nativeArch, unix.SYS_IOPERM, [6]uint64{}, unix.EPERM},
	{"modify_ldt", nativeArch, unix.SYS_MODIFY_LDT, [6]uint64{1}, unix.ENOSYS},
	{"arch_prctl", nativeArch, unix.SYS_ARCH_PRCTL, [6]uint64{}, 0},
	{"plain fork", nativeArch, unix.SYS_FORK, [6]uint64{}, 0},
	{"plain vfork", nativeArch, unix.SYS_VFORK, [6]uint64{}, 0},
}
