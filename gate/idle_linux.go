package gate

import (
	"errors"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// idlers watch the tunnels that are silent, all from one goroutine. The zero
// value is ready; the goroutine starts with the first tunnel and ends in close.
type idlers struct {
	once sync.Once
	rest time.Duration // between two looks at who is silent; 0 is restTime
	done chan struct{}

	mu    sync.Mutex
	epoll *os.File // nil before the first tunnel and after close
	at    map[int32]*way
	added int // since the last look
}

// restTime is how often it is looked at who is silent. A way is parked when it
// was silent from one look to the next.
const restTime = 5 * time.Second

// begin starts the goroutine, once, and reports whether it runs. Without
// descriptors nothing is parked, and all else works.
func (i *idlers) begin(all *flows) bool {
	i.once.Do(func() {
		fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
		if err != nil {
			return
		}
		_ = unix.SetNonblock(fd, true) // by that os.NewFile knows what the runtime's poller can wait for
		file := os.NewFile(uintptr(fd), "epoll")
		raw, err := file.SyscallConn()
		if err != nil {
			file.Close()
			return
		}
		i.mu.Lock()
		i.epoll, i.at = file, make(map[int32]*way)
		i.mu.Unlock()
		if i.rest == 0 {
			i.rest = restTime
		}
		i.done = make(chan struct{})
		go func() {
			defer close(i.done)
			i.run(file, raw, all)
		}()
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.epoll != nil
}

// close ends the goroutine. Nobody is parked any more.
func (i *idlers) close() {
	i.once.Do(func() {})
	i.mu.Lock()
	file := i.epoll
	i.epoll = nil
	i.mu.Unlock()
	if file != nil {
		file.Close()
		<-i.done
	}
}

func (i *idlers) run(file *os.File, raw syscall.RawConn, all *flows) {
	events := make([]unix.EpollEvent, 128)
	n := 0
	look := func(fd uintptr) bool {
		n, _ = unix.EpollWait(int(fd), events, 0)
		return n > 0
	}
	next := time.Now().Add(i.rest)
	for {
		file.SetReadDeadline(next)
		switch err := raw.Read(look); {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			i.release()
			all.tire()
			next = time.Now().Add(i.rest)
			continue
		default:
			return
		}
		for _, e := range events[:n] {
			i.mu.Lock()
			w := i.at[e.Fd]
			delete(i.at, e.Fd)
			i.mu.Unlock()
			if w != nil {
				w.resume()
			}
		}
	}
}

// add watches a way's source until something happens there: bytes, the end or an
// error. It reports whether it does.
func (i *idlers) add(w *way) (added bool) {
	_ = w.raw.Control(func(fd uintptr) {
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.epoll == nil {
			return
		}
		conn, err := i.epoll.SyscallConn()
		if err != nil {
			return
		}
		w.fd = int32(fd)
		i.added++
		i.at[w.fd] = w
		_ = conn.Control(func(epoll uintptr) {
			// Once: whoever reads then waits by the runtime's own poller again.
			e := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: w.fd}
			err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_ADD, int(fd), &e)
			if errors.Is(err, unix.EEXIST) {
				err = unix.EpollCtl(int(epoll), unix.EPOLL_CTL_MOD, int(fd), &e)
			}
			added = err == nil
		})
		if !added {
			delete(i.at, w.fd)
		}
	})
	return added
}

// manyParked at once leave so many stacks behind that it is worth to collect them.
const manyParked = 1000

// release gives the memory of goroutines that have ended back. Their stacks stay
// until a collection, which a process that does nothing runs every two minutes,
// and what that frees goes back to the system by and by.
func (i *idlers) release() {
	i.mu.Lock()
	n := i.added
	i.added = 0
	i.mu.Unlock()
	if n >= manyParked {
		debug.FreeOSMemory()
	}
}

// forget drops a way that is not parked any more or whose tunnel has ended. The
// kernel forgets a descriptor when it is closed; an event of one that is not finds
// nobody.
func (i *idlers) forget(w *way) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.at[w.fd] == w {
		delete(i.at, w.fd)
	}
}
