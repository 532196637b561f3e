package entry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// report is what the command of a test finds around itself.
type report struct {
	UID, GID, PID, Session, Group int
	Dir                           string
	Env                           [][]byte
	Descriptors                   []string
	Self                          map[string]string
	Init                          []map[string]string // every thread of pid 1
	InitSecrets                   []string            // what of pid 1 could be opened
	Rows, Cols                    uint16
	Controls                      bool // the terminal is its own
	Direct                        string
}

// harness plays the command in the container.
func harness(args []string) int {
	if err := os.WriteFile("/project/ran", nil, 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	switch args[0] {
	case "report":
		out, err := json.Marshal(look())
		if err != nil {
			return 1
		}
		os.Stdout.Write(append(out, '\n'))
	case "report-and-await":
		got := listen()
		out, err := json.Marshal(look())
		if err != nil {
			return 1
		}
		os.Stdout.Write(append(out, '\n'))
		return int((<-got).(unix.Signal))
	case "orphans-and-await":
		got := listen()
		go func() {
			for {
				leave(1)
			}
		}()
		return int((<-got).(unix.Signal))
	case "stop-init":
		got := listen()
		for _, sig := range []unix.Signal{unix.SIGSTOP, unix.SIGTSTP, unix.SIGKILL} {
			unix.Kill(1, sig)
		}
		for _, resource := range []int{unix.RLIMIT_NOFILE, unix.RLIMIT_CPU} {
			if err := unix.Prlimit(1, resource, &unix.Rlimit{}, nil); err != unix.EPERM {
				fmt.Println(err)
			}
		}
		postpone()
		fmt.Println("ready")
		return int((<-got).(unix.Signal))
	case "deaf":
		signal.Ignore(unix.SIGHUP)
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "traced":
		// By its parent, which is pid 1 and doesn't expect it: the next signal stops it.
		if _, _, errno := unix.RawSyscall(unix.SYS_PTRACE, unix.PTRACE_TRACEME, 0, 0); errno != 0 {
			fmt.Fprintln(os.Stderr, errno)
			return 1
		}
		fmt.Println("ready")
		unix.Kill(os.Getpid(), unix.SIGUSR1)
		time.Sleep(time.Hour)
	case "exit":
		status, _ := strconv.Atoi(args[1])
		return status
	case "kill-self":
		n, _ := strconv.Atoi(args[1])
		unix.Kill(os.Getpid(), unix.Signal(n))
		select {}
	case "sleep":
		fmt.Println("ready")
		time.Sleep(time.Hour)
	case "signals":
		return signalInit()
	case "await":
		return await()
	case "orphans":
		return orphans(600)
	case "serve":
		return serve(args[1])
	case "never-accept":
		return neverAccept()
	}
	return 0
}

// postpone has each of pid 1's threads come after all others, in all ways there are. What
// isn't refused is said.
func postpone() {
	idle := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_IDLE}
	tasks, err := os.ReadDir("/proc/1/task")
	if err != nil || len(tasks) == 0 {
		fmt.Println("no threads", err)
	}
	for _, task := range tasks {
		tid, _ := strconv.Atoi(task.Name())
		var param int32
		_, _, errno := unix.Syscall(unix.SYS_SCHED_SETSCHEDULER, uintptr(tid), unix.SCHED_IDLE, uintptr(unsafe.Pointer(&param)))
		_, _, ioErrno := unix.Syscall(unix.SYS_IOPRIO_SET, 1, uintptr(tid), 3<<13)
		for _, err := range []error{errno, ioErrno, unix.Setpriority(unix.PRIO_PROCESS, tid, 19), unix.SchedSetAttr(tid, &idle, 0)} {
			if !errors.Is(err, unix.EPERM) {
				fmt.Println(task.Name(), err)
			}
		}
	}
	for _, group := range []int{unix.PRIO_PGRP, unix.PRIO_USER} {
		who := map[int]int{unix.PRIO_PGRP: 1, unix.PRIO_USER: os.Getuid()}[group]
		if err := unix.Setpriority(group, who, 19); err != unix.EPERM {
			fmt.Println("group", group, err)
		}
	}
}

func look() report {
	pid := os.Getpid()
	r := report{UID: os.Getuid(), GID: os.Getgid(), PID: pid}
	r.Session, _ = unix.Getsid(0)
	r.Group = unix.Getpgrp()
	r.Dir, _ = os.Getwd()
	for _, kv := range os.Environ() {
		r.Env = append(r.Env, []byte(kv))
	}
	fds, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range fds {
		to, err := os.Readlink("/proc/self/fd/" + fd.Name())
		if err == nil && !strings.HasPrefix(to, "anon_inode:[event") && !strings.HasSuffix(to, "/fd") {
			r.Descriptors = append(r.Descriptors, fd.Name())
		}
	}
	text, _ := os.ReadFile("/proc/self/status")
	r.Self = parseStatus("self", string(text)).fields
	tasks, _ := filepath.Glob("/proc/1/task/*/status")
	for _, task := range tasks {
		text, _ := os.ReadFile(task)
		r.Init = append(r.Init, parseStatus(task, string(text)).fields)
	}
	secrets := []string{"environ", "mem", "exe", "maps", "root", "cwd"}
	for n := range 30 {
		secrets = append(secrets, fmt.Sprintf("fd/%d", n))
	}
	for _, name := range secrets {
		f, err := os.Open("/proc/1/" + name)
		if err == nil {
			f.Close()
			r.InitSecrets = append(r.InitSecrets, name)
		}
	}
	if unix.PtraceAttach(1) == nil {
		r.InitSecrets = append(r.InitSecrets, "ptrace")
	}
	if size, err := unix.IoctlGetWinsize(0, unix.TIOCGWINSZ); err == nil {
		r.Rows, r.Cols = size.Row, size.Col
	}
	group, err := unix.IoctlGetInt(0, unix.TIOCGPGRP)
	r.Controls = err == nil && int32(group) == int32(r.Group)
	_, err = net.DialTimeout("tcp", "203.0.113.1:443", 5*time.Second) // the fence refuses at once
	r.Direct = fmt.Sprint(err)
	return r
}

// signalInit sends every signal to pid 1 but those that it passes on.
func signalInit() int {
	for n := unix.Signal(1); n <= maxSignal; n++ {
		passed := false
		for _, f := range forwarded {
			passed = passed || f == n
		}
		if passed {
			continue
		}
		for how, send := range ways {
			if err := send(n); err != nil {
				fmt.Println(n, how, err)
				return 1
			}
		}
	}
	// It must still reap: an orphan of pid 1 disappears.
	return orphans(10)
}

// ways are those in which a process can send a signal to pid 1. By most it looks
// to the Go runtime as if a fault of pid 1's own had caused it.
var ways = map[string]func(unix.Signal) error{
	"kill": func(n unix.Signal) error { return unix.Kill(1, n) },
	"tgkill": func(n unix.Signal) error {
		tasks, err := os.ReadDir("/proc/1/task")
		for _, task := range tasks {
			tid, _ := strconv.Atoi(task.Name())
			if err := unix.Tgkill(1, tid, n); err != nil && err != unix.ESRCH {
				return err
			}
		}
		return err
	},
	"queued": func(n unix.Signal) error {
		info := siginfo{sig: int32(n), code: -1} // SI_QUEUE
		_, _, errno := unix.Syscall(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(n), uintptr(unsafe.Pointer(&info)))
		return unwrapErrno(errno)
	},
	"by descriptor": func(n unix.Signal) error {
		fd, err := unix.PidfdOpen(1, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		info := siginfo{sig: int32(n), code: -4} // SI_ASYNCIO
		_, _, errno := unix.Syscall6(unix.SYS_PIDFD_SEND_SIGNAL, uintptr(fd), uintptr(n), uintptr(unsafe.Pointer(&info)), 0, 0, 0)
		return unwrapErrno(errno)
	},
	"by a socket": func(n unix.Signal) error {
		fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fds[0])
		defer unix.Close(fds[1])
		for _, c := range [][2]int{{unix.F_SETOWN, 1}, {unix.F_SETSIG, int(n)}, {unix.F_SETFL, unix.O_ASYNC}} {
			if _, err := unix.FcntlInt(uintptr(fds[0]), c[0], c[1]); err != nil {
				return err
			}
		}
		_, err = unix.Write(fds[1], []byte{0})
		return err
	},
}

// siginfo is the kernel's siginfo_t on 64-bit machines.
type siginfo struct {
	sig, errno, code int32
	_                [29]int32
}

func unwrapErrno(errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}

// await says that it is ready and ends with the signal that it got.
func await() int {
	got := listen()
	fmt.Println("ready")
	return int((<-got).(unix.Signal))
}

func listen() chan os.Signal {
	got := make(chan os.Signal, 1)
	signal.Notify(got, unix.SIGTERM, unix.SIGUSR1, unix.SIGHUP)
	return got
}

// orphans leaves dead processes, two at a time, to pid 1 and waits until it has
// reaped them. They are forked without exec, which is fast and does no harm as
// they make nothing but system calls.
func orphans(pairs int) int {
	if status := leave(pairs); status != 0 {
		return status
	}
	limit := time.Now().Add(10 * time.Second)
	for time.Now().Before(limit) {
		left := 0
		stats, _ := filepath.Glob("/proc/[0-9]*/stat")
		for _, stat := range stats {
			text, err := os.ReadFile(stat)
			if err == nil && !bytes.HasPrefix(text, []byte("1 ")) && !bytes.HasPrefix(text, fmt.Appendf(nil, "%d ", os.Getpid())) {
				left++
			}
		}
		if left == 0 {
			return 0
		}
		time.Sleep(10 * time.Millisecond)
	}
	return 1
}

// leave is the first half of orphans.
func leave(pairs int) int {
	for range pairs {
		child, _, errno := unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
		if errno == 0 && child == 0 {
			unix.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) // both
		}
		if errno != 0 {
			fmt.Println("clone:", errno)
			return 1
		}
		if _, err := unix.Wait4(int(child), nil, 0, nil); err != nil {
			fmt.Println("wait:", err)
			return 1
		}
	}
	return 0
}
