package confine

import "golang.org/x/sys/unix"

// calls are those that a gate needs whatever their arguments: of Go's runtime, its
// network poller, sockets, and of reading and removing files. The frequent ones come
// first, for kernels before 5.11.
//
// Not among them, beside all that starts programs: listen, since the listeners are
// there; ioctl, by which a process puts words into its user's mouth at a terminal
// (TIOCSTI); and socketpair, memfd_create and dup, which nothing asks for.
var calls = []uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_SPLICE, unix.SYS_EPOLL_PWAIT, unix.SYS_FUTEX,
	unix.SYS_EPOLL_CTL, unix.SYS_CLOSE, unix.SYS_ACCEPT4, unix.SYS_CONNECT, unix.SYS_SETSOCKOPT,
	unix.SYS_GETSOCKOPT, unix.SYS_GETSOCKNAME, unix.SYS_GETPEERNAME, unix.SYS_SHUTDOWN,
	unix.SYS_SENDTO, unix.SYS_RECVFROM, unix.SYS_SENDMSG, unix.SYS_RECVMSG, unix.SYS_PIPE2,
	unix.SYS_WRITEV, unix.SYS_SENDFILE,

	// Go's runtime. A call that was interrupted by a stop goes on as restart_syscall.
	unix.SYS_NANOSLEEP, unix.SYS_RESTART_SYSCALL, unix.SYS_MADVISE, unix.SYS_MUNMAP, unix.SYS_MINCORE,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_CLOCK_GETTIME,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK,
	unix.SYS_EXIT, unix.SYS_EXIT_GROUP, unix.SYS_EPOLL_CREATE1, unix.SYS_EVENTFD2, unix.SYS_GETRANDOM,

	// Files: which may be removed, and by openat opened, is Landlock's to say.
	unix.SYS_FSTAT, unix.SYS_NEWFSTATAT, unix.SYS_PREAD64, unix.SYS_LSEEK,
	unix.SYS_GETDENTS64, unix.SYS_UNLINKAT,

	// What a process may know of itself.
	unix.SYS_GETUID, unix.SYS_GETEUID, unix.SYS_GETGID, unix.SYS_GETEGID, unix.SYS_GETPPID,
	unix.SYS_UNAME, unix.SYS_GETRUSAGE, unix.SYS_GETRLIMIT,

	// The C library of a build with cgo, as the race detector needs one: its threads.
	unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_CLOCK_NANOSLEEP,
}
