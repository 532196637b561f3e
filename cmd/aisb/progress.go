package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
)

// progress shows what a long job is at: on a terminal in one line that changes
// and counts the seconds, otherwise in a line for each step.
type progress struct {
	u   *ui
	tty bool

	mu    sync.Mutex
	text  string
	since time.Time
	stop  chan struct{} // nil while the line is empty
	done  sync.WaitGroup
}

func newProgress(u *ui) *progress {
	f, ok := u.Err.(*os.File)
	return &progress{u: u, tty: ok && isTerminal(f)}
}

func (p *progress) step(text string) {
	if !p.tty {
		p.u.notef("image: %s", text)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text, p.since = text, time.Now()
	p.draw()
	if p.stop == nil {
		stop := make(chan struct{})
		p.stop = stop
		p.done.Go(func() { p.tick(stop) })
	}
}

// draw needs the lock.
func (p *progress) draw() {
	// Erase to the end of the line (ECMA-48, EL).
	fmt.Fprintf(p.u.Err, "\raisb: image: %s (%s)\x1b[K", printable(p.text), time.Since(p.since).Round(time.Second))
}

func (p *progress) tick(stop chan struct{}) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// end leaves the terminal's line empty. It may be called again.
func (p *progress) end() {
	if p.stop == nil {
		return
	}
	close(p.stop)
	p.done.Wait()
	p.stop = nil
	fmt.Fprint(p.u.Err, "\r\x1b[K")
}

// tail keeps the last lines of what is written, a part of a line included.
type tail struct {
	max   int
	lines []string
	open  bool // the last line has no newline yet
}

func (t *tail) Write(p []byte) (int, error) {
	for part := range strings.SplitAfterSeq(string(p), "\n") {
		if part == "" {
			continue
		}
		text := strings.TrimRight(part, "\r\n")
		if t.open {
			t.lines[len(t.lines)-1] += text
		} else {
			t.lines = append(t.lines, text)
		}
		t.open = !strings.HasSuffix(part, "\n")
	}
	if extra := len(t.lines) - t.max; extra > 0 {
		t.lines = t.lines[extra:]
	}
	return len(p), nil
}

// lastStep is what was said since the build's last step began.
func (t *tail) lastStep() []string {
	for i, v := range slices.Backward(t.lines) {
		if head, _, ok := strings.Cut(v, ": "); ok && strings.Contains(head, "] STEP ") {
			return t.lines[i+1:]
		}
	}
	return t.lines
}

// escaped passes lines of a child on without what would drive the terminal.
type escaped struct{ w io.Writer }

func (e *escaped) Write(p []byte) (int, error) {
	_, err := fmt.Fprintln(e.w, printable(strings.TrimRight(string(p), "\r\n")))
	return len(p), err
}

// slowStart is long for a start, which takes well under a second.
const slowStart = 4 * time.Second

// noteSlowStart says after a while why nothing happens, unless the function that
// it returns is called before.
func noteSlowStart(u *ui, spec sandbox.Spec, records image.Records) (quick func()) {
	t := time.AfterFunc(slowStart, func() {
		u.notef("still starting: %s", slowStartText(spec, records))
	})
	return func() { t.Stop() }
}

// slowStartText is what may be going on. podman copies an image that no run of this
// user has used, to shift its owners, which takes a while for each gigabyte. One that
// aisb has built was copied by then (docs/adr/0032).
func slowStartText(spec sandbox.Spec, records image.Records) string {
	text := "podman prepares the container"
	if built, err := records.Built(spec.Image); err == nil && !built {
		text += "; an image that is new to it is copied first, once"
	}
	if spec.Net == sandbox.NetNoGate {
		text = "names are looked up, then " + text
	}
	return text
}

// tracing prints the parts of a run when AISB_TRACE=1 asks for them.
func tracing(u *ui) func(sandbox.Part) {
	if os.Getenv("AISB_TRACE") != "1" {
		return nil
	}
	return func(p sandbox.Part) {
		u.notef("trace: %-8s %8.2f ms", p.Name, float64(p.Took.Microseconds())/1000)
	}
}
