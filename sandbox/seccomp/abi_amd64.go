package seccomp

import "golang.org/x/sys/unix"

// native is amd64, whose kernels also run i386 programs, and i386 calls of
// amd64 programs by "int $0x80".
var native = abi{
	arch: unix.AUDIT_ARCH_X86_64,
	foreign: foreign{
		arch: unix.AUDIT_ARCH_I386,
		exit: 1, exitGroup: 252, // arch/x86/entry/syscalls/syscall_32.tbl
	},
	refused: []group{
		{errno: unix.EPERM, calls: []uint32{unix.SYS_IOPL, unix.SYS_IOPERM}},
		// For 16-bit and 32-bit code alone, none of which runs here.
		{errno: unix.ENOSYS, calls: []uint32{unix.SYS_MODIFY_LDT}},
	},
}
