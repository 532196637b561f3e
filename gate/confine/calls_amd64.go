package confine

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_X86_64

// nativeCalls are those that arm64 doesn't have.
var nativeCalls = []uint32{unix.SYS_EPOLL_WAIT}
