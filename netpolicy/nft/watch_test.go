package nft

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/tests/need"
)

// far marks a test binary that plays a sandbox: it makes a fence in namespaces
// of its own, hands a socket out and does what it is told.
const far = "AISB_TEST_NFT_FAR"

func TestMain(m *testing.M) {
	if os.Getenv(far) != "" {
		if err := beFar(); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func farSpec(kind string) netpolicy.Spec {
	if kind == "direct" {
		return netpolicy.Spec{Direct: &netpolicy.Direct{Peers: ports("93.184.215.14:443")}}
	}
	return netpolicy.Spec{Gates: ports("169.254.1.3:3128")}
}

// beFar says the number of its socket's descriptor and then obeys, one line each.
func beFar() error {
	rs, err := netpolicy.Render(farSpec(os.Getenv(far)))
	if err == nil {
		err = Apply(rs)
	}
	if err != nil {
		return err
	}
	socket, err := Socket()
	if err != nil {
		return err
	}
	fmt.Println(socket.Fd())
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		cmd := exec.Command("nft", "-f", "-")
		cmd.Stdin = strings.NewReader(orders.Text())
		if out, err := cmd.CombinedOutput(); err != nil {
			return errors.New(string(out))
		}
		fmt.Println("done")
	}
	return orders.Err()
}

// sandbox is a process of the test binary in namespaces of its own.
type sandbox struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func startFar(t *testing.T) *sandbox { return startFarWith(t, "gate") }

func startFarWith(t *testing.T, kind string) *sandbox {
	t.Helper()
	need.UserNS(t)
	need.NFT(t)
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), far+"="+kind)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); _ = cmd.Wait() })
	return &sandbox{t, cmd, in, bufio.NewScanner(out)}
}

func (s *sandbox) line() string {
	s.t.Helper()
	if !s.lines.Scan() {
		s.t.Fatalf("the sandbox has ended: %v", s.lines.Err())
	}
	return s.lines.Text()
}

// nft lets the sandbox run a line of nft(8).
func (s *sandbox) nft(line string) {
	s.t.Helper()
	if _, err := fmt.Fprintln(s.in, line); err != nil {
		s.t.Fatal(err)
	}
	s.line()
}

// socket takes a copy of the socket out.
func (s *sandbox) socket() *os.File {
	s.t.Helper()
	number, err := strconv.Atoi(s.line())
	if err != nil {
		s.t.Fatal(err)
	}
	pidfd, err := unix.PidfdOpen(s.cmd.Process.Pid, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, number, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "netfilter")
}

// The host sees from outside what the fence is, that it was changed, and what it
// counted, after the sandbox has ended too.
func TestWatch(t *testing.T) {
	s := startFar(t)
	w, err := Watch(s.socket())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rs := render(t, farSpec("gate"))
	before, err := w.Counters(rs)
	if err != nil {
		t.Fatal(err)
	}
	first, err := w.Generation()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := w.Generation(); err != nil || again != first {
		t.Errorf("generation %d, then %d, %v", first, again, err)
	}
	s.nft("add table ip other")
	if changed, err := w.Generation(); err != nil || changed == first {
		t.Errorf("generation still %d, %v", changed, err)
	}
	if _, err := w.Counters(rs); !errors.Is(err, ErrMismatch) {
		t.Errorf("a foreign table: %v", err)
	}
	s.nft("delete table ip other")
	s.in.Close()
	if err := s.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	after, err := w.Counters(rs)
	if err != nil || len(after) != len(before) {
		t.Errorf("after the end: %d counters, before %d, %v", len(after), len(before), err)
	}
	// This process's own namespace is another one.
	if err := Verify(rs); err == nil {
		t.Error("the fence is in this namespace")
	}
}

// What isn't a netlink socket is refused.
func TestWatchRefuses(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	if _, err := Watch(r); err == nil {
		t.Error("a pipe is watched")
	}
}
