package seccomp

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/need"
)

// ended is how a program came to its end.
type ended struct {
	Status int // -1: by a signal
	Signal string
}

func (e ended) String() string {
	if e.Status >= 0 {
		return fmt.Sprintf("status %d", e.Status)
	}
	return "signal " + e.Signal
}

func run(path string, args ...string) (ended, error) {
	err := exec.Command(path, args...).Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return ended{}, nil
	case errors.Is(err, unix.ENOEXEC):
		return ended{Status: 126}, nil
	case !errors.As(err, &exit):
		return ended{}, err
	}
	ws := exit.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return ended{-1, ws.Signal().String()}, nil
	}
	return ended{ws.ExitStatus(), ""}, nil
}

// installAs installs the filter as a test names it: "bare" is none.
func installAs(how string) error {
	switch how {
	case "bare":
		return nil
	case "filtered":
		return install(Options{})
	case "nesting":
		return install(Options{AllowUserNS: true})
	}
	return fmt.Errorf("no filter %q", how)
}

// childRun runs a program with or without filter.
func childRun(args []string) (any, error) {
	if err := installAs(args[0]); err != nil {
		return nil, err
	}
	return run(args[1], args[2:]...)
}

// outcomeOf runs a program in a child, "bare", "filtered" or "nesting".
func outcomeOf(t *testing.T, how, path string, args ...string) ended {
	t.Helper()
	var got ended
	if err := child(t, &got, nil, append([]string{"run", how, path}, args...)...); err != nil {
		t.Fatal(err)
	}
	return got
}

// childNest starts a program in a user namespace of its own.
func childNest(args []string) (any, error) {
	if err := installAs(args[0]); err != nil {
		return nil, err
	}
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	err := cmd.Run()
	return []bool{err == nil, errors.Is(err, unix.EPERM)}, nil
}

// TestUserNamespaces holds that they are closed, and opened by AllowUserNS.
func TestUserNamespaces(t *testing.T) {
	need.UserNS(t)
	for how, want := range map[string][]bool{"bare": {true, false}, "filtered": {false, true}, "nesting": {true, false}} {
		var got []bool
		if err := child(t, &got, nil, "nest", how); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: started, refused: got %v, want %v", how, got, want)
		}
	}
}

// childWork does what developers' tools do.
func childWork([]string) (any, error) {
	if err := install(Options{}); err != nil {
		return nil, err
	}
	steps := []struct {
		name string
		do   func() error
	}{
		{"tcp on loopback", workTCP},
		{"list interfaces", func() error { _, err := net.InterfaceAddrs(); return err }},
		{"socket pair", func() error {
			pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			if err == nil {
				unix.Close(pair[0])
				unix.Close(pair[1])
			}
			return err
		}},
		{"processes and a pipe", func() error { return exec.Command("/bin/sh", "-c", "true | (sleep 0 & wait)").Run() }},
		{"debug", workDebug},
		{"unshare descriptors", func() error { runtime.LockOSThread(); return unix.Unshare(unix.CLONE_FS | unix.CLONE_FILES) }},
	}
	var failed []string
	for _, s := range steps {
		if err := s.do(); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", s.name, err))
		}
	}
	return failed, nil
}

func workTCP() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		return err
	}
	return c.Close()
}

// workDebug starts a program under ptrace and lets it go.
func workDebug() error {
	runtime.LockOSThread() // tracees belong to a thread
	defer runtime.UnlockOSThread()
	p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &ws, 0, nil); err != nil || !ws.Stopped() {
		return fmt.Errorf("not stopped at its start: %v %#x", err, ws)
	}
	if err := syscall.PtraceDetach(p.Pid); err != nil {
		return err
	}
	state, err := p.Wait()
	if err == nil && !state.Success() {
		err = errors.New(state.String())
	}
	return err
}

// TestWorks holds that the filter is no hindrance to ordinary work.
func TestWorks(t *testing.T) {
	var failed []string
	if err := child(t, &failed, nil, "work"); err != nil {
		t.Fatal(err)
	}
	for _, text := range failed {
		t.Error(text)
	}
}
