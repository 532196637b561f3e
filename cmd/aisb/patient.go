package main

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// patient is one of the user's files, which may become non-blocking at any time:
// O_NONBLOCK belongs to the open file description (open(2)), and so to every
// process that shares it, such as a Node that started aisb. The os package looks
// at it once, and takes EAGAIN for an error from then on.
type patient struct{ f *os.File }

func (p patient) Read(b []byte) (int, error) {
	for {
		n, err := p.f.Read(b)
		if n > 0 || !errors.Is(err, unix.EAGAIN) {
			return n, err
		}
		if err := p.wait(unix.POLLIN); err != nil {
			return 0, err
		}
	}
}

func (p patient) Write(b []byte) (int, error) {
	done := 0
	for {
		n, err := p.f.Write(b[done:])
		done += n
		if !errors.Is(err, unix.EAGAIN) {
			return done, err
		}
		if err := p.wait(unix.POLLOUT); err != nil {
			return done, err
		}
	}
}

// wait returns when the next call won't give EAGAIN. An error or a hang-up of
// the other side is for that call to tell.
func (p patient) wait(events int16) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(p.f.Fd()), Events: events}}, -1)
		if err != unix.EINTR {
			return err
		}
	}
}

// relayCopy copies until the end of src. Neither side's own way of copying is
// used, since it would pass patient by.
func relayCopy(dst io.Writer, src io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, make([]byte, 64<<10))
	return err
}
