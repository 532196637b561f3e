package gate

import (
	"errors"
	"fmt"
	"io"
	"net"

	"golang.org/x/sys/unix"
)

// io.Copy between two TCP connections splices too, but it holds a pipe, four
// descriptors a tunnel, while it waits for bytes that may come in an hour, and
// tells what it moved only at the end. So the gate splices itself: a pipe is
// taken when bytes are there and given back when they have left.

// pipe is a pipe in the kernel through which bytes go from socket to socket.
type pipe struct{ r, w int }

// pipeSize is asked for; the kernel gives less to a user who has many (pipe(7),
// pipe-user-pages-soft). Measured at 64 KiB, a GiB costs half as much CPU again.
const pipeSize = 1 << 20

// pipes holds idle pipes, not more than one user may have of that size.
var pipes = make(chan pipe, 32)

func getPipe() (pipe, error) {
	select {
	case p := <-pipes:
		return p, nil
	default:
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return pipe{}, fmt.Errorf("make pipe: %w", err)
	}
	unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize) // as it is will do
	return pipe{fds[0], fds[1]}, nil
}

// put gives an empty pipe back.
func (p pipe) put() {
	select {
	case pipes <- p:
	default:
		p.close()
	}
}

func (p pipe) close() {
	unix.Close(p.r)
	unix.Close(p.w)
}

// moveOnce waits for bytes from src and moves them to dst, if the budget has room
// for them. At the end of src it returns io.EOF.
func moveOnce(dst, src stream, b *budget) (int64, error) {
	from, ok1 := src.(*net.TCPConn)
	to, ok2 := dst.(*net.TCPConn)
	if !ok1 || !ok2 {
		return moveBuffered(dst, src, b)
	}
	p, n, err := fill(from)
	switch {
	case errors.Is(err, errNoPipe):
		return moveBuffered(dst, src, b) // out of descriptors: the slow way works still
	case err != nil:
		return 0, err
	case n == 0:
		p.put()
		return 0, io.EOF
	case !b.spend(n):
		p.close()
		return 0, errBudget
	}
	moved, err := empty(to, p, n)
	if err != nil {
		p.close() // there is something in it
		return moved, err
	}
	p.put()
	return moved, nil
}

// errNoPipe reports that no pipe could be made.
var errNoPipe = errors.New("no pipe")

// fill waits for bytes and takes them into a pipe. While it waits it holds none.
func fill(from *net.TCPConn) (p pipe, n int64, err error) {
	raw, err := from.SyscallConn()
	if err != nil {
		return pipe{}, 0, err
	}
	var serr error
	err = raw.Read(func(fd uintptr) bool {
		if p, serr = getPipe(); serr != nil {
			serr = errors.Join(errNoPipe, serr)
			return true
		}
		n, serr = spliceOnce(int(fd), p.w, pipeSize)
		if serr == nil {
			return true
		}
		p.put()
		return serr != unix.EAGAIN
	})
	if err == nil {
		err = serr
	}
	return p, n, err
}

// empty moves n bytes out of a pipe.
func empty(to *net.TCPConn, p pipe, n int64) (moved int64, err error) {
	raw, err := to.SyscallConn()
	if err != nil {
		return 0, err
	}
	for moved < n {
		var m int64
		var serr error
		err := raw.Write(func(fd uintptr) bool {
			m, serr = spliceOnce(p.r, int(fd), n-moved)
			return serr != unix.EAGAIN
		})
		if err == nil {
			err = serr
		}
		if err == nil && m == 0 {
			err = io.ErrNoProgress
		}
		if err != nil {
			return moved, err
		}
		moved += m
	}
	return moved, nil
}

func spliceOnce(from, to int, limit int64) (int64, error) {
	for {
		n, err := unix.Splice(from, nil, to, nil, int(limit), unix.SPLICE_F_NONBLOCK|unix.SPLICE_F_MOVE)
		if err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// moveBuffered moves bytes through memory.
func moveBuffered(dst, src stream, b *budget) (int64, error) {
	buf := getBuffer()
	defer putBuffer(buf)
	n, err := src.Read(*buf)
	if n == 0 {
		return 0, err
	}
	if !b.spend(int64(n)) {
		return 0, errBudget
	}
	m, err := dst.Write((*buf)[:n])
	return int64(m), err
}
