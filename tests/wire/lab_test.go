package wire

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/need"
)

// Names under which the test's binary is started again.
const (
	labName      = "wire-lab"      // in the gate's namespace
	internetName = "wire-internet" // in the other one
)

func TestMain(m *testing.M) {
	if os.Args[0] == internetName {
		os.Exit(internet())
	}
	status := m.Run()
	if built != "" {
		os.RemoveAll(built)
	}
	os.Exit(status)
}

// inLab runs the test again in a network namespace of its own and returns true
// when this already is that one.
func inLab(t *testing.T) bool {
	t.Helper()
	if os.Args[0] == labName {
		return true
	}
	if _, err := exec.LookPath("ip"); err != nil {
		need.Missing(t, "userns", err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v="+fmt.Sprint(testing.Verbose()), "-binary="+*binary)
	cmd.Args[0] = labName
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Getuid() != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	runtime.LockOSThread() // Pdeathsig is about the thread
	defer runtime.UnlockOSThread()
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		t.Fatal("failed in the namespace, see above")
	case err != nil:
		need.Missing(t, "userns", err)
	}
	return false
}

// lab is the gate's namespace with the other one behind it.
type lab struct {
	world  *exec.Cmd
	stdin  io.Closer
	mu     sync.Mutex
	dials  []dial
	synced chan string
}

// dial is a connection that reached the outside.
type dial struct {
	To       string `json:"to"`
	Received string `json:"received"`
	Sync     string `json:"sync,omitempty"` // not a dial: everything before is reported
}

// startLab joins the two namespaces by a pair of veth devices. The other side
// takes every address for its own, so the gate may dial any.
func startLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{synced: make(chan string, 1)}
	l.world = &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{internetName}, Stderr: os.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET},
	}
	in, err1 := l.world.StdinPipe()
	out, err2 := l.world.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	l.stdin = in
	if err := l.world.Start(); err != nil {
		need.Missing(t, "userns", err)
	}
	t.Cleanup(func() { in.Close(); l.world.Wait() })
	ip(t, "link set lo up",
		fmt.Sprintf("link add gate0 type veth peer name world0 netns %d", l.world.Process.Pid),
		"addr add 10.99.0.1/30 dev gate0", "addr add 198.20.1.1/32 dev gate0", "addr add fd99::1/64 dev gate0 nodad", "link set gate0 up")
	fmt.Fprintln(in, "go")
	r := bufio.NewReader(out)
	if line, err := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the outside is not ready: %q, %v", line, err)
	}
	ip(t, "route add default via 10.99.0.2", "-6 route add default via fd99::2")
	go l.read(r)
	return l
}

// read collects what the outside reports.
func (l *lab) read(r io.Reader) {
	d := json.NewDecoder(r)
	for {
		var one dial
		if d.Decode(&one) != nil {
			close(l.synced)
			return
		}
		if one.Sync != "" {
			l.synced <- one.Sync
			continue
		}
		l.mu.Lock()
		l.dials = append(l.dials, one)
		l.mu.Unlock()
	}
}

// take returns the connections that ended since the last call. Connections that
// are still open are ended first.
func (l *lab) take(t *testing.T) []dial {
	t.Helper()
	if _, err := fmt.Fprintln(l.stdin.(io.Writer), "sync"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-l.synced:
	case <-time.After(limit):
		t.Fatal("the outside does not report")
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.dials
	l.dials = nil
	return out
}

func ip(t *testing.T, commands ...string) {
	t.Helper()
	for _, c := range commands {
		if out, err := exec.Command("ip", strings.Fields(c)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", c, err, out)
		}
	}
}
