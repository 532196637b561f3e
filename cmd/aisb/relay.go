package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"github.com/aisb-dev/aisb/sandbox"
)

// stopGrace is how long a command may take to end after SIGTERM or SIGHUP.
const stopGrace = 1500 * time.Millisecond

// relay joins the user's terminal or pipes with the command's until the command
// ends. podman is not in between: a byte crosses aisb once.
type relay struct {
	session *sandbox.Session
	ui      *ui
	stdin   *os.File
	stdout  *os.File
	stderr  *os.File

	restore func()         // puts the user's terminal back
	output  sync.WaitGroup // copies of what the command writes
	signals chan os.Signal
	done    chan struct{}
}

// startRelay begins to copy and to pass signals on.
func startRelay(s *sandbox.Session, u *ui) (*relay, error) {
	r := &relay{
		session: s, ui: u, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr,
		restore: func() {}, signals: make(chan os.Signal, 16), done: make(chan struct{}),
	}
	signal.Notify(r.signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT,
		syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGWINCH)
	// Otherwise a write to a stdout whose reader is gone would end aisb, and so
	// the sandbox (package os/signal, SIGPIPE). It is the command's to notice.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if pty := s.Stdio().PTY; pty != nil {
		state, err := term.MakeRaw(int(r.stdin.Fd()))
		if err != nil {
			return nil, fmt.Errorf("put the terminal into raw mode: %w", err)
		}
		u.eol = "\r\n"
		r.restore = func() {
			term.Restore(int(r.stdin.Fd()), state)
			u.eol = "\n"
		}
	}
	r.copyAll()
	go r.passSignals()
	return r, nil
}

// copyAll starts the copies in each direction.
func (r *relay) copyAll() {
	io3 := r.session.Stdio()
	if io3.PTY != nil {
		go io.Copy(io3.PTY, r.stdin)
		r.output.Go(func() { r.fromTerminal(io3.PTY) })
		return
	}
	go func() {
		io.Copy(io3.Stdin, r.stdin)
		io3.Stdin.Close()
	}()
	r.output.Go(func() { r.fromPipe(r.stdout, io3.Stdout) })
	r.output.Go(func() { r.fromPipe(r.stderr, io3.Stderr) })
}

// fromTerminal copies what the command writes to its terminal. Everything that
// reaches the user's terminal passes here: it is the place of a filter for
// escape sequences that would act on the terminal or its clipboard.
func (r *relay) fromTerminal(pty *os.File) {
	io.Copy(r.stdout, pty) // ends with EIO when the last process has closed its side
}

// fromPipe copies one stream. When the user's side is gone (EPIPE), the
// command's side is closed, so that it gets its SIGPIPE as without aisb.
func (r *relay) fromPipe(dst, src *os.File) {
	io.Copy(dst, src)
	src.Close()
}

// passSignals hands the user's signals to the command, until wait ends it.
func (r *relay) passSignals() {
	var force <-chan time.Time
	for {
		select {
		case <-r.done:
			return
		case <-force:
			r.session.Kill()
			force = nil
		case sig := <-r.signals:
			switch sig {
			case syscall.SIGWINCH:
				r.resize()
				continue
			case syscall.SIGTERM, syscall.SIGHUP:
				if force == nil {
					force = time.After(stopGrace)
				}
			}
			// An error means that the command is already gone.
			r.session.Signal(sig.(syscall.Signal))
		}
	}
}

// resize gives the command's terminal the size of the user's. The kernel sends
// SIGWINCH inside.
func (r *relay) resize() {
	pty := r.session.Stdio().PTY
	if pty == nil {
		return
	}
	size, err := unix.IoctlGetWinsize(int(r.stdin.Fd()), unix.TIOCGWINSZ)
	if err != nil {
		return
	}
	unix.IoctlSetWinsize(int(pty.Fd()), unix.TIOCSWINSZ, size)
}

// finish waits until all output is through and puts the terminal back.
func (r *relay) finish() {
	r.output.Wait()
	close(r.done)
	signal.Stop(r.signals)
	r.restore()
}

// terminalSize is the user's terminal's size, and whether both stdin and stdout
// are terminals: only then the command gets one of its own.
func terminalSize() (rows, cols uint16, tty bool) {
	if !term.IsTerminal(int(os.Stdin.Fd())) || !term.IsTerminal(int(os.Stdout.Fd())) {
		return 0, 0, false
	}
	w, h, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || w <= 0 || h <= 0 {
		return 24, 80, true
	}
	return uint16(h), uint16(w), true
}
