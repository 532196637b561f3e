package gate

import (
	"errors"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// way is one direction of a tunnel. A goroutine of its own moves its bytes; when
// none have come for a while, the goroutine ends and the way is left to idlers,
// so that a tunnel that is silent while a model thinks costs next to nothing.
type way struct {
	t        *tunnel
	src, dst stream
	other    *way
	count    *meter
	budget   *budget

	raw  syscall.RawConn // src; nil if it has no descriptor
	wait func(fd uintptr) bool
	bulk bool // what comes is much: worth a pipe

	// What wait has read, in one of two forms.
	buf *[]byte
	p   pipe
	n   int64
	err error

	state atomic.Int32 // young, running or parked
	seen  int64        // by the last round of idlers
	fd    int32        // while parked
	kept  bool         // keepAlive was called for src

	mu    sync.Mutex // of yield together with src's read deadline
	yield bool       // whoever reads is to stop and park
}

// States of a way.
const (
	young   = iota // the tunnel's first bytes are judged yet
	running        // a goroutine is in run
	parked         // idlers watch the source
)

func (w *way) init(t *tunnel, src, dst stream, other *way, count *meter, b *budget) {
	w.t, w.src, w.dst, w.other, w.count, w.budget, w.seen = t, src, dst, other, count, b, -1
	if c, ok := src.(syscall.Conn); ok {
		w.raw, _ = c.SyscallConn()
	}
	w.wait = w.fill
}

// run moves bytes until the source ends, an end breaks, the budget is spent or
// nothing comes.
func (w *way) run() {
	defer w.t.contain()
	w.state.Store(running)
	for {
		if w.t.half.Load() {
			w.limit()
		}
		err := w.move()
		if err == nil {
			continue
		}
		if errors.Is(err, os.ErrDeadlineExceeded) && w.yielded() {
			if w.park() {
				return
			}
			continue
		}
		w.end(err)
		return
	}
}

// limit bounds the silence of a way whose other one has ended: of its source, and of
// who doesn't read what comes from there.
func (w *way) limit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	end := time.Now().Add(w.t.g.times.halfOpen)
	w.src.SetReadDeadline(end)
	w.dst.SetWriteDeadline(end)
}

// went notes that bytes have gone on.
func (w *way) went() {
	if w.t.half.Load() {
		w.limit()
	}
}

// end ends the way, and with the second one the tunnel.
func (w *way) end(err error) {
	t := w.t
	if !errors.Is(err, io.EOF) {
		t.cutBy(err)
	} else if !t.half.Swap(true) {
		w.dst.CloseWrite()
		w.other.limit() // it may be waiting already
		t.g.idle.forget(w.other)
		w.other.resume()
		return
	}
	t.client.Close()
	t.server.Close()
}

// move waits for bytes and moves them, if the budget has room for them. At the
// end of the source it returns io.EOF.
func (w *way) move() error {
	if w.raw == nil || w.other.raw == nil {
		n, err := moveBuffered(w.dst, w.src, w.budget)
		w.count.Add(n)
		return err
	}
	w.n, w.err = 0, nil
	if err := w.raw.Read(w.wait); err != nil {
		return err
	}
	if w.buf != nil {
		return w.write()
	}
	p, n := w.p, w.n
	switch {
	case w.err != nil:
		return w.err
	case n == 0:
		p.put()
		return io.EOF
	case !w.budget.spend(n):
		p.close()
		return errBudget
	}
	w.bulk = n >= readSize
	moved, err := empty(w.other.raw, p, n, w.went)
	w.count.Add(moved)
	if err != nil {
		p.close() // there is something in it
		return err
	}
	p.put()
	return nil
}

// write sends on what fill has read into memory.
func (w *way) write() error {
	defer func() { putBuffer(w.buf); w.buf = nil }()
	switch {
	case w.err != nil:
		return w.err
	case w.n == 0:
		return io.EOF
	case !w.budget.spend(w.n):
		return errBudget
	}
	w.bulk = w.n == readSize
	n, err := w.dst.Write((*w.buf)[:w.n])
	w.count.Add(int64(n))
	return err
}

// fill takes what has come, into a pipe if it is much and into memory if not:
// for a few bytes two system calls are cheaper than what a pipe needs. Until
// something comes it holds neither.
func (w *way) fill(fd uintptr) bool {
	if w.bulk {
		p, err := getPipe()
		if err == nil {
			w.p = p
			if w.n, w.err = spliceOnce(int(fd), p.w, pipeSize); w.err != nil {
				p.put()
			}
			return w.err != unix.EAGAIN //nolint:errorlint // from the kernel, never wrapped
		}
		w.bulk = false // out of descriptors: memory works still
	}
	w.buf = getBuffer()
	for {
		n, err := unix.Read(int(fd), *w.buf)
		w.n, w.err = int64(max(n, 0)), err
		if err == unix.EAGAIN { //nolint:errorlint // as above
			putBuffer(w.buf)
			w.buf = nil
			return false
		}
		if err != unix.EINTR { //nolint:errorlint // as above
			return true
		}
	}
}

// tire asks a way through which nothing has gone since the last call to park.
func (w *way) tire() {
	if n := w.count.Load(); n != w.seen {
		w.seen = n
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	// With one direction over, the other has a time limit, which needs a reader.
	if w.state.Load() == running && w.raw != nil && w.other.raw != nil && !w.yield && !w.t.half.Load() {
		w.yield = true
		w.src.SetReadDeadline(time.Unix(1, 0))
	}
}

// yielded reports whether a deadline was tire's, and takes it off.
func (w *way) yielded() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	y := w.yield
	if y {
		w.yield = false
		w.src.SetReadDeadline(time.Time{})
	}
	return y
}

// park leaves the way to idlers and reports whether it is out of the caller's
// hands, who then must not touch it any more. end sets half before it resumes
// the other way, and park looks at half after it has set parked: one of the two
// sees the other.
func (w *way) park() bool {
	if w == &w.t.ways[1] && !w.kept {
		// Now that nothing goes through, only that finds a server that has gone. A
		// client's socket has it from the listener.
		keepAlive(w.src)
		w.kept = true
	}
	w.state.Store(parked)
	if !w.t.half.Load() && w.t.g.idle.add(w) {
		return true
	}
	return !w.state.CompareAndSwap(parked, running)
}

// resume lets a goroutine go on with a parked way.
func (w *way) resume() {
	if w.state.CompareAndSwap(parked, running) {
		go w.run()
	}
}
