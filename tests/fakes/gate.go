package fakes

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build builds aisb from this tree and returns its path in dir.
func Build(dir string) (string, error) {
	out := dir + "/aisb"
	cmd := exec.Command("go", "build", "-o", out, "github.com/aisb-dev/aisb/cmd/aisb")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as it is shipped
	if text, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build aisb: %w: %s", err, text)
	}
	return out, nil
}

// Line is a line of a gate's log, as docs/gate-log.md has it.
type Line struct {
	Event, Reason, Method, Host, Addr, SNI, ALPN string
	Port, Up, Down                               int64
}

// Gate is the real thing among the fakes: a process of aisb that is a gate.
type Gate struct {
	Addr string // where it listens

	cmd    *exec.Cmd
	stderr strings.Builder // complete once ended is closed

	mu    sync.Mutex
	lines []Line
	wrong error         // a line that is none
	grew  chan struct{} // closed and replaced at each line
	ended chan struct{}
	err   error // the process's end
}

// StartGate starts a command that becomes a gate, by start (nil is cmd.Start),
// and waits until it listens.
func StartGate(cmd *exec.Cmd, start func(*exec.Cmd) error) (*Gate, error) {
	g := &Gate{cmd: cmd, grew: make(chan struct{}), ended: make(chan struct{})}
	cmd.Stderr = &g.stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if start == nil {
		start = (*exec.Cmd).Start
	}
	if err := start(cmd); err != nil {
		return nil, fmt.Errorf("start gate: %w", err)
	}
	go func() {
		defer close(g.ended)
		for r := bufio.NewScanner(out); r.Scan(); {
			g.add(r.Bytes())
		}
		g.err = cmd.Wait()
	}()
	ready, ok := g.Wait(20*time.Second, 0, func(l Line) bool { return l.Event == "listening" })
	if !ok {
		cmd.Process.Kill()
		<-g.ended
		return nil, fmt.Errorf("start gate: it doesn't listen: %s", g.stderr.String())
	}
	g.Addr = ready.Addr
	return g, nil
}

func (g *Gate) add(text []byte) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var l Line
	if err := json.Unmarshal(text, &l); err != nil {
		g.wrong = fmt.Errorf("log line %q: %w", text, err)
		return
	}
	g.lines = append(g.lines, l)
	close(g.grew)
	g.grew = make(chan struct{})
}

// Lines is what it logged so far.
func (g *Gate) Lines() []Line {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clip(g.lines)
}

// Wait blocks until a line satisfies ok and returns it, or false when limit has
// passed or the gate has ended. Lines of the past count, but for the first skip.
func (g *Gate) Wait(limit time.Duration, skip int, ok func(Line) bool) (Line, bool) {
	deadline := time.After(limit)
	for over := false; ; {
		g.mu.Lock()
		lines, grew := g.lines, g.grew
		g.mu.Unlock()
		if i := slices.IndexFunc(lines[skip:], ok); i >= 0 {
			return lines[skip+i], true
		}
		if over {
			return Line{}, false
		}
		select {
		case <-grew:
		case <-g.ended:
			over = true // look once more: the last lines came before the end
		case <-deadline:
			over = true
		}
	}
}

// Stop ends it by SIGTERM and returns what went wrong in its life: an end with
// an error, a log line that is none, a panic on stderr.
func (g *Gate) Stop() error {
	g.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-g.ended:
	case <-time.After(20 * time.Second):
		g.cmd.Process.Kill()
		<-g.ended
		return errors.New("the gate does not end by SIGTERM")
	}
	err := errors.Join(g.err, g.wrong)
	if text := g.stderr.String(); strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") {
		err = errors.Join(err, fmt.Errorf("the gate wrote %s", text))
	}
	return err
}
