package seccomp

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_AARCH64

// arm numbers are of arch/arm/tools/syscall.tbl.
var foreignCalls = []call{
	{"arm exit", 0x40000028, 1, [6]uint64{1}, 0},
	{"arm exit_group", 0x40000028, 248, [6]uint64{1}, 0},
	{"arm fork", 0x40000028, 2, [6]uint64{}, unix.ENOSYS},
	{"arm socketcall", 0x40000028, 102, [6]uint64{1}, unix.ENOSYS},
	{"arm clone", 0x40000028, 120, [6]uint64{unix.CLONE_NEWUSER}, unix.ENOSYS},
	{"arm socket", 0x40000028, 281, [6]uint64{unix.AF_UNIX, unix.SOCK_STREAM}, unix.ENOSYS},
	{"arm getpid", 0x40000028, 20, [6]uint64{}, unix.ENOSYS},
}

var archChildren = map[string]func([]string) (any, error){}
