package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/terminal"
)

// input passes on what the user types. Unlike a copy it can be stopped while it
// waits, so that what is typed after the command's end is the user's shell's.
type input struct {
	from    *os.File
	stopped *os.File // the other end of wake
	wake    *os.File // closed by stop
	ended   chan struct{}

	answer  terminal.Answer
	answers atomic.Int64 // to terminal.Question, seen
}

func startInput(to io.Writer, from *os.File) (*input, error) {
	in := &input{from: from, ended: make(chan struct{})}
	var err error
	if in.stopped, in.wake, err = os.Pipe(); err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	go func() {
		defer close(in.ended)
		in.copy(to)
	}()
	return in, nil
}

// copy ends with the file, the command's terminal, or stop.
func (in *input) copy(to io.Writer) {
	buf := make([]byte, 32<<10)
	for in.ready() {
		n, err := in.from.Read(buf)
		if n > 0 {
			in.answers.Add(int64(in.answer.Count(buf[:n])))
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil && !errors.Is(err, unix.EAGAIN) {
			return
		}
	}
}

// ready waits until there is something to read, or for stop.
func (in *input) ready() bool {
	fds := []unix.PollFd{{Fd: int32(in.from.Fd()), Events: unix.POLLIN}, {Fd: int32(in.stopped.Fd())}}
	for {
		switch _, err := unix.Poll(fds, -1); {
		case errors.Is(err, unix.EINTR):
		case err != nil || fds[1].Revents != 0:
			return false
		case fds[0].Revents != 0:
			return true
		}
	}
}

// inputGrace is how long what was just read may take to get to a terminal that
// is being closed.
const inputGrace = time.Second

// stop ends the copy.
func (in *input) stop() {
	in.wake.Close()
	select {
	case <-in.ended:
		in.stopped.Close()
	case <-time.After(inputGrace): // it is held up, and nobody reads any more
	}
}

const (
	// askedLately is how old a question may be whose answer may still be on its way:
	// longer than any line takes that one would work over.
	askedLately = 2 * time.Second

	// settleGrace is how long the user waits for the answers at most. A terminal's that
	// answers are there sooner, over a slow line or on a busy machine too.
	settleGrace = time.Second
)

// settle takes the terminal's answers to what the command has asked, and what it
// sent by itself, out of the input: they would be the next command line. Keys
// in between can't be told apart from them, and are lost.
func (r *relay) settle() {
	lately := func(s *screen) bool { return s.reporting || time.Since(s.asked) < askedLately }
	if len(r.screens) != 1 || !lately(r.screens[0]) {
		return
	}
	select {
	case <-r.typed.ended:
	default: // it would read too
		return
	}
	// Never wait for a terminal that takes nothing any more.
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(r.stdout.Fd()), Events: unix.POLLOUT}}, 0); n != 1 || err != nil {
		return
	}
	if _, err := io.WriteString(patient{r.stdout}, terminal.Question); err != nil {
		return
	}
	// The command may have asked the same and not have been answered yet.
	asked := r.screens[0].filter.Asked().Attributes
	r.typed.skip(max(0, asked-int(r.typed.answers.Load()))+1, time.Now().Add(r.settles))
}

// skip reads up to the end of the n-th answer, and not a byte more.
func (in *input) skip(n int, deadline time.Time) {
	const interrupt = 0x03 // ^C, as the terminal is still raw
	var b [1]byte
	for n > 0 && b[0] != interrupt {
		left := int(time.Until(deadline).Milliseconds())
		if left <= 0 {
			return
		}
		fds := []unix.PollFd{{Fd: int32(in.from.Fd()), Events: unix.POLLIN}}
		got, err := unix.Poll(fds, left)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || got == 0 {
			return
		}
		if got, err := in.from.Read(b[:]); got == 0 || err != nil {
			return
		}
		if in.answer.Next(b[0]) {
			n--
		}
	}
}
