package seccomp

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// newest is the highest number that has been reviewed for this filter. Numbers
// from 424 on are the same on all architectures. Before it is raised, decide on
// each call in between: 470 is listns, which lists namespaces.
const newest = unix.SYS_FILE_SETATTR

// group is a number of calls that are refused for one reason, whatever their
// arguments.
type group struct {
	errno   syscall.Errno
	nesting bool // Options.AllowUserNS opens it
	calls   []uint32
}

// EPERM is for what the kernel would refuse for want of a right, so programs
// say so. ENOSYS is for what a kernel can be built without, so programs have a
// way of doing without it.
var groups = []group{
	// Namespaces and mounts. The kernel asks for capabilities in the user
	// namespace first, so these matter once one was got by some other way.
	{errno: unix.EPERM, nesting: true, calls: []uint32{
		unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT,
		unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOVE_MOUNT, unix.SYS_MOUNT_SETATTR,
		unix.SYS_OPEN_TREE, unix.SYS_OPEN_TREE_ATTR,
		unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	}},
	// Its flags lie in memory. C libraries and Go fall back to clone on ENOSYS
	// and on nothing else.
	{errno: unix.ENOSYS, nesting: true, calls: []uint32{unix.SYS_CLONE3}},
	// Makes sockets and opens files without a system call of their own.
	{errno: unix.ENOSYS, calls: []uint32{
		unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	}},
	// Keys belong to the uid, so a sandbox would share them with its user and
	// with every other sandbox. Container engines inside do without on ENOSYS.
	{errno: unix.ENOSYS, calls: []uint32{unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL}},
	// Open to everyone on some kernels, useful to few, and a good part of all
	// kernel exploits.
	{errno: unix.EPERM, calls: []uint32{unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD}},
	// Opens files that no path leads to; since Linux 6.14 also processes and
	// since 6.18 namespaces, with no capability.
	{errno: unix.EPERM, calls: []uint32{unix.SYS_OPEN_BY_HANDLE_AT}},
	// The kernel's log is the host's, and readable where kernel.dmesg_restrict
	// is 0.
	{errno: unix.EPERM, calls: []uint32{unix.SYS_SYSLOG}},
	// What changes the machine.
	{errno: unix.EPERM, calls: []uint32{
		unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
		unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
		unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	}},
}
