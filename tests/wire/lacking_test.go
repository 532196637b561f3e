package wire

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// lacking starts a command where some system calls answer as told.
func lacking(t *testing.T, errno syscall.Errno, calls ...uint32) func(*exec.Cmd) error {
	program := []bpf.Instruction{bpf.LoadAbsolute{Off: 0, Size: 4}} // the call's number
	for _, nr := range calls {
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: nr, SkipFalse: 1},
			bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)})
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}))
	if err != nil {
		t.Fatal(err)
	}
	insns := make([]unix.SockFilter, len(raw))
	for i, ins := range raw {
		insns[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	filter := unix.SockFprog{Len: uint16(len(insns)), Filter: &insns[0]}
	return func(cmd *exec.Cmd) error {
		done := make(chan error)
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with its filter
			if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
				done <- err
				return
			}
			if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&filter))); errno != 0 {
				done <- errno
				return
			}
			done <- cmd.Start()
		}()
		return <-done
	}
}

// TestConfinedByLess: where the kernel lacks one of the two, or who starts the gate forbids
// it, the gate serves with a warning, and with --confine require doesn't start.
func TestConfinedByLess(t *testing.T) {
	build(t)
	landlock := []uint32{unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF}
	for name, c := range map[string]struct {
		start    func(*exec.Cmd) error
		confined string
		why      string
	}{
		"an old kernel":     {lacking(t, unix.ENOSYS, landlock...), `^seccomp$`, "this kernel has no Landlock"},
		"booted without":    {lacking(t, unix.EOPNOTSUPP, landlock...), `^seccomp$`, "this kernel was booted without its Landlock"},
		"a strict manager":  {lacking(t, unix.EPERM, landlock...), `^seccomp$`, "ask for Landlock: operation not permitted"},
		"without filters":   {lacking(t, unix.ENOSYS, unix.SYS_SECCOMP), `^landlock-\d+$`, "this kernel has no filter of system calls"},
		"neither of them":   {lacking(t, unix.ENOSYS, append(landlock, unix.SYS_SECCOMP)...), `^none$`, "this kernel has no filter of system calls"},
		"filters forbidden": {lacking(t, unix.EPERM, unix.SYS_SECCOMP), `^landlock-\d+$`, "ask for filters of system calls: operation not permitted"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0", "--allow", "allowed.test")
			s := startWith(t, cmd, c.start)
			if says, _ := s.wait("listening", "")["confined"].(string); !matches(c.confined, says) {
				t.Errorf("the log says %q", says)
			}
			s.waitErr("warning: the gate is less locked up than it could be: " + c.why)
			var words strings.Builder
			strict := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0", "--allow", "allowed.test", "--confine", "require")
			strict.Stderr = &words
			strict.WaitDelay = time.Second
			if err := c.start(strict); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(limit, func() { _ = strict.Process.Kill() }) // one that serves
			_ = strict.Wait()
			if strict.ProcessState.ExitCode() != 1 || !strings.Contains(words.String(), "aisb: error: lock the gate up: ") || !strings.Contains(words.String(), c.why) {
				t.Errorf("--confine require: %v, %q", strict.ProcessState, words.String())
			}
		})
	}
}

// TestConfinedInherits: what whoever has called the gate had open isn't open in it.
func TestConfinedInherits(t *testing.T) {
	build(t)
	left, err := os.Open("/etc/passwd")
	if err != nil {
		t.Fatal(err)
	}
	defer left.Close()
	for mode, want := range map[string]bool{"auto": false, "off": true} {
		cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0", "--allow", "allowed.test", "--confine", mode)
		cmd.ExtraFiles = []*os.File{left}
		s := startCommand(t, cmd)
		files, err := filepath.Glob("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/fd/*")
		if err != nil || len(files) == 0 {
			t.Fatalf("no descriptors: %v", err)
		}
		has := false
		for _, name := range files {
			to, err := os.Readlink(name)
			has = has || err == nil && to == "/etc/passwd"
		}
		if has != want {
			t.Errorf("%s: has it: %v", mode, has)
		}
	}
}
