//go:build cgo

package entry

// withCgo says that the test binary may be linked with the C library, where
// system calls on all threads are not available (package syscall).
const withCgo = true
