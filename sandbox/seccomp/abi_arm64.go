package seccomp

import "golang.org/x/sys/unix"

// native is arm64, some of whose kernels and processors also run 32-bit
// programs.
var native = abi{
	arch: unix.AUDIT_ARCH_AARCH64,
	foreign: foreign{
		arch: unix.AUDIT_ARCH_ARM,
		exit: 1, exitGroup: 248, // arch/arm/tools/syscall.tbl
	},
}
