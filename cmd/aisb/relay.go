package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/control"
)

// stopGrace is how long a command may take to end after SIGTERM or SIGHUP.
const stopGrace = time.Second

// drainGrace is how long the last output of a killed command may take to reach
// a user who perhaps doesn't read any more.
const drainGrace = 500 * time.Millisecond

// remote is a command in a sandbox: that of a run, or one that exec has started.
type remote interface {
	Stdio() sandbox.Stdio
	Signal(sig syscall.Signal) error
	Kill()
	Killed() <-chan struct{} // closed once Kill was called
}

// resizer is a remote whose terminal is further away than its stream.
type resizer interface{ Resize(rows, cols uint16) error }

// relay joins the user's terminal or pipes with the command's until the command
// ends. podman is not in between: a byte crosses aisb once.
type relay struct {
	remote remote
	ui     *ui
	stdin  *os.File // nil when it isn't the command's
	stdout *os.File
	stderr *os.File

	tty     ttyOptions
	restore func()         // puts the user's terminal back
	typed   *input         // what the user types; nil unless it is passed on to a terminal
	settles time.Duration  // how long the user's terminal may take for its answers
	screens []*screen      // the user's files that the command writes to
	output  sync.WaitGroup // copies of what the command writes
	drained chan struct{}  // closed when all output is through
	signals chan os.Signal
	done    chan struct{}
}

// heldSignals takes what means nothing to aisb, and perhaps something to the
// command, from before there is one: the runtime drops it otherwise.
func heldSignals() chan os.Signal {
	signals := make(chan os.Signal, 16)
	notify(signals, syscall.SIGUSR1, syscall.SIGUSR2)
	return signals
}

// startRelay begins to copy and to pass signals on, those in held first.
func startRelay(c remote, u *ui, held chan os.Signal, stdin *os.File, tty ttyOptions) (*relay, error) {
	r := &relay{
		remote: c, ui: u, stdin: stdin, stdout: os.Stdout, stderr: os.Stderr, tty: tty,
		restore: func() {}, signals: held, done: make(chan struct{}),
		drained: make(chan struct{}), settles: settleGrace,
	}
	// Without this the runtime ends aisb at the first write to a stdout that
	// nobody reads (os/signal, SIGPIPE), and the sandbox with it.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	notify(r.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGWINCH)
	tty.warn(u, r.stdout, r.stderr)
	if c.Stdio().PTY != nil && stdin != nil {
		state, err := term.MakeRaw(int(r.stdin.Fd()))
		if err != nil {
			return nil, fmt.Errorf("put the terminal into raw mode: %w", err)
		}
		u.raw.Store(true)
		r.restore = func() {
			_ = term.Restore(int(r.stdin.Fd()), state)
			u.raw.Store(false)
		}
	}
	if err := r.copyAll(); err != nil {
		r.restore()
		return nil, err
	}
	go func() {
		r.output.Wait()
		close(r.drained)
	}()
	go r.passSignals()
	return r, nil
}

func (r *relay) tell(s *sandbox.Session) { tellAll(r.ui, s, r.done) }

// tellAll says what comes up in a run until done. Each kind has a goroutine of its
// own, since a terminal that is held up or a pipe that nobody reads holds up who
// writes to it.
func tellAll(u *ui, s *sandbox.Session, done <-chan struct{}) {
	go func() {
		select {
		case <-s.GateDied():
			u.gateDied()
		case <-s.PastaDied():
			u.line("error: ", "pasta has ended: the sandbox reaches nothing any more")
		case <-done:
		}
	}()
	for _, trouble := range []<-chan string{s.Trouble(), s.Appeared()} {
		go func() {
			for {
				select {
				case text := <-trouble:
					u.line("warning: ", text)
				case <-done:
					return
				}
			}
		}()
	}
}

// gateDied says that, once: as soon as it is known, or else before the receipt. A run may
// end before anybody has come to say it.
func (u *ui) gateDied() {
	u.gateGone.Do(func() { u.line("error: ", "the gate has ended: the sandbox reaches nothing any more") })
}

// copyAll starts the copies in each direction.
func (r *relay) copyAll() error {
	io3 := r.remote.Stdio()
	if io3.PTY != nil {
		if r.stdin != nil {
			var err error
			if r.typed, err = startInput(io3.PTY, r.stdin); err != nil {
				return err
			}
		}
		to := r.screen(r.stdout, r.stdin != nil && sameTerminal(r.stdin, r.stdout))
		r.output.Go(func() { r.fromTerminal(to, io3.PTY) })
		return nil
	}
	go func() {
		if r.stdin != nil {
			_ = relayCopy(io3.Stdin, patient{r.stdin})
		}
		io3.Stdin.Close()
	}()
	out, errs := r.screen(r.stdout, false), r.screen(r.stderr, false)
	r.output.Go(func() { r.fromPipe(out, io3.Stdout) })
	r.output.Go(func() { r.fromPipe(errs, io3.Stderr) })
	return nil
}

// fromTerminal copies what the command writes to its terminal.
func (r *relay) fromTerminal(to *screen, pty *os.File) {
	err := to.copy(&control.Rest{F: pty}) // ends with EIO when the last process has closed its side
	var failed *fs.PathError
	if errors.As(err, &failed) && failed.Op != "read" {
		// The user's terminal is gone, even if no SIGHUP says so.
		select {
		case r.signals <- syscall.SIGHUP:
		default: // others wait already
		}
	}
	pty.Close() // the kernel hangs up: who still writes must not wait for a reader
}

// fromPipe copies one stream. When the user's side is gone (EPIPE), the
// command's side is closed, so that it gets its SIGPIPE as without aisb.
func (r *relay) fromPipe(to *screen, src *os.File) {
	_ = to.copy(&control.Rest{F: src})
	src.Close()
}

// passSignals hands the user's signals to the command, until wait ends it. A
// command that doesn't end is killed; from then on a signal ends aisb itself.
func (r *relay) passSignals() {
	var force <-chan time.Time
	for {
		select {
		case <-r.done:
			return
		case <-force:
			r.remote.Kill()
			signal.Stop(r.signals)
			return
		case sig := <-r.signals:
			if sig == syscall.SIGWINCH {
				r.resize()
				continue
			}
			if force == nil && r.ends(sig) {
				force = time.After(stopGrace)
			}
			// An error means that the command is already gone.
			r.remote.Signal(sig.(syscall.Signal))
		}
	}
}

// ends reports whether a signal means the end of the run whatever the command
// makes of it. ^C is the command's own as long as it has an output.
func (r *relay) ends(sig os.Signal) bool {
	switch sig {
	case syscall.SIGTERM, syscall.SIGHUP:
		return true
	case syscall.SIGINT, syscall.SIGQUIT:
		select {
		case <-r.drained:
			return true
		default:
		}
	}
	return false
}

// resize gives the command's terminal the size of the user's. The kernel sends
// SIGWINCH inside.
func (r *relay) resize() {
	pty := r.remote.Stdio().PTY
	if pty == nil {
		return
	}
	size, err := unix.IoctlGetWinsize(int(os.Stdin.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		size, err = unix.IoctlGetWinsize(int(r.stdout.Fd()), unix.TIOCGWINSZ)
	}
	if err != nil {
		return
	}
	if r, ok := r.remote.(resizer); ok {
		_ = r.Resize(size.Row, size.Col) // an error means that it has ended
		return
	}
	// Not by Fd, which would make reading from it block for good.
	if raw, err := pty.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, size) })
	}
}

// flush waits until all output is through, and puts the terminal back. Signals are
// passed on until stop: a command can close its output, or lose it with the user's
// terminal, and live on. It reports whether the output got through; what a user
// doesn't read must not hold up the end of a command that was killed.
func (r *relay) flush() (through bool) {
	select {
	case <-r.drained:
		through = true
	case <-r.remote.Killed():
		select {
		case <-r.drained:
			through = true
		case <-time.After(drainGrace):
		}
	}
	if r.typed != nil {
		r.typed.stop()
		if through {
			r.settle()
		}
	}
	r.restore()
	if through {
		r.tellKept()
	}
	return through
}

// stop ends the relay when the command has ended.
func (r *relay) stop() {
	close(r.done)
	signal.Stop(r.signals)
}

// terminalSize is the user's terminal's size, and whether both stdin and stdout
// are terminals: only then the command gets one of its own.
func terminalSize() (rows, cols uint16, tty bool) {
	if !isTerminal(os.Stdin) || !isTerminal(os.Stdout) {
		return 0, 0, false
	}
	w, h, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return 24, 80, true
	}
	return uint16(h), uint16(w), true
}
