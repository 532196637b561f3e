package entry

import (
	"bytes"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// oomAbove is how much likelier than pid 1 a command is to be what the kernel ends
// when memory is short, in thousandths of the memory there is (proc_pid_oom_score_adj(5)).
// With many small processes pid 1 can be the largest, and the sandbox ends with it.
const oomAbove = 300

// oomScore lends a command its score: a child has that of its parent at the fork.
// Who has no right to go below its first score may come back to it
// (__set_oom_adj in fs/proc/base.c).
type oomScore struct {
	file *os.File // of pid 1's own, opened while it still may; nil when that failed
	base int

	mu      sync.Mutex
	forking int
}

// openOOMScore never fails: without it all is as likely as pid 1.
func openOOMScore() *oomScore {
	const name = "/proc/self/oom_score_adj"
	text, err := os.ReadFile(name)
	if err != nil {
		return &oomScore{}
	}
	base, err := strconv.Atoi(string(bytes.TrimSpace(text)))
	if err != nil {
		return &oomScore{}
	}
	file, err := os.OpenFile(name, os.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &oomScore{}
	}
	return &oomScore{file: file, base: base}
}

// lend runs fork with the commands' score.
func (o *oomScore) lend(fork func() (int, error)) (int, error) {
	o.add(1)
	defer o.add(-1)
	return fork()
}

func (o *oomScore) add(n int) {
	if o == nil || o.file == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.forking += n
	score := o.base
	if o.forking > 0 {
		score = min(o.base+oomAbove, 1000)
	}
	// At the start of the file each time: the kernel reads one number a write.
	_, _ = o.file.WriteAt(strconv.AppendInt(nil, int64(score), 10), 0)
}
