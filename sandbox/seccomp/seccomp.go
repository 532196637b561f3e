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
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/callfilter"
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
	return callfilter.Assemble(native.filter(o))
}

// Install puts the filter on every thread of this process, and so on all that
// it starts, for good. no_new_privs has to be set. On an error no thread has the
// filter.
func Install(o Options) error {
	return callfilter.Install(native.filter(o))
}
