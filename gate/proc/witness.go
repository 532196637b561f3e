package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
)

// A gate can't look at another process's descriptors: Landlock refuses what takes
// ptrace's leave (landlock(7)), and that is what it is there for. So it asks its
// parent, by a socket pair of their own, whose answers hold nothing but yes or no. No
// answer is a no.
//
// The gate waits for the parent without a limit. A parent that stands still is one
// that has been stopped, with its sandbox as a rule, and goes on; one that has ended
// ends the gate.

// question asks whether the process that may connect has a socket.
type question struct {
	Inode uint32 `json:"inode"`
}

// testimony is the answer.
type testimony struct {
	Held  bool   `json:"held,omitempty"`
	Error string `json:"error,omitempty"`
}

// asker is the gate's side.
type asker struct {
	mu   sync.Mutex
	conn *fdmsg.Conn
}

// holds is for gate.Clients.
func (a *asker) holds(inode uint32) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.conn.Send(question{inode}); err != nil {
		return false, fmt.Errorf("ask whose connection it is: %w", err)
	}
	var t testimony
	received, err := a.conn.Recv(&t)
	received.Close()
	if err == nil && t.Error != "" {
		err = errors.New(t.Error)
	}
	if err != nil {
		return false, fmt.Errorf("ask whose connection it is: %w", err)
	}
	return t.Held, nil
}

// witness is the parent's side.
type witness struct {
	pid atomic.Int64 // of the process that may connect; 0 is nobody

	looked int      // whose descriptors dir lists; of serve alone, like dir
	dir    *os.File // /proc/PID/fd, which stays that process's when its number is another's
}

// serve answers until the gate has ended.
func (w *witness) serve(conn *fdmsg.Conn) {
	defer conn.Close()
	defer w.forget()
	for {
		var q question
		received, err := conn.Recv(&q)
		received.Close()
		if err != nil {
			return
		}
		var t testimony
		if t.Held, err = w.holds(int(w.pid.Load()), q.Inode); err != nil {
			t = testimony{Error: err.Error()}
		}
		if conn.Send(t) != nil {
			return
		}
	}
}

func (w *witness) forget() {
	if w.dir != nil {
		w.dir.Close()
		w.dir = nil
	}
}

// holds reports whether a process has a descriptor of a socket.
func (w *witness) holds(pid int, inode uint32) (bool, error) {
	if pid <= 0 {
		return false, nil
	}
	if w.dir == nil || w.looked != pid {
		w.forget()
		dir, err := os.Open("/proc/" + strconv.Itoa(pid) + "/fd")
		if err != nil {
			return false, fmt.Errorf("look at the client's descriptors: %w", err)
		}
		w.looked, w.dir = pid, dir
	}
	if _, err := w.dir.Seek(0, io.SeekStart); err != nil {
		return false, fmt.Errorf("look at the client's descriptors: %w", err)
	}
	names, err := w.dir.Readdirnames(-1)
	if err != nil {
		return false, fmt.Errorf("look at the client's descriptors: %w", err)
	}
	want := "socket:[" + strconv.FormatUint(uint64(inode), 10) + "]"
	buf := make([]byte, 64)
	// The newest have the highest numbers, mostly.
	for _, name := range slices.Backward(names) {
		n, err := unix.Readlinkat(int(w.dir.Fd()), name, buf)
		if err == nil && string(buf[:n]) == want {
			return true, nil
		}
	}
	return false, nil
}
