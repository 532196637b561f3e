package wire

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// standalone is `aisb gate` as a user starts it.
type standalone struct {
	t    *testing.T
	cmd  *exec.Cmd
	addr string
	errs lockedBuffer

	mu    sync.Mutex
	lines []string
	grew  chan struct{}
	done  chan error

	signalled time.Time // the last time
}

type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func startStandalone(t *testing.T, args ...string) *standalone {
	t.Helper()
	build(t)
	return startCommand(t, exec.Command(*binary, append([]string{"gate", "--listen", "127.0.0.1:0"}, args...)...))
}

// startCommand starts a command that becomes a gate, and waits until it is ready.
// Its log is written to the copies too.
func startCommand(t *testing.T, cmd *exec.Cmd, copies ...io.Writer) *standalone {
	t.Helper()
	return startWith(t, cmd, (*exec.Cmd).Start, copies...)
}

// startWith is startCommand for a command that start starts somewhere else.
func startWith(t *testing.T, cmd *exec.Cmd, start func(*exec.Cmd) error, copies ...io.Writer) *standalone {
	t.Helper()
	s := &standalone{t: t, cmd: cmd, grew: make(chan struct{}), done: make(chan error, 1)}
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := start(s.cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
	go func() {
		r := bufio.NewScanner(out)
		for r.Scan() {
			for _, w := range copies {
				io.WriteString(w, r.Text()+"\n")
			}
			s.mu.Lock()
			s.lines = append(s.lines, r.Text())
			close(s.grew)
			s.grew = make(chan struct{})
			s.mu.Unlock()
		}
		s.done <- s.cmd.Wait()
	}()
	ready := s.wait("listening", "")
	s.addr, _ = ready["addr"].(string)
	return s
}

// log is what has come on stdout.
func (s *standalone) log() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// wait returns the first line with an event and reason.
func (s *standalone) wait(event, reason string) map[string]any {
	s.t.Helper()
	deadline := time.After(limit)
	for {
		s.mu.Lock()
		lines, grew := s.lines, s.grew
		s.mu.Unlock()
		for _, line := range lines {
			var m map[string]any
			if err := json.Unmarshal([]byte(line), &m); err != nil {
				s.t.Fatalf("stdout has %q", line)
			}
			if r, _ := m["reason"].(string); m["event"] == event && (reason == "" || r == reason) {
				return m
			}
		}
		select {
		case <-grew:
		case <-deadline:
			s.t.Fatalf("no %s %s in %q; stderr %q", event, reason, lines, s.errs.String())
		}
	}
}

// waitErr waits until stderr matches: it comes by another pipe than the log.
func (s *standalone) waitErr(pattern string) {
	s.t.Helper()
	re := regexp.MustCompile(pattern)
	for end := time.Now().Add(limit); !re.MatchString(s.errs.String()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("stderr %q, want %q", s.errs.String(), pattern)
		}
	}
}

func (s *standalone) signal(sig os.Signal) {
	s.signalled = time.Now()
	s.cmd.Process.Signal(sig)
}

// end waits for the process and returns how long it took from the last signal.
func (s *standalone) end() (time.Duration, error) {
	s.t.Helper()
	select {
	case err := <-s.done:
		return time.Since(s.signalled), err
	case <-time.After(limit):
		s.t.Fatal("the gate does not end")
		return 0, nil
	}
}

// connect opens a tunnel and returns it with the status line.
func (s *standalone) connect(target string) (net.Conn, *bufio.Reader, string) {
	s.t.Helper()
	return s.ask("CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
}

// ask sends a request and returns the connection with the status line.
func (s *standalone) ask(request string) (net.Conn, *bufio.Reader, string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(limit))
	io.WriteString(c, request)
	r := bufio.NewReader(c)
	status, err := r.ReadString('\n')
	if err != nil {
		s.t.Fatal(err)
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			s.t.Fatal(err)
		}
		if line == "\r\n" {
			return c, r, strings.TrimSpace(status)
		}
	}
}

func echo(t *testing.T) (*fakes.TCP, string) {
	t.Helper()
	o, err := fakes.StartTCP("127.0.0.1:0", fakes.Echo, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.Close() })
	return o, fmt.Sprintf("host.containers.internal:%d", o.Addr.Port())
}

func matches(pattern, text string) bool { return regexp.MustCompile(pattern).MatchString(text) }
