//go:build e2e

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// sandbox is a run that others speak with.
type sandbox struct {
	*live
	c    call
	name string
}

// waiting starts a run whose command waits for a line, with a secret of its own.
func waiting(t *testing.T, flags ...string) *sandbox {
	t.Helper()
	c := call{dir: project(t)}
	flags = append(flags, "-e", "SECRET="+modelKey)
	if len(flags) == 2 {
		flags = append(flags, allowed...)
	}
	s := &sandbox{c: c, live: c.start(t, flags, sh("echo ready; read line; exit 11")...)}
	s.waitOut("ready\n")
	for _, r := range s.ps(t) {
		if r.Project == c.dir {
			s.name = r.Name
		}
	}
	if s.name == "" {
		t.Fatalf("ps doesn't list the run in %s: %+v", c.dir, s.ps(t))
	}
	return s
}

type listed struct {
	Name, State, Project, Net, Backend, Image string
	PID                                       int
	Command                                   []string
	Started                                   time.Time
}

func (s *sandbox) ps(t *testing.T) []listed {
	t.Helper()
	return s.psAll(t, "--all=false")
}

func (s *sandbox) psAll(t *testing.T, flags ...string) []listed {
	t.Helper()
	o := s.c.do(t, append([]string{"ps", "--all", "--json"}, flags...)...)
	o.wantStatus(t, 0)
	var list []listed
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		t.Fatalf("%s: %v", o.stdout, err)
	}
	return list
}

// exec runs another command in it.
func (s *sandbox) exec(t *testing.T, stdin string, args ...string) outcome {
	t.Helper()
	c := s.c
	c.stdin = stdin
	return c.do(t, append([]string{"exec", s.name}, args...)...)
}

// ends lets the first command end.
func (s *sandbox) ends(t *testing.T) {
	t.Helper()
	s.say("")
	s.wait(runTimeout).wantStatus(t, 11)
}

// TestExecHasNoRights: by the kernel's account, and by trying what the first
// command is refused too.
func TestExecHasNoRights(t *testing.T) {
	s := waiting(t)
	o := s.exec(t, "", sh(`cat /proc/self/status; echo ---; sh -c 'cat /proc/self/status'; echo ---; cat /proc/$(pgrep -xo sh)/status; echo ---; ls -l /proc/self/fd; echo ---; env`)...)
	o.wantStatus(t, 0)
	parts := strings.Split(o.stdout, "---\n")
	if len(parts) != 5 {
		t.Fatal(o.stdout)
	}
	wantNoRights(t, "exec", parts[0])
	wantNoRights(t, "its child", parts[1])
	for _, key := range []string{"Seccomp_filters", "CapBnd", "Umask", "NSpid"} {
		if key != "NSpid" && field(parts[0], key) != field(parts[2], key) {
			t.Errorf("%s is %q, the first command's %q", key, field(parts[0], key), field(parts[2], key))
		}
	}
	if n := strings.Count(parts[3], " -> "); n != 4 { // and the directory that ls reads
		t.Errorf("descriptors:\n%s", parts[3])
	}
	wantIn(t, "environment", parts[4], "HOME=/home/agent\n", "http_proxy=http://", "PATH=/usr/local/sbin")
	wantNot(t, "environment", parts[4], "SECRET", modelKey)

	o = s.exec(t, "", "-e", "OTHER=named", "-w", "/tmp", "--", "sh", "-c", "echo $OTHER $PWD; aisb attack-inside nonsense </dev/null")
	wantIn(t, "output", o.stdout, "named /tmp\n")

	write(t, s.c.dir, "tools", strings.Join([]string{
		"nft list ruleset", "nft flush ruleset", "unshare -n true", "unshare -Urn true", "unshare -U true", "nsenter -t 1 -n true",
		"ip link add d0 type dummy", "mount -t tmpfs none /mnt", "su -c true", "touch /etc/x", "cat /proc/1/environ", "ls /proc/1/fd",
		"kill -STOP 1; kill -9 1 && sleep 0.2 && false",
	}, "\n")+"\n")
	o = s.exec(t, "", "--", "sh", "-c", `export PATH=$PATH:/usr/sbin:/sbin
		while read -r line; do sh -c "$line" >/dev/null 2>&1 </dev/null && echo "worked: $line"; done <tools
		curl -sS -o /dev/null -w '%{http_code}\n' http://allowed.test/
		curl -s -o /dev/null -w '%{http_code}\n' http://evil.test/`)
	if o.stdout != "200\n403\n" {
		t.Errorf("got %s%s", o.stdout, o.stderr)
	}
	s.ends(t)
}

// TestExecCalls tries the filter call by call through exec: the attacks of the
// battery that are system calls, also by foreign ABIs.
func TestExecCalls(t *testing.T) {
	s := waiting(t)
	tried := 0
	for _, id := range []string{
		"clone3-user", "clone3-all", "clone-user", "clone-net", "unshare-user", "unshare-net", "unshare-all", "setns", "mount", "bpf", "perf",
		"userfaultfd", "io-uring", "keyctl", "add-key", "open-by-handle", "capset", "no-new-privs", "vsock", "vsock-pair", "packet-raw", "raw-ip", "xdp", "alg", "netlink-netfilter",
		"int80-socketcall-vsock", "int80-socketcall-packet", "int80-socket-vsock",
		"int80-unshare-user", "int80-clone-user", "int80-keyctl", "int80-io-uring", "x32-socket-vsock", "x32-unshare-user",
	} {
		o := s.exec(t, "{}", "--", "aisb", "attack-inside", id)
		if o.status == 2 && strings.Contains(o.stderr, "no attack has the id") {
			t.Errorf("%s: %s", id, o.stderr)
			continue
		}
		var a struct{ Verdict, Seen string }
		err := json.Unmarshal([]byte(o.stdout), &a)
		switch {
		case o.status > 128: // the filter answers by a signal
			tried++
		case err != nil:
			t.Errorf("%s: status %d, %q, %v\n%s", id, o.status, o.stdout, err, o.stderr)
		case a.Verdict == "unknown":
			t.Logf("%s: unknown here: %s", id, a.Seen)
		case a.Verdict != "held":
			t.Errorf("%s: %s", id, o.stdout)
		default:
			tried++
		}
	}
	if tried < 15 {
		t.Errorf("only %d calls could be tried", tried)
	}
	s.ends(t)
}

// TestExecStatus: exec ends as its command does, or says why there was none.
func TestExecStatus(t *testing.T) {
	s := waiting(t)
	for _, tt := range []struct {
		args   []string
		status int
		stderr string
	}{
		{[]string{"true"}, 0, ""},
		{[]string{"--", "sh", "-c", "exit 78"}, 78, ""},
		{[]string{"sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"no-such"}, 127, `aisb: error: command "no-such": no such file or directory`},
		{[]string{"/etc/passwd"}, 126, `aisb: error: command "/etc/passwd"`},
		{[]string{"-w", "gone", "--", "true"}, 126, `aisb: error: working directory "/project/gone"`},
	} {
		o := s.exec(t, "", tt.args...)
		if o.status != tt.status || !strings.Contains(o.stderr, tt.stderr) || tt.stderr == "" && o.stderr != "" {
			t.Errorf("%q: status %d, stderr %q", tt.args, o.status, o.stderr)
		}
	}
	// Without a name, and by a part of it.
	s.c.do(t, "exec", "--", "sh", "-c", "exit 4").wantStatus(t, 4)
	o := s.c.do(t, "exec", "nobody", "true")
	o.wantStatus(t, 125)
	wantIn(t, "hint", o.stderr, s.name+" is running")
	s.c.stdin = "echo $((40 + 2)); exit 5\n"
	o = s.c.do(t, "shell")
	if o.status != 5 || o.stdout != "42\n" {
		t.Errorf("shell: %+v", o)
	}
	s.ends(t)
}

// TestExecPipes: what goes into a command of exec's and comes out of it passes whole, up to
// its end and no longer.
func TestExecPipes(t *testing.T) {
	s := waiting(t)
	const size = 64 << 20
	cmd := s.c.command(t.Context(), "exec", s.name, "--", "cat")
	cmd.Stdin = fakes.Pattern(size)
	sum, want := sha256.New(), sha256.New()
	var n int64
	cmd.Stdout = writerFunc(func(p []byte) (int, error) {
		n += int64(len(p))
		return sum.Write(p)
	})
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(want, fakes.Pattern(size)); err != nil {
		t.Fatal(err)
	}
	if n != size || !bytes.Equal(sum.Sum(nil), want.Sum(nil)) {
		t.Errorf("%d bytes came out, with another sum than went in", n)
	}
	// What is left in the background is not waited for, and nothing that was written
	// before the end is lost.
	o := s.exec(t, "", "--", "sh", "-c", "sleep 1000 & head -c 50000 /dev/zero; echo err >&2")
	if len(o.stdout) != 50000 || o.stderr != "err\n" {
		t.Errorf("%d bytes, %q", len(o.stdout), o.stderr)
	}
	if o := s.exec(t, "in\n", "--interactive=false", "--", "cat"); o.status != 0 || o.stdout != "" {
		t.Errorf("stdin was passed on: %+v", o)
	}
	s.ends(t)
}

// TestExecTwentyAtOnce: twenty commands at once in a sandbox each have their own streams.
func TestExecTwentyAtOnce(t *testing.T) {
	s := waiting(t)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			c := s.c
			c.stdin = fmt.Sprintf("number %d\n", i)
			cmd := c.command(t.Context(), "exec", s.name, "--", "sh", "-c", fmt.Sprintf("cat; exit %d", 20+i))
			cmd.Stdin = strings.NewReader(c.stdin)
			out, _ := cmd.Output() // the status is below
			if string(out) != c.stdin || cmd.ProcessState.ExitCode() != 20+i {
				t.Errorf("%d: %q, status %d", i, out, cmd.ProcessState.ExitCode())
			}
		})
	}
	all.Wait()
	s.ends(t)
}

// TestExecEnds with its client, by signals, and with the sandbox.
func TestExecEnds(t *testing.T) {
	s := waiting(t)
	begin := func() *live {
		l := s.c.startAny(t, "exec", s.name, "--", "sh", "-c", "echo $$ >pid; trap 'exit 9' TERM; echo begun; while :; do sleep 0.05; done")
		l.waitOut("begun\n")
		return l
	}
	inside := func() string {
		t.Helper()
		pid, err := os.ReadFile(filepath.Join(s.c.dir, "pid"))
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(pid))
	}
	l := begin()
	l.signal(syscall.SIGKILL)
	waitUntil(t, goneLimit, "the command of a killed exec ends", func() bool {
		return s.exec(t, "", "test", "!", "-e", "/proc/"+inside()).status == 0
	})
	l = begin()
	l.signal(syscall.SIGTERM)
	l.wait(runTimeout).wantStatus(t, 9)
	l = begin()
	s.ends(t)
	o := l.wait(runTimeout)
	o.wantStatus(t, 137)
	wantIn(t, "message", o.stderr, "aisb: error: the sandbox has ended")
}
