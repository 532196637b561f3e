package wire

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/need"
)

func writeFile(t *testing.T, name, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(name, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// Metrics are served beside the gate, and count what its log says.
func TestMetrics(t *testing.T) {
	_, target := echo(t)
	rules := filepath.Join(t.TempDir(), "rules.txt")
	writeFile(t, rules, target+"+tcp\n", 0o600)
	s := startStandalone(t, "--allow-file", rules, "--metrics", "127.0.0.1:0")
	s.waitErr(`aisb: metrics at http://127\.0\.0\.1:\d+/metrics`)
	_, after, _ := strings.Cut(s.errs.String(), "aisb: metrics at ")
	where := strings.Fields(after)[0]
	s.connect(target)
	s.connect("evil.test:443")
	writeFile(t, rules, "https://wrong/\n", 0o600)
	s.signal(syscall.SIGHUP)
	s.wait("error", "bad-request")
	client := http.Client{Timeout: limit, Transport: &http.Transport{}}
	resp, err := client.Get(where)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`aisb_gate_decisions_total{event="deny",reason="not-listed"} 1`, "aisb_gate_tunnels 1", "aisb_gate_rules 1",
		`aisb_gate_reloads_total{result="failure"} 1`, "process_open_fds ", "aisb_build_info{",
	} {
		if !strings.Contains(string(text), "\n"+want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if strings.Contains(string(text), "evil") || strings.Contains(string(text), "containers") {
		t.Errorf("the metrics name hosts: %s", text)
	}
}

// A reload takes tokens and rules together or not at all.
func TestTokenFile(t *testing.T) {
	_, target := echo(t)
	dir := t.TempDir()
	file, rules := filepath.Join(dir, "tokens"), filepath.Join(dir, "rules")
	writeFile(t, file, "the-first-token-of-all\n", 0o600)
	writeFile(t, rules, target+"+tcp\n", 0o600)
	s := startStandalone(t, "--allow-file", rules, "--auth-token-file", file)
	ask := func(token string) string {
		t.Helper()
		c, _, status := s.ask(fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: x\r\nProxy-Authorization: Basic %s\r\n\r\n",
			target, base64.StdEncoding.EncodeToString([]byte("aisb:"+token))))
		c.Close()
		return strings.Fields(status)[1]
	}
	want := func(first, second string) {
		t.Helper()
		if a, b := ask("the-first-token-of-all"), ask("the-second-token-of-all"); a != first || b != second {
			t.Errorf("got %s and %s, want %s and %s", a, b, first, second)
		}
	}
	if _, _, status := s.connect(target); status != "HTTP/1.1 407 Proxy Authentication Required" {
		t.Errorf("without a token: %s", status)
	}
	want("200", "407")
	writeFile(t, file, "the-second-token-of-all\n", 0o644) // not taken: everyone can read it
	writeFile(t, rules, "other.test\n", 0o600)
	s.signal(syscall.SIGHUP)
	s.waitErr("not reloaded, the old rules stay: .* every user of this machine can get at it")
	want("200", "407")
	writeFile(t, file, "the-second-token-of-all\n", 0o600)
	s.signal(syscall.SIGHUP)
	s.wait("reload", "policy-changed")
	want("407", "403")
	if log := strings.Join(s.log(), ""); strings.Contains(log+s.errs.String(), "token-of-all") {
		t.Error("a token is in the log")
	}
}

// A user named by --allow-user may come over loopback, others may not.
func TestAllowUser(t *testing.T) {
	need.Root(t)
	_, target := echo(t)
	const nobody, daemon = 65534, 1
	s := startStandalone(t, "--allow", target+"+tcp", "--allow-user", "nobody")
	for uid, want := range map[uint32]string{nobody: "200", daemon: "403", 0: "200"} {
		_, port, _ := strings.Cut(s.addr, ":")
		cmd := exec.Command("/bin/bash", "-c", `exec 3<>/dev/tcp/127.0.0.1/`+port+
			` && printf 'CONNECT `+target+` HTTP/1.1\r\nHost: x\r\n\r\n' >&3 && read -r line <&3 && echo "$line"`)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "HTTP/1.1 "+want) {
			t.Errorf("uid %d: %q, %v; want %s", uid, out, err, want)
		}
	}
}

// notices is a service manager's end of NOTIFY_SOCKET.
type notices struct {
	t *testing.T
	c *net.UnixConn
}

func listenNotices(t *testing.T) (n notices, name string) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "notify")
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return notices{t, c}, name
}

// next checks what the next notice begins with.
func (n notices) next(want string) string {
	n.t.Helper()
	n.c.SetReadDeadline(time.Now().Add(limit))
	buf := make([]byte, 4096)
	k, err := n.c.Read(buf)
	if err != nil {
		n.t.Fatalf("waiting for %q: %v", want, err)
	}
	if got := string(buf[:k]); strings.HasPrefix(got, want) {
		return got
	}
	n.t.Errorf("got notice %q, want %q", buf[:k], want)
	return ""
}

// activate starts a gate as systemd does: with its sockets from descriptor 3
// on, and its own number in LISTEN_PID.
func activate(t *testing.T, pid string, env []string, args string, sockets ...*os.File) *exec.Cmd {
	t.Helper()
	build(t)
	script := fmt.Sprintf("export LISTEN_PID=%s LISTEN_FDS=%d; exec %s gate %s", pid, len(sockets), *binary, args)
	cmd := exec.Command("/bin/sh", "-c", script)
	cmd.ExtraFiles = sockets
	cmd.Env = append(os.Environ(), env...)
	return cmd
}

// connected is what a socket unit with Accept=yes hands over.
func connected(t *testing.T) *os.File {
	t.Helper()
	o, _ := echo(t)
	c, err := net.Dial("tcp", o.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := c.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func socket(t *testing.T, network, addr string) (*os.File, string) {
	t.Helper()
	ln, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	f, err := ln.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, ln.Addr().String()
}

// The gate takes systemd's sockets, and says what systemd wants to know.
func TestActivation(t *testing.T) {
	_, target := echo(t)
	rules := filepath.Join(t.TempDir(), "rules.txt")
	writeFile(t, rules, target+"+tcp\n", 0o600)
	n, name := listenNotices(t)
	one, addr1 := socket(t, "tcp", "127.0.0.1:0")
	two, addr2 := socket(t, "tcp", "127.0.0.1:0")
	s := startCommand(t, activate(t, "$$", []string{"NOTIFY_SOCKET=" + name}, "--allow-file "+rules, one, two))
	n.next("READY=1\nSTATUS=serving, 1 allow rules")
	for _, addr := range []string{addr1, addr2} {
		s.addr = addr
		if _, _, status := s.connect(target); !strings.Contains(status, "200") {
			t.Errorf("at %s: %s", addr, status)
		}
	}
	environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.cmd.Process.Pid))
	if os.Getuid() != 0 && errors.Is(err, os.ErrPermission) {
		err, environ = nil, []byte("LISTEN_FDS=2") // only root looks into a gate
	}
	if err != nil || !strings.Contains(string(environ), "LISTEN_FDS=2") {
		t.Fatalf("the test does not start it as systemd would: %v", err)
	}
	s.signal(syscall.SIGHUP)
	if got := n.next("RELOADING=1\nMONOTONIC_USEC="); got != "" {
		var usec int64
		if _, err := fmt.Sscanf(got, "RELOADING=1\nMONOTONIC_USEC=%d", &usec); err != nil || usec <= 0 {
			t.Errorf("%q: %v", got, err)
		}
	}
	n.next("READY=1\nSTATUS=serving, 1 allow rules")
	writeFile(t, rules, "https://x/\n", 0o600)
	s.signal(syscall.SIGHUP)
	n.next("RELOADING=1")
	n.next("READY=1\nSTATUS=serving, 1 allow rules; the last reload failed")
	s.signal(syscall.SIGTERM)
	n.next("STOPPING=1")
	if _, err := s.end(); err != nil {
		t.Error(err)
	}
}

// Sockets of another process are left alone, and what can't be served is said.
func TestActivationRefused(t *testing.T) {
	stream, addr := socket(t, "tcp", "127.0.0.1:0")
	s := startCommand(t, activate(t, "1", nil, "--listen 127.0.0.1:0", stream))
	if s.addr == addr {
		t.Error("took the sockets of process 1")
	}
	unix, _ := socket(t, "unix", filepath.Join(t.TempDir(), "s"))
	wide, _ := socket(t, "tcp", "0.0.0.0:0")
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, tt := range []struct {
		args, want string
		status     int
		file       *os.File
	}{
		{"", "listens at unix .*, expected TCP", 1, unix},
		{"", "descriptor 3 of LISTEN_FDS is no socket that listens", 1, null},
		{"", "descriptor 3 of LISTEN_FDS is no socket that listens", 1, connected(t)},
		{"", "can be reached from other machines", 2, wide},
		{"--listen 127.0.0.1:0", "systemd gives the sockets, so --listen can't count", 2, stream},
	} {
		cmd := activate(t, "$$", nil, tt.args, tt.file)
		errs := new(strings.Builder)
		cmd.Stderr = errs
		cmd.Run()
		if cmd.ProcessState.ExitCode() != tt.status || !matches(tt.want, errs.String()) {
			t.Errorf("status %d, want %d: %q, want %q", cmd.ProcessState.ExitCode(), tt.status, errs, tt.want)
		}
	}
}

// A reload in the middle of a drain cuts nothing: only a second signal to end
// does.
func TestReloadWhileDraining(t *testing.T) {
	_, target := echo(t)
	n, name := listenNotices(t)
	t.Setenv("NOTIFY_SOCKET", name)
	s := startStandalone(t, "--allow", target+"+tcp", "--drain", "1m")
	n.next("READY=1")
	c, r, _ := s.connect(target)
	s.signal(syscall.SIGTERM)
	n.next("STOPPING=1")
	s.signal(syscall.SIGHUP)
	s.signal(syscall.SIGHUP)
	io.WriteString(c, "still here\n")
	if line, err := r.ReadString('\n'); line != "still here\n" {
		t.Errorf("the tunnel has ended: %q, %v", line, err)
	}
	s.signal(syscall.SIGTERM)
	if _, err := s.end(); err != nil {
		t.Error(err)
	}
}

// --drain is the most that open tunnels can hold the end up.
func TestDrainIsBounded(t *testing.T) {
	_, target := echo(t)
	s := startStandalone(t, "--allow", target+"+tcp", "--drain", "200ms")
	s.connect(target)
	s.wait("allow", "")
	s.signal(syscall.SIGTERM)
	if took, err := s.end(); err != nil || took < 200*time.Millisecond {
		t.Errorf("ended after %v: %v", took, err)
	}
	s.wait("close", "shutdown")
}
