package gate

import (
	"fmt"
	"io"
	"syscall"

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
	_, _ = unix.FcntlInt(uintptr(fds[1]), unix.F_SETPIPE_SZ, pipeSize) // as it is will do
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

// empty moves n bytes out of a pipe. went is called after each of several pieces.
func empty(to syscall.RawConn, p pipe, n int64, went func()) (moved int64, err error) {
	for moved < n {
		var m int64
		var serr error
		err := to.Write(func(fd uintptr) bool {
			m, serr = spliceOnce(p.r, int(fd), n-moved)
			return serr != unix.EAGAIN //nolint:errorlint // from the kernel, never wrapped
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
		if moved += m; moved < n {
			went()
		}
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
