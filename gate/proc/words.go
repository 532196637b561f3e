package proc

import (
	"bytes"
	"strings"
	"sync"
)

// opening keeps the beginning of what is written to it: a crash says first what
// happened and then where. Warnings are passed on at once.
type opening struct {
	warnings chan string // has room for some, and loses others

	mu  sync.Mutex
	buf bytes.Buffer
}

// warning begins a line that is one.
const warning = Name + ": warning: "

func newOpening() *opening { return &opening{warnings: make(chan string, 4)} }

// maxOpening is how much is kept.
const maxOpening = 4 << 10

// Write implements io.Writer.
func (o *opening) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		if text, ok := strings.CutPrefix(string(bytes.TrimSpace(line)), warning); ok {
			select {
			case o.warnings <- text:
			default:
			}
		}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if room := maxOpening - o.buf.Len(); room > 0 {
		o.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

// String is what was kept.
func (o *opening) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
