package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/confine"
	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// insider is where a test wants to hear what comes of attempts from inside of the gates
// that it starts: a file named after the test's process, since a gate is told nothing
// by its environment and arguments.
func insider(parent int) string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("aisb-gate-insider-%d", parent))
}

// corrupt is a part of a gate's process that obeys an attacker. It waits until the
// process is locked up, and tells the test what it could do then.
func corrupt() {
	addr, err := os.ReadFile(insider(os.Getppid()))
	if err != nil {
		return
	}
	victim := os.Getppid()
	go func() {
		runtime.LockOSThread()
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
			if err != nil {
				break
			}
			unix.Close(fd)
		}
		c, err := net.Dial("tcp", string(addr))
		if err != nil {
			return // the test waits in vain, and says so
		}
		defer c.Close()
		json.NewEncoder(c).Encode(tamper(victim))
	}()
}

// tamper tries what a gate has no business with. What worked is named.
func tamper(victim int) []string {
	worked := []string{"counted"} // that the list came at all
	try := func(name string, err error) {
		if err == nil {
			worked = append(worked, name)
		}
	}
	opens := func(name string, flags int) error {
		fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		}
		return err
	}
	_, err := os.ReadFile("/proc/self/exe")
	try("read a program", err)
	try("read another's environment", opens(fmt.Sprintf("/proc/%d/environ", victim), unix.O_RDONLY))
	try("make a file", opens(filepath.Join(os.TempDir(), "aisb-tampered"), unix.O_WRONLY|unix.O_CREAT))
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
	if err == nil {
		p.Wait()
	}
	try("start a program", err)
	if errors.Is(unix.Exec("", nil, nil), unix.ENOENT) {
		try("get as far as a program's path", nil)
	}
	try("signal another", unix.Kill(victim, 0))
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err == nil {
		_, err = unix.FcntlInt(uintptr(pipe[0]), unix.F_SETOWN, victim)
		try("have another signalled by a pipe", err)
		unix.Close(pipe[0])
		unix.Close(pipe[1])
	}
	try("debug another", unix.PtraceSeize(victim)) // until this thread ends
	_, err = net.Listen("tcp", "127.0.0.1:0")
	try("listen", err)
	return worked
}

// TestTamper holds that the process which serves is locked up, of both kinds of gate,
// and shows by this test's own process that the attempts are some.
func TestTamper(t *testing.T) {
	for name, enclosed := range map[string]bool{"on loopback": false, "enclosed": true} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			where := insider(os.Getpid())
			if err := os.WriteFile(where, []byte(ln.Addr().String()), 0o600); err != nil {
				t.Fatal(err)
			}
			defer os.Remove(where)
			dir := t.TempDir()
			p, err := Start(t.Context(), "/proc/self/exe", Config{Enclosed: enclosed, RunDir: filepath.Join(dir, "run")}, listen(t, dir))
			if err != nil {
				t.Fatal(err)
			}
			ln.(*net.TCPListener).SetDeadline(time.Now().Add(20 * time.Second))
			c, err := ln.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var worked []string
			if err := json.NewDecoder(c).Decode(&worked); err != nil || strings.Join(worked, ", ") != "counted" {
				t.Errorf("from inside the gate: %q, %v", worked, err)
			}
			wantLockedUp(t, p.PID())
			if _, err := p.Stop(t.Context()); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(filepath.Join(dir, "run")); err != nil {
				t.Errorf("the run's directory was not made: %v", err)
			}
		})
	}
	victim := exec.Command("/bin/sleep", "600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { victim.Process.Kill(); victim.Wait() }()
	fakes.OnThread(func() {
		if worked := tamper(victim.Process.Pid); len(worked) != 10 {
			t.Errorf("of a process that is not locked up only this works: %q", worked)
		}
	})
	os.Remove(filepath.Join(os.TempDir(), "aisb-tampered"))
}

// wantLockedUp looks at each thread of a process.
func wantLockedUp(t *testing.T, pid int) {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended
		}
		if err != nil || !strings.Contains(string(text), "\nNoNewPrivs:\t1\n") || !strings.Contains(string(text), "\nSeccomp:\t2\n") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}

// What stands and refuses nothing ends a run's gate before it serves, too, and the run hears
// why (tests/wire TestConfinedInVain has them all).
func TestLockedUpInVain(t *testing.T) {
	for name, c := range map[string]struct {
		call fakes.Feigned
		why  string
	}{
		"the filter":         {fakes.Feigned{Call: unix.SYS_SECCOMP}, "filter system calls: a unix socket can be made"},
		"what forbids dumps": {fakes.Feigned{Call: unix.SYS_PRCTL, Only: &fakes.Argument{Value: unix.PR_SET_DUMPABLE}}, "this process can be dumped"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			files := listen(t, dir)
			var p *Process
			var err error
			fakes.OnThread(func() {
				if err = fakes.Feign(c.call); err == nil {
					p, err = Start(t.Context(), "/proc/self/exe", Config{RunDir: filepath.Join(dir, "run")}, files)
				}
			})
			if err == nil {
				p.Stop(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("got %v, want %q", err, c.why)
			}
			if text, err := os.ReadFile(filepath.Join(dir, "log.jsonl")); err != nil || len(text) > 0 {
				t.Errorf("its log: %q, %v", text, err)
			}
		})
	}
}

// The gate's first line says what stands.
func TestSaysWhatStands(t *testing.T) {
	dir := t.TempDir()
	p, err := Start(t.Context(), "/proc/self/exe", Config{}, listen(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	p.Stop(t.Context())
	text, err := os.ReadFile(filepath.Join(dir, "log.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	want := confine.State{Filter: true}
	if want.Landlock, err = confine.Landlock(); err != nil {
		t.Logf("without Landlock: %v", err)
	}
	if !strings.Contains(string(text), fmt.Sprintf(`"confined":%q`, want)) {
		t.Errorf("got %s, want %q in it", text, want)
	}
}

// The lifeline's end removes the run's directory with all that is in it, and nothing
// of the runs beside it.
func TestRemovesItsRunAlone(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"run/a/b", "other/a"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"run/a/b/file", "run/socket", "other/file"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p, err := Start(t.Context(), "/proc/self/exe", Config{RunDir: filepath.Join(dir, "run")}, listen(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	p.conn.Close() // as if this process were dead
	<-p.Done()
	if _, err := os.Stat(filepath.Join(dir, "run")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the run's directory: %v; the gate wrote %v", err, p.lastWords())
	}
	if _, err := os.Stat(filepath.Join(dir, "other/file")); err != nil {
		t.Errorf("another run's: %v", err)
	}
}

// A witness says who has a socket, and follows the process that it is told.
func TestWitness(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	raw, err := ln.(*net.TCPListener).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) })
	if err != nil {
		t.Fatal(err)
	}
	mine, theirs, err := fdmsg.Pair()
	if err != nil {
		t.Fatal(err)
	}
	conn, err := fdmsg.FromFile(theirs)
	if err != nil {
		t.Fatal(err)
	}
	a, w := asker{conn: conn}, &witness{}
	served := make(chan struct{})
	go func() { defer close(served); w.serve(mine) }()
	for _, c := range []struct {
		pid   int
		inode uint32
		held  bool
	}{
		{0, uint32(st.Ino), false}, // nobody is named yet
		{os.Getpid(), uint32(st.Ino), true},
		{os.Getppid(), uint32(st.Ino), false},
		{os.Getpid(), uint32(st.Ino), true},
		{os.Getpid(), uint32(st.Ino) + 1_000_000, false},
	} {
		w.pid.Store(int64(c.pid))
		if held, err := a.holds(c.inode); held != c.held || err != nil {
			t.Errorf("process %d, socket %d: %v, %v", c.pid, c.inode, held, err)
		}
	}
	w.pid.Store(1 << 30) // there is none
	if held, err := a.holds(uint32(st.Ino)); held || err == nil {
		t.Errorf("no process: %v, %v", held, err)
	}
	w.pid.Store(int64(os.Getpid()))
	if held, err := a.holds(uint32(st.Ino)); !held || err != nil {
		t.Errorf("after an error: %v, %v", held, err)
	}
	mine.Close()
	<-served
	if held, err := a.holds(uint32(st.Ino)); held || err == nil {
		t.Errorf("without a witness: %v, %v", held, err)
	}
}

// A gate whose witness is silent serves nobody, and says that it can't.
func TestWitnessGone(t *testing.T) {
	origin, err := fakes.StartHTTP("127.0.0.1:0", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	service := fmt.Sprintf("%s:%d", policy.ServiceHost, origin.Addr.Port())
	files := listen(t, t.TempDir())
	p, err := Start(t.Context(), "/proc/self/exe", Config{Allow: lines(service)}, files)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(t.Context())
	p.witness.pid.Store(1 << 30)
	c, err := net.Dial("tcp", files.Gate.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if line, err := bufio.NewReader(c).ReadString('\n'); !strings.HasPrefix(line, "HTTP/1.1 503 ") {
		t.Errorf("%q, %v", line, err)
	}
	if err := p.Pasta(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if resp, err := proxied(files).Get("http://" + service); err != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("once it knows: %v, %v", resp, err)
	}
}
