package entry

import (
	"os"
	"os/signal"
	"sync"
	"syscall"

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
		}
	}
}

// obey does what aisb says until it is gone; then the sandbox ends at once, as
// the kernel kills all that lives in the namespace of a dead pid 1.
func (e *entry) obey() {
	for {
		var c handshake.Control
		if err := receive(e.conn, &c); err != nil {
			os.Exit(killed)
		}
		if c.Signal > 0 && c.Signal <= maxSignal {
			e.signals.send(unix.Signal(c.Signal))
		}
	}
}

// maxSignal is the highest signal number (_NSIG).
const maxSignal = 64

// signals passes signals on to the command. Every signal that can be is caught,
// because the command's processes run as pid 1's user: a default action would
// let them end or stop pid 1 and the Go runtime, which has defaults of its own
// that the kernel's protection of pid 1 doesn't cover. Caught and not ignored,
// or the command would inherit that.
type signals struct {
	mu    sync.Mutex
	pid   int // of the command, 0 before
	group bool
}

// forwarded are the signals that podman stop and the like send to a container.
var forwarded = []os.Signal{unix.SIGTERM, unix.SIGINT, unix.SIGHUP, unix.SIGQUIT, unix.SIGUSR1, unix.SIGUSR2}

func catchSignals() *signals {
	s := &signals{}
	swallow := make(chan os.Signal, 1) // never read: Notify drops what doesn't fit
	var all []os.Signal
	for n := syscall.Signal(1); n <= maxSignal; n++ {
		// The runtime interrupts its own threads with SIGURG, all the time.
		if n != unix.SIGURG && n != unix.SIGCHLD && n != unix.SIGKILL && n != unix.SIGSTOP {
			all = append(all, n)
		}
	}
	signal.Notify(swallow, all...)
	pass := make(chan os.Signal, 16)
	signal.Notify(pass, forwarded...)
	go func() {
		for sig := range pass {
			s.send(sig.(unix.Signal))
		}
	}()
	return s
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
		os.Exit(128 + int(sig))
	case s.group:
		unix.Kill(-s.pid, sig)
	default:
		unix.Kill(s.pid, sig)
	}
}
