package entry

import (
	"fmt"
	"os"
	"os/signal"
	"slices"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// supervise is pid 1 while the command lives: it reaps whatever is left to it
// and returns the command's status. What still runs then ends with the PID
// namespace (pid_namespaces(7)).
func (e *entry) supervise() int {
	go e.obey()
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case err == unix.EINTR:
		case err != nil:
			// No child at all, though the command was never reaped.
			return killed
		case pid == e.signals.command() && ws.Exited():
			return ws.ExitStatus()
		case pid == e.signals.command() && ws.Signaled():
			return 128 + int(ws.Signal())
		case !ws.Exited() && !ws.Signaled():
			// A child that made its parent its tracer (PTRACE_TRACEME, ptrace(2)) has
			// stopped. It lives, and ends by SIGKILL.
		default:
			e.execs.reaped(pid, ws)
		}
	}
}

// obey does what aisb says until it is gone; then the sandbox ends at once, as
// the kernel kills all that lives in the namespace of a dead pid 1.
func (e *entry) obey() {
	for {
		var c handshake.Control
		m, err := e.conn.Recv(&c)
		if err != nil {
			os.Exit(killed) //nolint:forbidigo // the end of pid 1 is the end of the container
		}
		if c.Exec || c.Dial != 0 {
			e.keep()
		}
		if c.Exec && len(m.Files) == 1 {
			go e.execs.serve(m.Files[0])
			continue
		}
		if c.Dial != 0 && len(m.Files) == 1 {
			go e.dials.serve(m.Files[0], c.Dial)
			continue
		}
		m.Close()
		if c.Signal > 0 && c.Signal <= maxSignal {
			e.signals.send(unix.Signal(c.Signal))
		}
	}
}

// maxSignal is the highest signal number (_NSIG).
const maxSignal = 64

// signals passes signals on to the command. The command's processes run as pid
// 1's user and may signal it. The kernel drops what pid 1 has no handler for
// (SIGNAL_UNKILLABLE in kernel/signal.c), but the Go runtime has handlers for
// most, which end the process by default. So those that are passed on are caught by
// the program, and all others are left to the kernel: not ignored, or the command
// would inherit that.
type signals struct {
	mu    sync.Mutex
	pid   int // of the command, 0 before
	group bool
}

// forwarded are the signals that podman stop and the like send to a container.
var forwarded = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

// kept are the signals whose handlers stay the runtime's, beside those of faults for
// now: it interrupts its threads with SIGURG, asks for a system call of each with the
// second of the three that C libraries use for that (pthreads(7)), and a SIGCHLD does
// nothing.
var kept = []unix.Signal{unix.SIGURG, unix.SIGCHLD, unix.SIGKILL, unix.SIGSTOP, 32, 33, 34}

// catchSignals makes pid 1 deaf to all signals but those that it passes on. Notify
// would do for all of them, too, but each takes a turn of two threads.
func catchSignals() (*signals, error) {
	s := &signals{}
	// For a write to a pipe that nobody reads, which is an error and no more then.
	signal.Notify(make(chan os.Signal, 1), unix.SIGPIPE) // never read: Notify drops what doesn't fit
	var others []unix.Signal
	for n := unix.Signal(1); n <= maxSignal; n++ {
		if n != unix.SIGPIPE && !slices.Contains(forwarded, os.Signal(n)) && !slices.Contains(faults, n) && !slices.Contains(kept, n) {
			others = append(others, n)
		}
	}
	if err := leaveToKernel(others); err != nil {
		return nil, err
	}
	pass := make(chan os.Signal, 16)
	signal.Notify(pass, forwarded...)
	go func() {
		for sig := range pass {
			s.send(sig.(unix.Signal))
		}
	}()
	return s, nil
}

// faults are the signals that mean a crash to the Go runtime although the
// program catches them: unless their code is SI_USER or SI_TKILL it takes them
// for the processor's (sighandler in runtime/signal_unix.go). Everybody may
// queue one with another code, by rt_sigqueueinfo(2), pidfd_send_signal(2) or
// the F_SETSIG of fcntl(2).
var faults = []unix.Signal{
	unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGSYS,
}

// leaveToKernel takes the runtime's handlers of signals away, whereupon the kernel drops
// those that anybody sends to this pid 1. A fault of pid 1's own still ends it
// (force_sig_info_to_task), and with it the sandbox. Those are left late, so that
// until then a crash says where it was.
func leaveToKernel(list []unix.Signal) error {
	var byDefault, got sigaction
	for _, sig := range list {
		for _, step := range []struct{ set, get *sigaction }{{set: &byDefault}, {get: &got}} {
			_, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig),
				uintptr(unsafe.Pointer(step.set)), uintptr(unsafe.Pointer(step.get)), unsafe.Sizeof(got.mask), 0, 0)
			if errno != 0 {
				return fmt.Errorf("leave %v to the kernel: %w", sig, errno)
			}
		}
		if got.handler != 0 {
			return fmt.Errorf("%v still has a handler", sig)
		}
	}
	return nil
}

// sigaction is the kernel's struct sigaction on amd64 and arm64. The zero value
// is the default action.
type sigaction struct {
	handler, flags, restorer uintptr
	mask                     uint64
}

// fork starts the command, and says whether signals go to its whole process
// group. No signal falls in between.
func (s *signals) fork(group bool, start func() (int, error)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	pid, err := start()
	if err == nil {
		s.pid, s.group = pid, group
	}
	return err
}

func (s *signals) command() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pid
}

// send passes a signal to the command. Before there is one, it ends the start.
func (s *signals) send(sig unix.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.pid == 0:
		os.Exit(128 + int(sig)) //nolint:forbidigo // as a command that died of it
	case s.group:
		unix.Kill(-s.pid, sig)
	default:
		unix.Kill(s.pid, sig)
	}
}
