package entry

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// another is a command beside the first.
type another struct {
	t     *testing.T
	conn  *fdmsg.Conn
	stage handshake.Stage // the answer to the request
	files []*os.File
}

// exec asks pid 1 for another command, as aisb does.
func (b *box) exec(x handshake.Exec) *another {
	b.t.Helper()
	conn, theirs, err := fdmsg.Pair()
	if err != nil {
		b.t.Fatal(err)
	}
	defer theirs.Close()
	a := &another{t: b.t, conn: conn}
	b.t.Cleanup(func() { conn.Close() })
	if err := b.conn.Send(handshake.Control{Exec: true}, theirs); err != nil {
		b.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err := conn.Send(x); err != nil {
		b.t.Fatal(err)
	}
	m, err := conn.Recv(&a.stage)
	if err != nil {
		b.t.Fatalf("no answer: %v\n%s", err, &b.stderr)
	}
	a.files = m.Files
	b.t.Cleanup(m.Close)
	return a
}

// self is an Exec of the test's program.
func self(argv ...string) handshake.Exec {
	return handshake.Exec{Argv: append(handshake.Args{harnessName}, argv...), Dir: "/tmp", Env: [][]byte{[]byte("PATH=/bin"), []byte("OWN=a\nb\xff")}}
}

// wait returns the status.
func (a *another) wait() int {
	a.t.Helper()
	var st handshake.Stage
	if _, err := a.conn.Recv(&st); err != nil || st.Stage != handshake.Exit {
		a.t.Fatalf("got %+v, %v instead of the status", st, err)
	}
	return st.Status
}

// awaited is a box whose first command waits for a signal.
func awaited(t *testing.T) *box {
	t.Helper()
	b := newBox(t, layout{})
	b.begin(b.config(harnessName, "await"))
	o := b.started(3)
	if line, err := bufio.NewReader(o.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	b.conn.SetDeadline(time.Time{})
	return b
}

// ends sends the first command what it waits for.
func (b *box) ends() {
	b.t.Helper()
	if err := b.conn.Send(handshake.Control{Signal: int(unix.SIGUSR1)}); err != nil {
		b.t.Fatal(err)
	}
	if status := b.wait(); status != int(unix.SIGUSR1) {
		b.t.Errorf("the first command's status is %d", status)
	}
}

// TestExecHasWhatTheFirstHas, and no more: looked at by the command itself.
func TestExecHasWhatTheFirstHas(t *testing.T) {
	b := newBox(t, layout{})
	b.begin(b.config(harnessName, "report-and-await"))
	o := b.started(3)
	first := readReport(t, o.files[1])
	b.conn.SetDeadline(time.Time{})
	for _, tty := range []bool{false, true} {
		x := self("report")
		x.TTY, x.Rows, x.Cols = tty, 31, 107
		a := b.exec(x)
		if a.stage.Stage != handshake.Stdio || len(a.files) != map[bool]int{false: 3, true: 1}[tty] {
			t.Fatalf("%+v with %d descriptors", a.stage, len(a.files))
		}
		r := readReport(t, a.files[len(a.files)/2])
		if status := a.wait(); status != 0 {
			t.Errorf("status %d", status)
		}
		for _, key := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp", "Seccomp_filters", "Groups", "Uid", "Gid", "Umask"} {
			if r.Self[key] != first.Self[key] {
				t.Errorf("%s is %q, the first command's %q", key, r.Self[key], first.Self[key])
			}
		}
		if r.Self["CapBnd"] != "0000000000000000" || r.Self["Seccomp"] != "2" || r.UID != 1000 {
			t.Errorf("it has rights: %v", r.Self)
		}
		if got := strings.Join(r.Descriptors, " "); got != "0 1 2" {
			t.Errorf("descriptors %q", got)
		}
		if len(r.Env) != 2 || string(r.Env[1]) != "OWN=a\nb\xff" || r.Dir != "/tmp" {
			t.Errorf("environment %q, directory %q", r.Env, r.Dir)
		}
		if r.Session != r.PID || r.Group != r.PID || r.PID == first.PID {
			t.Errorf("session %d, group %d of process %d", r.Session, r.Group, r.PID)
		}
		if len(r.InitSecrets) > 0 {
			t.Errorf("of pid 1 it can open %q", r.InitSecrets)
		}
		if !strings.Contains(r.Direct, "refused") {
			t.Errorf("direct connection: %s", r.Direct)
		}
		if tty && (r.Rows != 31 || r.Cols != 107 || !r.Controls) {
			t.Errorf("terminal: %+v", r)
		}
	}
	b.ends()
}

func TestExecStatus(t *testing.T) {
	b := awaited(t)
	for _, c := range []struct {
		change func(x *handshake.Exec)
		status int
		error  string
	}{
		{func(x *handshake.Exec) { x.Argv = handshake.Args{harnessPath, "exit", "0"} }, 0, ""},
		{func(x *handshake.Exec) { x.Argv = handshake.Args{harnessName, "exit", "78"} }, 78, ""},
		{func(x *handshake.Exec) { x.Argv = handshake.Args{"./test-harness", "exit", "3"}; x.Dir = "/bin" }, 3, ""},
		{func(x *handshake.Exec) { x.Argv = handshake.Args{harnessName, "kill-self", "15"} }, 143, ""},
		{func(x *handshake.Exec) { x.Argv[0] = "no-such" }, 127, `command "no-such": no such file or directory`},
		{func(x *handshake.Exec) { x.Argv[0] = "./no-such" }, 127, `no-such": no such file or directory`},
		{func(x *handshake.Exec) { x.Argv[0] = "/data" }, 126, `command "/data": permission denied`},
		{func(x *handshake.Exec) { x.Argv[0] = "/plain" }, 126, `run "/plain": exec format error`},
		{func(x *handshake.Exec) { x.Dir = "/gone" }, 126, `working directory "/gone": no such file`},
		{func(x *handshake.Exec) { x.Dir = "/data" }, 126, `working directory "/data": not a directory`},
		{func(x *handshake.Exec) { x.Dir = "tmp" }, 125, `working directory "tmp" is not absolute`},
		{func(x *handshake.Exec) { x.Argv = nil }, 125, "no command"},
		{func(x *handshake.Exec) { x.Argv[1] = "a\x00b" }, 125, "zero byte"},
		{func(x *handshake.Exec) { x.Env = [][]byte{[]byte("no value")} }, 125, "malformed environment variable"},
		{func(x *handshake.Exec) { x.Argv[1] = strings.Repeat("x", 200_000) }, 126, "argument list too long"},
	} {
		x := self("exit", "0")
		c.change(&x)
		a := b.exec(x)
		if c.error == "" {
			if got := a.wait(); got != c.status || a.stage.Error != "" {
				t.Errorf("%q: status %d, %+v", x.Argv, got, a.stage)
			}
			continue
		}
		if !strings.Contains(a.stage.Error, c.error) || a.stage.Status != c.status || len(a.files) > 0 {
			t.Errorf("%.80q: %.200v, want %d %q", x.Argv, a.stage, c.status, c.error)
		}
	}
	b.ends()
}

// TestExecBadRequests: whatever comes through the socket of a command ends that
// command at most.
func TestExecBadRequests(t *testing.T) {
	b := awaited(t)
	for _, text := range []string{"", "\xff\xff\xff\xff", "\x00\x00\x00\x02{]", "GET / HTTP/1.1\r\n\r\n", "\x00\x00\x00\x04null"} {
		ours, theirs, err := fdmsg.Files()
		if err != nil {
			t.Fatal(err)
		}
		if err := b.conn.Send(handshake.Control{Exec: true}, theirs); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		ours.WriteString(text)
		unix.Shutdown(int(ours.Fd()), unix.SHUT_WR)
		if _, err := io.ReadAll(ours); err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%q: %v", text, err)
		}
		ours.Close()
	}
	// No socket, one too many, none at all.
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, files := range [][]*os.File{nil, {null}, {null, null}} {
		if err := b.conn.Send(handshake.Control{Exec: true}, files...); err != nil {
			t.Fatal(err)
		}
	}
	if status := b.exec(self("exit", "5")).wait(); status != 5 {
		t.Errorf("then: status %d", status)
	}
	b.ends()
}

// TestExecEndsWithItsClient, and with the sandbox.
func TestExecEndsWithItsClient(t *testing.T) {
	b := awaited(t)
	for _, what := range []string{"sleep", "deaf"} { // deaf ignores SIGHUP
		a := b.exec(self(what))
		if line, err := bufio.NewReader(a.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%q, %v", line, err)
		}
		a.conn.Close()
		begin := time.Now()
		if rest, err := io.ReadAll(a.files[1]); err != nil || len(rest) > 0 {
			t.Errorf("%s: %q, %v", what, rest, err)
		}
		if took := time.Since(begin); took > hangUpGrace+10*time.Second {
			t.Errorf("%s: it lived on for %v", what, took)
		}
	}
	a := b.exec(self("sleep"))
	b.ends()
	var st handshake.Stage
	if _, err := a.conn.Recv(&st); !errors.Is(err, io.EOF) {
		t.Errorf("after the end of the sandbox: %+v, %v", st, err)
	}
}

// TestExecTraced: a command that has made pid 1 its tracer and stops has not ended, and
// ends with its client.
func TestExecTraced(t *testing.T) {
	b := awaited(t)
	a := b.exec(self("traced"))
	if line, err := bufio.NewReader(a.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	a.conn.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
	var st handshake.Stage
	if _, err := a.conn.Recv(&st); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("of a stopped command pid 1 says %+v, %v", st, err)
	}
	a.conn.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.ReadAll(a.files[1])
	}()
	select {
	case <-ended:
	case <-time.After(hangUpGrace + 20*time.Second):
		t.Fatal("it lives on after its client")
	}
	b.ends()
}

func TestExecSignals(t *testing.T) {
	b := awaited(t)
	a := b.exec(self("await"))
	if line, err := bufio.NewReader(a.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	for _, n := range []int{0, -1, 65, int(unix.SIGTERM)} {
		if err := a.conn.Send(handshake.Control{Signal: n}); err != nil {
			t.Fatal(err)
		}
	}
	if status := a.wait(); status != int(unix.SIGTERM) {
		t.Errorf("status %d", status)
	}
	b.ends() // the first has got none of these
}

// text is what a process has written so far.
type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (t *text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.Write(p)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.b.String()
}
