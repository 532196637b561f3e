package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
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
	s := &standalone{t: t, cmd: exec.Command(*binary, append([]string{"gate", "--listen", "127.0.0.1:0"}, args...)...),
		grew: make(chan struct{}), done: make(chan error, 1)}
	s.cmd.Stderr = &s.errs
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.cmd.Process.Kill() })
	go func() {
		r := bufio.NewScanner(out)
		for r.Scan() {
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

func (s *standalone) signal(sig os.Signal) { s.cmd.Process.Signal(sig) }

// end waits for the process and returns how long that took.
func (s *standalone) end() (time.Duration, error) {
	s.t.Helper()
	begin := time.Now()
	select {
	case err := <-s.done:
		return time.Since(begin), err
	case <-time.After(limit):
		s.t.Fatal("the gate does not end")
		return 0, nil
	}
}

// connect opens a tunnel and returns it with the status line.
func (s *standalone) connect(target string) (net.Conn, *bufio.Reader, string) {
	s.t.Helper()
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(limit))
	fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
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

// The first SIGTERM lets a tunnel end by itself, the second cuts it.
func TestTerm(t *testing.T) {
	_, target := echo(t)
	s := startStandalone(t, "--allow", target+"+tcp", "--drain", "1m")
	c, r, status := s.connect(target)
	if status != "HTTP/1.1 200 Connection established" {
		t.Fatal(status)
	}
	s.signal(syscall.SIGTERM)
	for { // it no longer accepts
		d, err := net.Dial("tcp", s.addr)
		if err != nil {
			break
		}
		d.Close()
		time.Sleep(time.Millisecond)
	}
	io.WriteString(c, "still here\n")
	if line, err := r.ReadString('\n'); line != "still here\n" {
		t.Fatalf("the tunnel has ended: %q, %v", line, err)
	}
	c.Close()
	if took, err := s.end(); err != nil || took > 2*time.Second {
		t.Errorf("ended after %v: %v", took, err)
	}
	s.wait("exit", "shutdown")

	s = startStandalone(t, "--allow", target+"+tcp", "--drain", "1m")
	s.connect(target)
	s.wait("allow", "")
	s.signal(syscall.SIGTERM)
	s.signal(syscall.SIGINT)
	if took, err := s.end(); err != nil || took > 2*time.Second {
		t.Errorf("by two signals ended after %v: %v", took, err)
	}
	s.wait("close", "shutdown")
}

// Without --drain an idle tunnel does not hold the end up for two seconds.
func TestTermInTime(t *testing.T) {
	_, target := echo(t)
	s := startStandalone(t, "--allow", target+"+tcp")
	s.connect(target)
	s.signal(syscall.SIGTERM)
	if took, err := s.end(); err != nil || took > 2*time.Second {
		t.Errorf("ended after %v: %v", took, err)
	}
}

// SIGHUP reads the files again; rules that are wrong change nothing.
func TestReload(t *testing.T) {
	_, one := echo(t)
	_, two := echo(t)
	rules := filepath.Join(t.TempDir(), "rules.txt")
	write := func(text string) {
		if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(one + "+tcp\n")
	s := startStandalone(t, "--allow-file", rules)
	c, r, _ := s.connect(one)
	if _, _, status := s.connect(two); !strings.Contains(status, "403") {
		t.Fatal(status)
	}
	write("https://nonsense/\n")
	s.signal(syscall.SIGHUP)
	s.wait("error", "bad-request")
	s.waitErr("the old ones stay: " + regexp.QuoteMeta(rules) + ":1")
	io.WriteString(c, "x\n")
	if line, err := r.ReadString('\n'); err != nil {
		t.Fatalf("after a bad reload: %q, %v", line, err)
	}
	write(two + "+tcp\n")
	s.signal(syscall.SIGHUP)
	s.wait("reload", "policy-changed")
	if _, err := r.ReadString('\n'); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the tunnel to a removed host: %v", err)
	}
	s.wait("close", "policy-changed")
	if _, _, status := s.connect(two); !strings.Contains(status, "200") {
		t.Error(status)
	}
	if _, _, status := s.connect(one); !strings.Contains(status, "403") {
		t.Error(status)
	}
}

// What a rule may not mean is a warning on stderr; without any rule the gate
// starts and denies.
func TestWarnings(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.txt")
	if err := os.WriteFile(rules, []byte("*.com\n*.b.test\nc.test\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startStandalone(t, "--allow-file", rules, "--deny", "c.test")
	for _, want := range []string{
		`:1: rule "\*.com" covers everything below com`, `:2: rule "\*.b.test" does not allow b.test itself`,
		`:3: rule "c.test" allows nothing: c.test denies it \(--deny\)`,
	} {
		s.waitErr(`aisb: warning: .*` + want)
	}
	s = startStandalone(t)
	s.waitErr("aisb: warning: there is no rule: everything is refused\naisb: hint: ")
	if _, _, status := s.connect("a.test:443"); !strings.HasPrefix(status, "HTTP/1.1 403 Blocked by aisb") {
		t.Error(status)
	}
}

// A reader that goes away ends the gate: without its log it serves nobody.
func TestLogReaderGone(t *testing.T) {
	build(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0")
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	w.Close()
	line, err := bufio.NewReader(r).ReadString('\n')
	var ready struct{ Addr string }
	if err != nil || json.Unmarshal([]byte(line), &ready) != nil {
		t.Fatalf("%q, %v", line, err)
	}
	r.Close()
	if c, err := net.Dial("tcp", ready.Addr); err == nil {
		io.WriteString(c, "CONNECT a.test:443 HTTP/1.1\r\nHost: x\r\n\r\n")
		io.Copy(io.Discard, c)
		c.Close()
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("the gate ends as if nothing were wrong")
		}
	case <-time.After(limit):
		t.Error("the gate goes on")
	}
}
