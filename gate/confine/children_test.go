package confine

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// world is what a child has around it: files that it needs and some that it doesn't,
// and another process of the same user.
type world struct {
	Readable, Secret string // directories with a file "file" each
	Scratch          string
	Socket           string // somebody listens at it
	Victim           int    // a process
}

// needs are what the child is left.
func (w world) needs() Needs {
	return Needs{Files: []string{filepath.Join(w.Readable, "file")}, Self: true, Scratch: w.Scratch}
}

// attempt is something that a gate taken over would like to do. refused lists the
// errors by which what this package puts up answers.
type attempt struct {
	name    string
	do      func(w world) error
	refused []error
}

const anyAddress = ^uintptr(0)

// raw is a system call that fails for its arguments where nothing refuses it before.
func raw(nr uintptr, args ...uintptr) func(world) error {
	return func(world) error {
		var a [6]uintptr
		copy(a[:], args)
		if _, _, errno := syscall.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
			return errno
		}
		return nil
	}
}

func open(name string, flags int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o600)
	if err == nil {
		unix.Close(fd)
	}
	return err
}

var (
	landlocked = []error{unix.EACCES}
	filtered   = []error{unix.ENOSYS, unix.EPERM, unix.EAFNOSUPPORT}
	unbound    = []error{unix.EACCES, unix.EPERM} // by the filter too
)

// attempts work as they stand, or fail for their arguments, in a process that is not
// confined.
var attempts = []attempt{
	{"read another file", func(w world) error { return open(filepath.Join(w.Secret, "file"), unix.O_RDONLY) }, landlocked},
	{"read it by a link", func(w world) error { return open(filepath.Join(w.Readable, "link"), unix.O_RDONLY) }, landlocked},
	{"read it by /proc", func(w world) error { return open("/proc/self/root"+w.Secret+"/file", unix.O_RDONLY) }, landlocked},
	{"list a directory", func(w world) error { return open(w.Readable, unix.O_RDONLY|unix.O_DIRECTORY) }, landlocked},
	{"write what it may read", func(w world) error { return open(filepath.Join(w.Readable, "file"), unix.O_WRONLY) }, landlocked},
	{"make a file there", func(w world) error { return open(filepath.Join(w.Readable, "new"), unix.O_WRONLY|unix.O_CREAT) }, landlocked},
	{"make a file in the scratch directory", func(w world) error { return open(filepath.Join(w.Scratch, "new"), unix.O_WRONLY|unix.O_CREAT) }, landlocked},
	{"remove a file", func(w world) error { return unix.Unlink(filepath.Join(w.Secret, "spare")) }, landlocked},
	{"truncate by opening", func(w world) error { return open(filepath.Join(w.Secret, "file"), unix.O_WRONLY|unix.O_TRUNC) }, landlocked},
	{"empty what it may read", func(w world) error { return open(filepath.Join(w.Readable, "file"), unix.O_RDONLY|unix.O_TRUNC) }, landlocked},
	{"another's memory", func(w world) error { return open(fmt.Sprintf("/proc/%d/mem", w.Victim), unix.O_RDWR) }, landlocked},
	{"another's environment", func(w world) error { return open(fmt.Sprintf("/proc/%d/environ", w.Victim), unix.O_RDONLY) }, landlocked},
	{"another's descriptors", func(w world) error {
		var st unix.Stat_t
		return unix.Stat(fmt.Sprintf("/proc/%d/fd/0", w.Victim), &st)
	}, landlocked},
	{"bind a port", func(world) error { return bindPort(unix.SOCK_STREAM) }, landlocked},

	{"bind a port of UDP", func(world) error { return bindPort(unix.SOCK_DGRAM) }, unbound},

	{"start a program", func(world) error {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err == nil {
			_, err = p.Wait()
		}
		return err
	}, filtered},
	{"become a program", raw(unix.SYS_EXECVE, uintptr(unsafe.Pointer(&[]byte("\x00")[0]))), filtered},
	{"become a program by descriptor", raw(unix.SYS_EXECVEAT, anyAddress, anyAddress), filtered},
	{"fork", fork, filtered},
	{"debug another process", func(w world) error { return debug(w.Victim) }, filtered},
	{"read another's memory", func(w world) error {
		return raw(unix.SYS_PROCESS_VM_READV, uintptr(w.Victim), 0, 0, 0, 0, 0)(w)
	}, filtered},
	{"signal another process", func(w world) error { return unix.Kill(w.Victim, 0) }, filtered},
	{"signal its thread", func(w world) error { return unix.Tgkill(w.Victim, w.Victim, 0) }, filtered},
	{"have another signalled", func(w world) error { return control(unix.F_SETOWN, w.Victim) }, filtered},
	{"have it killed", func(world) error { return control(unix.F_SETSIG, int(unix.SIGKILL)) }, filtered},
	{"have signals sent", func(world) error { return control(unix.F_SETFL, unix.O_ASYNC) }, filtered},
	{"hold up who writes a file", func(w world) error { return lease(filepath.Join(w.Readable, "replaced")) }, filtered},
	{"connect to a unix socket", func(w world) error {
		c, err := net.Dial("unix", w.Socket)
		if err == nil {
			c.Close()
		}
		return err
	}, filtered},
	{"listen", func(world) error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Listen(fd, 1) // which binds by itself
	}, filtered},
	{"make code", func(world) error {
		code, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		if err == nil {
			err = unix.Munmap(code)
		}
		return err
	}, filtered},
	{"be dumped again", func(world) error { return unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0) }, filtered},
	{"raise a limit", func(world) error {
		var l unix.Rlimit
		return errors.Join(unix.Getrlimit(unix.RLIMIT_CORE, &l), unix.Setrlimit(unix.RLIMIT_CORE, &l))
	}, filtered},
	{"type at a terminal", raw(unix.SYS_IOCTL, anyAddress, unix.TIOCSTI, anyAddress), filtered},
	{"unshare", raw(unix.SYS_UNSHARE, 0), filtered},
	{"mount", raw(unix.SYS_MOUNT, anyAddress, anyAddress, anyAddress), filtered[:1]},
	{"io_uring", raw(unix.SYS_IO_URING_ENTER, anyAddress), filtered},
	{"keys", raw(unix.SYS_KEYCTL, 1<<20), filtered},
	{"bpf", raw(unix.SYS_BPF, anyAddress), filtered[:1]},
	{"userfaultfd", raw(unix.SYS_USERFAULTFD, anyAddress), filtered[:1]},
	{"another filter", raw(unix.SYS_SECCOMP, anyAddress), filtered},
}

// control does something with a descriptor that has only just come to be.
func control(op, arg int) error {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return err
	}
	defer unix.Close(p[0])
	defer unix.Close(p[1])
	_, err := unix.FcntlInt(uintptr(p[0]), op, arg)
	return err
}

// lease holds up whoever opens a file to write, for a moment.
func lease(name string) error {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = unix.FcntlInt(uintptr(fd), unix.F_SETLEASE, unix.F_RDLCK)
	return err
}

func bindPort(kind int) error {
	fd, err := unix.Socket(unix.AF_INET, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
}

// fork makes a process that ends at once, without Go in it.
func fork(world) error {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	if errno != 0 {
		return errno
	}
	for pid == 0 {
		syscall.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	_, err := unix.Wait4(int(pid), nil, 0, nil)
	return err
}

// debug attaches to a process and leaves it again.
func debug(pid int) error {
	runtime.LockOSThread() // tracees belong to a thread
	defer runtime.UnlockOSThread()
	if err := unix.PtraceAttach(pid); err != nil {
		return err
	}
	if _, err := unix.Wait4(pid, nil, unix.WALL, nil); err != nil {
		return err
	}
	return unix.PtraceDetach(pid)
}

// outcome is what came of an attempt.
type outcome struct {
	Worked  bool
	Refused bool // by one of the errors that are said there
	Error   string
}

// childTry makes all attempts, confined or not.
func childTry(w world, confined bool) (any, error) {
	if confined {
		if _, err := Apply(w.needs()); err != nil {
			return nil, err
		}
	}
	return tryAll(w), nil
}

// childLandlock makes them with files restricted and nothing else: the filter refuses
// some of the same, and would hide what Landlock lets pass.
func childLandlock(w world, _ bool) (any, error) {
	if err := w.needs().restrict(); err != nil {
		return nil, err
	}
	return tryAll(w), filesRestricted()
}

func tryAll(w world) map[string]outcome {
	got := make(map[string]outcome)
	for _, a := range attempts {
		err := a.do(w)
		o := outcome{Worked: err == nil}
		if err != nil {
			o.Error = err.Error()
		}
		for _, want := range a.refused {
			o.Refused = o.Refused || errors.Is(err, want)
		}
		got[a.name] = o
	}
	return got
}

// childThreads looks into a secret from each of many threads, of which some were there
// before. It returns how many could.
func childThreads(w world, _ bool) (any, error) {
	const n = 12
	var read, tried int
	var mu sync.Mutex
	begin, look := make(chan struct{}), make(chan struct{})
	var ready, done sync.WaitGroup
	thread := func(ready *sync.WaitGroup) {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		ready.Done()
		<-look
		_, err := os.ReadFile(filepath.Join(w.Secret, "file"))
		_, serr := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		mu.Lock()
		defer mu.Unlock()
		tried++
		if err == nil || serr == nil {
			read++
		}
	}
	ready.Add(n)
	for range n {
		done.Go(func() { thread(&ready) })
	}
	ready.Wait()
	state, err := Apply(w.needs())
	if err != nil {
		return nil, err
	}
	close(begin)
	var later sync.WaitGroup
	later.Add(n)
	for range n {
		done.Go(func() { <-begin; thread(&later) })
	}
	later.Wait()
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return nil, err
	}
	bad := 0
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if err != nil {
			return nil, err
		}
		if !lockedUp(string(text)) {
			bad++
		}
	}
	close(look)
	done.Wait()
	return []string{strconv.Itoa(tried), strconv.Itoa(read), strconv.Itoa(bad), state.String()}, nil
}

// childWork does what a gate does.
func childWork(w world, _ bool) (any, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	begin := time.Now()
	if _, err := Apply(w.needs()); err != nil {
		return nil, err
	}
	took := time.Since(begin)
	var failed []string
	for _, s := range []struct {
		name string
		do   func() error
	}{
		{"accept and connect", func() error { return workTCP(ln) }},
		{"datagrams", workUDP},
		{"addresses of this machine", func() error { _, err := net.InterfaceAddrs(); return err }},
		{"read again", func() error { _, err := os.ReadFile(filepath.Join(w.Readable, "file")); return err }},
		{"read what has replaced it", func() error { _, err := os.ReadFile(filepath.Join(w.Readable, "replaced")); return err }},
		{"its own descriptors", func() error { _, err := os.ReadDir("/proc/self/fd"); return err }},
		{"its memory", func() error { _, err := os.ReadFile("/proc/self/statm"); return err }},
		{"threads", func() error { workThreads(64); return nil }},
		{"collect garbage", func() error { runtime.GC(); return nil }},
		{"signal itself", func() error { return unix.Kill(os.Getpid(), 0) }},
		{"what it uses", func() error { var u unix.Rusage; return unix.Getrusage(unix.RUSAGE_SELF, &u) }},
		{"its limits", func() error { var l unix.Rlimit; return unix.Getrlimit(unix.RLIMIT_NOFILE, &l) }},
		{"remove the scratch directory", func() error {
			return errors.Join(os.RemoveAll(filepath.Join(w.Scratch, "sub")), unix.Rmdir(w.Scratch))
		}},
	} {
		if err := s.do(); err != nil {
			failed = append(failed, fmt.Sprintf("%s: %v", s.name, err))
		}
	}
	return work{Took: took, Failed: failed}, nil
}

type work struct {
	Took   time.Duration
	Failed []string
}

func workTCP(ln net.Listener) error {
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		return err
	}
	defer c.Close()
	d, err := ln.Accept()
	if err != nil {
		return err
	}
	go func() { c.Write([]byte("x")); c.(*net.TCPConn).CloseWrite() }()
	_, err = d.Read(make([]byte, 1))
	return errors.Join(err, d.Close())
}

func workUDP() error {
	c, err := net.Dial("udp", "127.0.0.1:9")
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("x"))
	return err
}

// workThreads makes threads that end.
func workThreads(n int) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() { runtime.LockOSThread() })
	}
	all.Wait()
}
