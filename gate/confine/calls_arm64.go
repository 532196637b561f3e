package confine

import "golang.org/x/sys/unix"

const nativeArch = unix.AUDIT_ARCH_AARCH64

// nativeCalls are none: amd64 has all of arm64's.
var nativeCalls []uint32
