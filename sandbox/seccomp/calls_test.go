package seccomp

import "golang.org/x/sys/unix"

// needed are calls that look dangerous and that developers' tools can't do
// without: debuggers, tracers, inner sandboxes without namespaces, file
// watchers, container-aware tools.
var needed = map[string]uint32{
	"ptrace":                  unix.SYS_PTRACE,
	"process_vm_readv":        unix.SYS_PROCESS_VM_READV,
	"process_vm_writev":       unix.SYS_PROCESS_VM_WRITEV,
	"pidfd_open":              unix.SYS_PIDFD_OPEN,
	"pidfd_getfd":             unix.SYS_PIDFD_GETFD,
	"personality":             unix.SYS_PERSONALITY, // gdb turns off address randomization
	"seccomp":                 unix.SYS_SECCOMP,
	"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET,
	"landlock_restrict_self":  unix.SYS_LANDLOCK_RESTRICT_SELF,
	"inotify_init1":           unix.SYS_INOTIFY_INIT1,
	"name_to_handle_at":       unix.SYS_NAME_TO_HANDLE_AT,
	"statmount":               unix.SYS_STATMOUNT,
	"listmount":               unix.SYS_LISTMOUNT,
	"memfd_create":            unix.SYS_MEMFD_CREATE,
	"execveat":                unix.SYS_EXECVEAT,
	"mbind":                   unix.SYS_MBIND,
	"sched_setaffinity":       unix.SYS_SCHED_SETAFFINITY,
	"splice":                  unix.SYS_SPLICE,
	"io_setup":                unix.SYS_IO_SETUP,
	"rseq":                    unix.SYS_RSEQ,
	"mseal":                   unix.SYS_MSEAL,
	"openat2":                 unix.SYS_OPENAT2,
	"close_range":             unix.SYS_CLOSE_RANGE,
	"faccessat2":              unix.SYS_FACCESSAT2,
	"futex_waitv":             unix.SYS_FUTEX_WAITV,
	"bind":                    unix.SYS_BIND,
	"accept4":                 unix.SYS_ACCEPT4,
	"connect":                 unix.SYS_CONNECT,
	"sendmmsg":                unix.SYS_SENDMMSG,
}

var refusedAlways = map[string]uint32{
	"io_uring_setup":    unix.SYS_IO_URING_SETUP,
	"io_uring_enter":    unix.SYS_IO_URING_ENTER,
	"io_uring_register": unix.SYS_IO_URING_REGISTER,
	"add_key":           unix.SYS_ADD_KEY,
	"request_key":       unix.SYS_REQUEST_KEY,
	"keyctl":            unix.SYS_KEYCTL,
	"bpf":               unix.SYS_BPF,
	"perf_event_open":   unix.SYS_PERF_EVENT_OPEN,
	"userfaultfd":       unix.SYS_USERFAULTFD,
	"open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
	"syslog":            unix.SYS_SYSLOG,
	"kexec_load":        unix.SYS_KEXEC_LOAD,
	"kexec_file_load":   unix.SYS_KEXEC_FILE_LOAD,
	"reboot":            unix.SYS_REBOOT,
	"init_module":       unix.SYS_INIT_MODULE,
	"finit_module":      unix.SYS_FINIT_MODULE,
	"delete_module":     unix.SYS_DELETE_MODULE,
	"swapon":            unix.SYS_SWAPON,
	"swapoff":           unix.SYS_SWAPOFF,
	"acct":              unix.SYS_ACCT,
}

// lacking answer as a kernel without them.
var lacking = map[uint32]bool{
	unix.SYS_IO_URING_SETUP:    true,
	unix.SYS_IO_URING_ENTER:    true,
	unix.SYS_IO_URING_REGISTER: true,
	unix.SYS_ADD_KEY:           true,
	unix.SYS_REQUEST_KEY:       true,
	unix.SYS_KEYCTL:            true,
}

var refusedUnlessNested = map[string]uint32{
	"setns":          unix.SYS_SETNS,
	"chroot":         unix.SYS_CHROOT,
	"pivot_root":     unix.SYS_PIVOT_ROOT,
	"mount":          unix.SYS_MOUNT,
	"umount2":        unix.SYS_UMOUNT2,
	"move_mount":     unix.SYS_MOVE_MOUNT,
	"mount_setattr":  unix.SYS_MOUNT_SETATTR,
	"open_tree":      unix.SYS_OPEN_TREE,
	"open_tree_attr": unix.SYS_OPEN_TREE_ATTR,
	"fsopen":         unix.SYS_FSOPEN,
	"fsconfig":       unix.SYS_FSCONFIG,
	"fsmount":        unix.SYS_FSMOUNT,
	"fspick":         unix.SYS_FSPICK,
}
