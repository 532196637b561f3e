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
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

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
	if _, err := s.end(); err != nil { // long before its time to drain is over
		t.Error(err)
	}
	s.wait("exit", "shutdown")

	s = startStandalone(t, "--allow", target+"+tcp", "--drain", "1m")
	s.connect(target)
	s.wait("allow", "")
	s.signal(syscall.SIGTERM)
	s.signal(syscall.SIGINT)
	if _, err := s.end(); err != nil {
		t.Errorf("by two signals: %v", err)
	}
	s.wait("close", "shutdown")
}

// Without --drain an idle tunnel does not hold the end up for two seconds. A machine
// that is busy elsewhere may, but not each time.
func TestTermInTime(t *testing.T) {
	const bound, times = 2 * time.Second, 3
	_, target := echo(t)
	for range times {
		s := startStandalone(t, "--allow", target+"+tcp")
		s.connect(target)
		s.signal(syscall.SIGTERM)
		took, err := s.end()
		if err != nil {
			t.Fatal(err)
		}
		if took <= bound {
			return
		}
		t.Logf("ended after %v", took)
	}
	t.Errorf("took more than %v, %d times", bound, times)
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
	s.waitErr("the old rules stay: " + regexp.QuoteMeta(rules) + ":1")
	io.WriteString(c, "x\n")
	if line, err := r.ReadString('\n'); err != nil {
		t.Fatalf("after a bad reload: %q, %v", line, err)
	}
	write(two + "+tcp\n")
	s.signal(syscall.SIGHUP)
	if m := s.wait("reload", "policy-changed"); m["rule"] != "+"+two+"+tcp, -"+one+"+tcp" && m["rule"] != "-"+one+"+tcp, +"+two+"+tcp" {
		t.Errorf("the log says of the change: %v", m)
	}
	s.waitErr("aisb: reloaded: .*; cut 1 tunnels and requests that are no longer allowed")
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

// A pipe in place of the rules is not waited for: the gate goes on, with what it
// had, and still hears signals.
func TestReloadOfPipe(t *testing.T) {
	_, one := echo(t)
	rules := filepath.Join(t.TempDir(), "rules.txt")
	writeFile(t, rules, one+"+tcp\n", 0o600)
	s := startStandalone(t, "--allow-file", rules)
	if err := errors.Join(os.Remove(rules), syscall.Mkfifo(rules, 0o600)); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGHUP)
	s.wait("error", "bad-request")
	s.waitErr("the old rules stay: " + regexp.QuoteMeta(rules) + ": it is no plain file")
	if _, _, status := s.connect(one); !strings.Contains(status, "200") {
		t.Error(status)
	}
	s.signal(syscall.SIGTERM)
	if _, err := s.end(); err != nil {
		t.Error(err)
	}
}

// Reloads that wait don't keep the gate from hearing that it is to end.
func TestTermAmongReloads(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.txt")
	var text strings.Builder
	for i := range 50_000 { // a reload is to take a while
		fmt.Fprintf(&text, "h%d.allowed.test\n", i)
	}
	writeFile(t, rules, text.String(), 0o600)
	s := startStandalone(t, "--allow-file", rules)
	for range 20 {
		s.signal(syscall.SIGHUP)
		time.Sleep(2 * time.Millisecond) // one that is pending already is not counted again
	}
	s.signal(syscall.SIGTERM)
	if _, err := s.end(); err != nil {
		t.Error(err)
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

// A gate that runs out of descriptors refuses, and recovers when there are some
// again.
func TestDescriptorsRunOut(t *testing.T) {
	_, target := echo(t)
	s := startStandalone(t, countable("--allow", target+"+tcp")...)
	const most = 40
	few := unix.Rlimit{Cur: most, Max: most}
	if err := unix.Prlimit(s.cmd.Process.Pid, unix.RLIMIT_NOFILE, &few, nil); err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for range 100 {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, c)
	}
	for end := time.Now().Add(limit); s.descriptors() < most; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("of %d descriptors it has %d in use", most, s.descriptors())
		}
	}
	for _, c := range conns { // all at once, or tunnels might take two each and leave none over
		fmt.Fprintf(c, "CONNECT %s HTTP/1.1\r\nHost: x\r\n\r\n", target)
	}
	s.wait("error", "limit") // a client was accepted, its origin had no place
	for _, c := range conns {
		c.Close()
	}
	for end := time.Now().Add(limit); ; {
		c, _, status := s.connect(target)
		c.Close()
		if strings.Contains(status, "200") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the gate does not recover: %s", status)
		}
	}
}
