//go:build linux

package attack

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// processes are attacks on what other processes hold: secrets (T3, T4) and
// rights (T7).
func processes() []Attack {
	return []Attack{
		{ID: "own-environ", Row: "T3", Try: "the host's environment in the own one", Run: func(_ context.Context, p Plan) Finding {
			return holds([]byte(strings.Join(os.Environ(), "\x00")), p.Mark, "the own environment")
		}},
		{ID: "all-environ", Row: "T3", Try: "the host's environment in that of any process", Run: func(_ context.Context, p Plan) Finding { return searchProc("environ", p.Mark) }},
		{ID: "pid1-environ", Row: "T3", Try: "read /proc/1/environ", Run: call(func() error { return open("/proc/1/environ") })},
		{ID: "pid1-auxv", Row: "T3", Try: "read /proc/1/auxv", Run: call(func() error { return open("/proc/1/auxv") })},
		{ID: "pid1-memory", Row: "T3", Try: "read /proc/1/mem", Run: call(func() error { return open("/proc/1/mem") })},
		{ID: "pid1-maps", Row: "T3", Try: "read /proc/1/maps", Run: call(func() error { return open("/proc/1/maps") })},
		{ID: "pid1-syscall", Row: "T3", Try: "read /proc/1/syscall and stack", Run: func(context.Context, Plan) Finding {
			return worst([]Finding{judged(open("/proc/1/syscall")), judged(open("/proc/1/stack"))})
		}},
		{ID: "pid1-descriptors", Row: "T3", Try: "list and open the descriptors of pid 1", Run: call(func() error {
			_, err := os.ReadDir("/proc/1/fd")
			return err
		})},
		{ID: "pid1-getfd", Row: "T3", Try: "pidfd_getfd: take the lifeline of pid 1", Run: getfd},
		{ID: "pid1-ptrace", Row: "T7", Try: "ptrace pid 1", Own: true, Run: call(func() error { return unix.PtraceAttach(1) })},
		{ID: "pid1-vm-read", Row: "T3", Try: "process_vm_readv of pid 1", Run: call(func() error { return vm(unix.SYS_PROCESS_VM_READV) })},
		{ID: "pid1-vm-write", Row: "T7", Try: "process_vm_writev into pid 1", Run: call(func() error { return vm(unix.SYS_PROCESS_VM_WRITEV) })},
		{ID: "pid1-madvise", Row: "T7", Try: "process_madvise on pid 1", Run: madvise},
		{ID: "pid1-namespaces", Row: "T7", Try: "the namespaces of pid 1", Run: call(func() error {
			_, err := os.Readlink("/proc/1/ns/net")
			return err
		})},
		{ID: "pid1-limits", Row: "T7", Try: "prlimit: let pid 1 dump core", Run: call(func() error {
			return unix.Prlimit(1, unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1 << 30, Max: 1 << 30}, nil)
		})},
		{ID: "pid1-starve", Row: "T7", Try: "prlimit: take descriptors from pid 1", Run: call(func() error {
			var l unix.Rlimit
			if err := unix.Prlimit(1, unix.RLIMIT_NOFILE, nil, &l); err != nil {
				return err
			}
			return unix.Prlimit(1, unix.RLIMIT_NOFILE, &l, nil) // the same: that it could is enough
		})},
		{ID: "pid1-faults", Row: "T7", Try: "queue faults to pid 1, so that it crashes", Run: queueFaults, Alone: true},
		{ID: "pid1-kill", Row: "T7", Try: "kill -9 1", Run: killFirst, Alone: true},
		{ID: "rights", Row: "T7", Try: "a capability in any set of any process", Run: rights},
		{ID: "bounding-set", Row: "T7", Try: "a capability left in the bounding set", Run: boundingSet},
		{ID: "seccomp-off", Row: "T7", Try: "a process without a system call filter", Run: unfiltered},
		{ID: "leftover-descriptors", Row: "T3", Try: "descriptors that were left open", Run: leftovers},
		{ID: "passed-secret-argv", Row: "T4", Try: "a passed secret in any process's arguments", Run: func(_ context.Context, p Plan) Finding { return searchProc("cmdline", p.Passed) }},
		{ID: "passed-secret-pid1", Row: "T4", Try: "a passed secret in another process's environment", Run: othersEnviron},
	}
}

func open(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Read(make([]byte, 1))
	return err
}

// holds judges a place where a mark must not be.
func holds(text []byte, mark, where string) Finding {
	switch {
	case mark == "":
		return unknown("there is no canary to look for")
	case bytes.Contains(text, []byte(mark)):
		return got("the canary is in %s", where)
	}
	return held("not in %s", where)
}

// searchProc looks for a mark in a file of each process.
func searchProc(name, mark string) Finding {
	paths, _ := filepath.Glob("/proc/[0-9]*/" + name)
	list, refused := []Finding{}, 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			refused++
			continue
		}
		if f := holds(text, mark, path); f.Verdict != Held {
			return f
		}
		list = append(list, Finding{})
	}
	if len(list) == 0 {
		return unknown("no process could be read")
	}
	return held("not in %d processes, %d refused", len(list), refused)
}

// InArguments looks for a mark in the arguments of the processes that this
// process sees.
func InArguments(mark string) Finding { return searchProc("cmdline", mark) }

// othersEnviron looks into the processes that this battery didn't start.
func othersEnviron(_ context.Context, p Plan) Finding {
	if p.Passed == "" {
		return unknown("no secret was passed")
	}
	text, err := os.ReadFile("/proc/1/environ")
	if err != nil {
		return judged(err)
	}
	return holds(text, p.Passed, "/proc/1/environ")
}

func getfd(context.Context, Plan) Finding {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return judged(err)
	}
	defer unix.Close(fd)
	for i := range 8 {
		if _, err = unix.PidfdGetfd(fd, i, 0); err == nil || err == unix.ENOSYS {
			break
		}
	}
	return judged(err)
}

func vm(nr uintptr) error {
	buf := make([]byte, 8)
	local := unix.Iovec{Base: &buf[0], Len: 8}
	// An address that pid 1, a static binary of the same build, has mapped: the
	// right is checked before it.
	remote := unix.RemoteIovec{Base: 0x400000, Len: 8}
	return sys(nr, 1, uintptr(unsafe.Pointer(&local)), 1, uintptr(unsafe.Pointer(&remote)), 1, 0)
}

func madvise(context.Context, Plan) Finding {
	fd, err := unix.PidfdOpen(1, 0)
	if err != nil {
		return judged(err)
	}
	defer unix.Close(fd)
	remote := unix.RemoteIovec{Base: 0x400000, Len: 4096}
	return judged(sys(unix.SYS_PROCESS_MADVISE, uintptr(fd), uintptr(unsafe.Pointer(&remote)), 1, unix.MADV_COLD, 0))
}

// queueFaults sends pid 1 what looks like a fault. The kernel lets it: what is
// judged is whether pid 1 is still the one that does its duty.
func queueFaults(context.Context, Plan) Finding {
	for _, sig := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS} {
		info := [32]int32{int32(sig), 0, -1 /* SI_QUEUE */} // siginfo_t
		if err := sys(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(sig), uintptr(unsafe.Pointer(&info))); err != nil {
			return judged(err)
		}
	}
	return firstLives()
}

// killFirst may be called without an error: the kernel drops SIGKILL that comes
// to a pid 1 from its own namespace (pid_namespaces(7)).
func killFirst(context.Context, Plan) Finding {
	if err := unix.Kill(1, unix.SIGKILL); err != nil {
		return judged(err)
	}
	return firstLives()
}

func firstLives() Finding {
	state, err := status(1)
	if err != nil {
		return got("pid 1 is gone: %v", err)
	}
	return held("pid 1 lives on (%s)", state["State"])
}

// status reads /proc/PID/status.
func status(pid any) (map[string]string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%v/status", pid))
	if err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			fields[key] = strings.Join(strings.Fields(value), " ")
		}
	}
	return fields, nil
}

// eachThread judges every thread of every process.
func eachThread(judge func(name string, fields map[string]string) (string, bool)) Finding {
	paths, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	n := 0
	for _, path := range paths {
		fields, err := status(strings.TrimPrefix(path, "/proc/"))
		if err != nil {
			continue // it has ended
		}
		n++
		if what, ok := judge(fields["Name"], fields); !ok {
			return got("%s of %s", what, fields["Name"])
		}
	}
	if n == 0 {
		return unknown("no thread could be read")
	}
	return held("none in %d threads", n)
}

func rights(context.Context, Plan) Finding {
	return eachThread(func(_ string, fields map[string]string) (string, bool) {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if strings.Trim(fields[set], "0") != "" {
				return set + " " + fields[set], false
			}
		}
		return "", true
	})
}

func unfiltered(context.Context, Plan) Finding {
	return eachThread(func(_ string, fields map[string]string) (string, bool) {
		return "Seccomp " + fields["Seccomp"], fields["Seccomp"] == "2"
	})
}

func boundingSet(context.Context, Plan) Finding {
	fields, err := status("self")
	if err != nil {
		return unknown("%v", err)
	}
	if strings.Trim(fields["CapBnd"], "0") != "" {
		return got("CapBnd %s", fields["CapBnd"])
	}
	return held("empty")
}

// leftovers looks at what the command itself was started with: the parent of
// this process.
func leftovers(context.Context, Plan) Finding {
	dir := fmt.Sprintf("/proc/%d/fd", os.Getppid())
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unknown("%s", errnoName(err))
	}
	n := 0
	for _, e := range entries {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil {
			continue // it was one of the reading itself
		}
		n++
		if strings.HasPrefix(to, "socket:") {
			return got("descriptor %s is %s", e.Name(), to)
		}
	}
	return held("%d descriptors, none a socket", n)
}
