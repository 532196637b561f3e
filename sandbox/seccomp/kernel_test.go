package seccomp

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A filter can't be taken off again, so whatever installs it is a child: this
// test binary under another name.
var children = map[string]func(args []string) (any, error){
	"try":     childTry,
	"threads": childThreads,
	"split":   childSplit,
	"install": childInstall,
	"run":     childRun,
	"work":    childWork,
	"nest":    childNest,
}

func TestMain(m *testing.M) {
	maps.Copy(children, archChildren)
	if child, ok := children[os.Args[0]]; ok {
		result, err := child(os.Args[1:])
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(result)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child runs one of children and decodes what it says.
func child(t *testing.T, result any, attr *syscall.SysProcAttr, args ...string) error {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = args
	cmd.SysProcAttr = attr
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%q: %w: %s", args, err, stderr.String())
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatalf("%q: %v: %s", args, err, out)
	}
	return nil
}

// install is what the entrypoint does before it becomes the command.
func install(o Options) error {
	runtime.LockOSThread() // no_new_privs is the thread's until the filter takes it to all
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return Install(o)
}

// attempt is a call that a kernel without filter refuses for its arguments
// before it does anything, with another error than the filter's.
type attempt struct {
	name string
	nr   uintptr
	args [5]uintptr
	want syscall.Errno
	// capable is what a kernel without filter also refuses to who has no
	// capability, by the same error.
	capable bool
}

const bad = ^uintptr(0) // neither a descriptor nor an address

var attempts = []attempt{
	// A process of several threads can't leave its user namespace: EINVAL.
	{"unshare user", unix.SYS_UNSHARE, [5]uintptr{unix.CLONE_NEWUSER}, unix.EPERM, false},
	{"unshare user and net", unix.SYS_UNSHARE, [5]uintptr{unix.CLONE_NEWUSER | unix.CLONE_NEWNET}, unix.EPERM, false},
	// CLONE_FS contradicts both: EINVAL.
	{"clone user", unix.SYS_CLONE, [5]uintptr{unix.CLONE_NEWUSER | unix.CLONE_FS}, unix.EPERM, false},
	{"clone mount", unix.SYS_CLONE, [5]uintptr{unix.CLONE_NEWNS | unix.CLONE_FS}, unix.EPERM, false},
	{"clone3", unix.SYS_CLONE3, [5]uintptr{0, 0}, unix.ENOSYS, false},
	{"setns", unix.SYS_SETNS, [5]uintptr{bad, 0}, unix.EPERM, false},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, [5]uintptr{1, 0}, unix.ENOSYS, false},
	{"io_uring_enter", unix.SYS_IO_URING_ENTER, [5]uintptr{bad}, unix.ENOSYS, false},
	{"io_uring_register", unix.SYS_IO_URING_REGISTER, [5]uintptr{bad}, unix.ENOSYS, false},
	{"bpf", unix.SYS_BPF, [5]uintptr{bad}, unix.EPERM, true},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, [5]uintptr{bad}, unix.EPERM, true},
	{"userfaultfd", unix.SYS_USERFAULTFD, [5]uintptr{bad}, unix.EPERM, true},
	{"keyctl", unix.SYS_KEYCTL, [5]uintptr{1 << 20}, unix.ENOSYS, false},
	{"add_key", unix.SYS_ADD_KEY, [5]uintptr{0, 0, 0, 0, 0}, unix.ENOSYS, false},
	{"request_key", unix.SYS_REQUEST_KEY, [5]uintptr{0, 0, 0, 0}, unix.ENOSYS, false},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, [5]uintptr{bad, 0, 0}, unix.EPERM, true},
	{"syslog", unix.SYS_SYSLOG, [5]uintptr{bad}, unix.EPERM, true},
	{"prlimit of another", unix.SYS_PRLIMIT64, [5]uintptr{1, 0, bad, 0}, unix.EPERM, false},
	{"priority of all of the user's", unix.SYS_SETPRIORITY, [5]uintptr{unix.PRIO_USER, 0, 0}, unix.EPERM, false},
	{"scheduling of another", unix.SYS_SCHED_SETATTR, [5]uintptr{1, bad, 0}, unix.EPERM, false},
	{"scheduler of another", unix.SYS_SCHED_SETSCHEDULER, [5]uintptr{1, unix.SCHED_IDLE, bad}, unix.EPERM, false},
	{"mount", unix.SYS_MOUNT, [5]uintptr{0, 0, 0, 0, 0}, unix.EPERM, true},
	{"umount2", unix.SYS_UMOUNT2, [5]uintptr{0, 0}, unix.EPERM, true},
	{"pivot_root", unix.SYS_PIVOT_ROOT, [5]uintptr{0, 0}, unix.EPERM, true},
	{"move_mount", unix.SYS_MOVE_MOUNT, [5]uintptr{bad, 0, bad, 0, 0}, unix.EPERM, true},
	{"open_tree", unix.SYS_OPEN_TREE, [5]uintptr{bad, 0, 0}, unix.EPERM, true},
	{"fsopen", unix.SYS_FSOPEN, [5]uintptr{0, 0}, unix.EPERM, true},
	{"fsconfig", unix.SYS_FSCONFIG, [5]uintptr{bad, bad}, unix.EPERM, true},
	{"fsmount", unix.SYS_FSMOUNT, [5]uintptr{bad, 0, 0}, unix.EPERM, true},
	{"fspick", unix.SYS_FSPICK, [5]uintptr{bad, 0, 0}, unix.EPERM, true},
	{"mount_setattr", unix.SYS_MOUNT_SETATTR, [5]uintptr{bad, 0, bad, 0, 0}, unix.EPERM, true},
	{"chroot", unix.SYS_CHROOT, [5]uintptr{0}, unix.EPERM, true},
	{"init_module", unix.SYS_INIT_MODULE, [5]uintptr{0, 0, 0}, unix.EPERM, true},
	{"finit_module", unix.SYS_FINIT_MODULE, [5]uintptr{bad, 0, bad}, unix.EPERM, true},
	{"delete_module", unix.SYS_DELETE_MODULE, [5]uintptr{0, 0}, unix.EPERM, true},
	{"kexec_load", unix.SYS_KEXEC_LOAD, [5]uintptr{0, 0, 0, bad}, unix.EPERM, true},
	{"kexec_file_load", unix.SYS_KEXEC_FILE_LOAD, [5]uintptr{bad, bad, 0, 0, bad}, unix.EPERM, true},
	{"reboot", unix.SYS_REBOOT, [5]uintptr{0, 0, 0}, unix.EPERM, true},
	{"acct", unix.SYS_ACCT, [5]uintptr{bad}, unix.EPERM, true},
	{"swapon", unix.SYS_SWAPON, [5]uintptr{0, bad}, unix.EPERM, true},
	{"swapoff", unix.SYS_SWAPOFF, [5]uintptr{0}, unix.EPERM, true},
	{"socket vsock", unix.SYS_SOCKET, [5]uintptr{unix.AF_VSOCK, bad}, unix.EAFNOSUPPORT, false},
	{"socket packet in disguise", unix.SYS_SOCKET, [5]uintptr{unix.AF_INET, unix.SOCK_PACKET, 0}, unix.EPERM, true},
	{"socket generic netlink", unix.SYS_SOCKET, [5]uintptr{unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_GENERIC}, unix.EPROTONOSUPPORT, false},
	{"socketpair vsock", unix.SYS_SOCKETPAIR, [5]uintptr{unix.AF_VSOCK, bad}, unix.EAFNOSUPPORT, false},
}

func (a attempt) try() syscall.Errno {
	_, _, errno := syscall.RawSyscall6(a.nr, a.args[0], a.args[1], a.args[2], a.args[3], a.args[4], 0)
	return errno
}

// outcome is what the kernel answered, before and after.
type outcome struct{ Before, After []syscall.Errno }

func childTry([]string) (any, error) {
	var o outcome
	for _, a := range attempts {
		o.Before = append(o.Before, a.try())
	}
	if err := install(Options{}); err != nil {
		return nil, err
	}
	for _, a := range attempts {
		o.After = append(o.After, a.try())
	}
	return o, nil
}

// TestKernelRefuses tries every refused call for real. That the answer was
// another before shows that the filter gives it.
func TestKernelRefuses(t *testing.T) {
	var o outcome
	if err := child(t, &o, nil, "try"); err != nil {
		t.Fatal(err)
	}
	root := os.Geteuid() == 0
	for i, a := range attempts {
		if o.After[i] != a.want {
			t.Errorf("%s: got %q, want %q", a.name, o.After[i], a.want)
		}
		if o.Before[i] == a.want && (root || !a.capable) {
			t.Errorf("%s: %q without a filter too: the attempt shows nothing", a.name, o.Before[i])
		}
	}
}

func childThreads([]string) (any, error) {
	const n = 8
	var ready, asked, done sync.WaitGroup
	installed, stop := make(chan struct{}), make(chan struct{})
	answers := make([]syscall.Errno, n)
	for i := range answers {
		ready.Add(1)
		asked.Add(1)
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			<-installed
			_, _, answers[i] = syscall.RawSyscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
			asked.Done()
			<-stop
		})
	}
	ready.Wait()
	if err := install(Options{}); err != nil {
		return nil, err
	}
	close(installed)
	asked.Wait()
	status, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(status) < n {
		return nil, fmt.Errorf("%d threads: %v", len(status), err)
	}
	for _, path := range status {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if !strings.Contains(string(text), "\nSeccomp:\t2\n") {
			return nil, fmt.Errorf("%s has no filter: %s", path, text)
		}
	}
	close(stop)
	done.Wait()
	return answers, nil
}

// TestAllThreads installs from one thread and asks on others, which ran before.
func TestAllThreads(t *testing.T) {
	var answers []syscall.Errno
	if err := child(t, &answers, nil, "threads"); err != nil {
		t.Fatal(err)
	}
	for i, errno := range answers {
		if errno != unix.ENOSYS {
			t.Errorf("thread %d: got %q", i, errno)
		}
	}
}

func childSplit([]string) (any, error) {
	// One thread with a filter of its own, which allows everything.
	ready, stop := make(chan error), make(chan struct{})
	defer close(stop)
	go func() {
		runtime.LockOSThread()
		err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
		filter := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW}}
		prog := unix.SockFprog{Len: 1, Filter: &filter[0]}
		_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
		if errno != 0 {
			err = errno
		}
		ready <- err
		<-stop
	}()
	if err := <-ready; err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	err := install(Options{})
	_, _, errno := syscall.RawSyscall(unix.SYS_IO_URING_SETUP, 1, 0, 0)
	return []any{fmt.Sprint(err), errno == unix.ENOSYS}, nil
}

// TestAllOrNothing holds that a thread which can't take the filter is an
// error, although the kernel returns no error for it.
func TestAllOrNothing(t *testing.T) {
	var got []any
	if err := child(t, &got, nil, "split"); err != nil {
		t.Fatal(err)
	}
	if text := got[0].(string); !strings.Contains(text, "has a system call filter of its own") {
		t.Errorf("Install: got %q", text)
	}
	if got[1].(bool) {
		t.Error("the filter is there in spite of the error")
	}
}

func childInstall([]string) (any, error) { return "", Install(Options{}) }

// TestNeedsNoNewPrivs holds that the caller hears of it when it forgot.
func TestNeedsNoNewPrivs(t *testing.T) {
	var attr *syscall.SysProcAttr
	if os.Geteuid() == 0 { // CAP_SYS_ADMIN would do instead
		attr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	var none string
	err := child(t, &none, attr, "install")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "filter needs no_new_privs first") {
		t.Errorf("got %v", err)
	}
}
