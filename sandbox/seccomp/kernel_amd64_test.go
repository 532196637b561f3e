package seccomp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/callfilter"
)

var archChildren = map[string]func([]string) (any, error){"trace": childTrace}

// Programs of a few bytes: no compiler makes int $0x80 in 64-bit code, and
// none for 32 bits need be here.
const (
	base     = 0x400000
	header32 = 52 + 32
	header64 = 64 + 56
	// neg eax; mov edi, eax; mov eax, 60; syscall: end with the error number.
	exitErrno = "\xf7\xd8\x89\xc7\xb8\x3c\x00\x00\x00\x0f\x05"
)

// elf64 and elf32 are the smallest files that the kernel loads: one segment,
// the whole file, executable.
func elf64(t *testing.T, code string) string {
	var b bytes.Buffer
	b.WriteString("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 9))
	size := uint64(header64 + len(code))
	for _, v := range []any{
		uint16(2), uint16(62), uint32(1), uint64(base + header64), uint64(64), uint64(0), uint32(0),
		uint16(64), uint16(56), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(5), uint64(0), uint64(base), uint64(base), size, size, uint64(4096),
	} {
		binary.Write(&b, binary.LittleEndian, v)
	}
	return writeProgram(t, b.String()+code)
}

func elf32(t *testing.T, code string) string {
	var b bytes.Buffer
	b.WriteString("\x7fELF\x01\x01\x01" + strings.Repeat("\x00", 9))
	size := uint32(header32 + len(code))
	for _, v := range []any{
		uint16(2), uint16(3), uint32(1), uint32(base + header32), uint32(52), uint32(0), uint32(0),
		uint16(52), uint16(32), uint16(1), uint16(0), uint16(0), uint16(0),
		uint32(1), uint32(0), uint32(base), uint32(base), size, size, uint32(5), uint32(4096),
	} {
		binary.Write(&b, binary.LittleEndian, v)
	}
	return writeProgram(t, b.String()+code)
}

func writeProgram(t *testing.T, elf string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte(elf), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func imm(v uint32) string { return string(binary.LittleEndian.AppendUint32(nil, v)) }

// int80 is an i386 call: mov eax, nr; mov ebx, a; mov ecx, b; mov edx, 0; int $0x80.
func int80(nr, a, b uint32) string {
	return "\xb8" + imm(nr) + "\xbb" + imm(a) + "\xb9" + imm(b) + "\xba" + imm(0) + "\xcd\x80"
}

// TestForeignCalls makes i386 calls from a 64-bit program.
func TestForeignCalls(t *testing.T) {
	const nosys = int(unix.ENOSYS)
	pointer := uint32(base + header64 + len(int80(0, 0, 0)) + len(exitErrno))
	rows := []struct{ name, code string }{
		// socketcall(SYS_SOCKET, {AF_UNIX, SOCK_STREAM, 0})
		{"socketcall", int80(102, 1, pointer) + exitErrno + imm(unix.AF_UNIX) + imm(unix.SOCK_STREAM) + imm(0)},
		{"socket", int80(359, unix.AF_UNIX, unix.SOCK_STREAM) + exitErrno},
		{"unshare", int80(310, unix.CLONE_FS, 0) + exitErrno},
	}
	for _, r := range rows {
		path := elf64(t, r.code)
		bare, filtered := outcomeOf(t, "bare", path), outcomeOf(t, "filtered", path)
		t.Logf("%s: bare %v, filtered %v", r.name, bare, filtered)
		if bare.Status < 0 { // a kernel without i386 faults; then there is nothing to filter
			if filtered != bare {
				t.Errorf("%s: got %v, without filter %v", r.name, filtered, bare)
			}
			continue
		}
		if bare.Status == nosys {
			t.Errorf("%s: not there without a filter either: the attempt shows nothing", r.name)
		}
		if filtered.Status != nosys {
			t.Errorf("%s: got %v, want status %d", r.name, filtered, nosys)
		}
	}
	// mov eax, x32 bit | getpid; syscall. Most kernels have no x32 to begin with.
	path := elf64(t, "\xb8"+imm(1<<30|unix.SYS_GETPID)+"\x0f\x05"+exitErrno)
	t.Logf("x32 getpid: bare %v", outcomeOf(t, "bare", path))
	if got := outcomeOf(t, "filtered", path); got.Status != nosys {
		t.Errorf("x32 getpid: got %v, want status %d", got, nosys)
	}
}

// TestForeignPrograms holds that a 32-bit program ends instead of spinning in
// its C library's "for (;;) exit()".
func TestForeignPrograms(t *testing.T) {
	for name, nr := range map[string]uint32{"exit": 1, "exit_group": 252} {
		path := elf32(t, int80(nr, 7, 0)+"\xeb\xfe") // jmp to itself
		bare, filtered := outcomeOf(t, "bare", path), outcomeOf(t, "filtered", path)
		if bare.Status != 7 && bare.Status != 126 { // 126: the kernel loads none
			t.Errorf("%s: without filter %v", name, bare)
		}
		if filtered != bare {
			t.Errorf("%s: got %v, without filter %v", name, filtered, bare)
		}
	}
}

// childTrace runs a program that calls getpgrp, as its debugger turns that call
// into clone3: "entry" where the debugger stops at each call, "event" where an
// inner filter hands the call to the debugger.
func childTrace(args []string) (any, error) {
	if err := installAs(args[0]); err != nil {
		return nil, err
	}
	runtime.LockOSThread()
	options, goOn := 0, func(pid int) error { return syscall.PtraceSyscall(pid, 0) }
	if args[1] == "event" {
		if err := traceGetpgrp(); err != nil {
			return nil, err
		}
		options, goOn = unix.PTRACE_O_TRACESECCOMP, func(pid int) error { return syscall.PtraceCont(pid, 0) }
	}
	p, err := os.StartProcess(args[2], []string{"program"}, &os.ProcAttr{Sys: &syscall.SysProcAttr{Ptrace: true}})
	if err != nil {
		return nil, err
	}
	var ws syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &ws, 0, nil); err != nil || !ws.Stopped() {
		return nil, fmt.Errorf("not stopped at its start: %v %#x", err, ws)
	}
	if err := syscall.PtraceSetOptions(p.Pid, options|unix.PTRACE_O_EXITKILL); err != nil {
		return nil, err
	}
	if err := goOn(p.Pid); err != nil {
		return nil, err
	}
	if _, err := syscall.Wait4(p.Pid, &ws, 0, nil); err != nil || !ws.Stopped() {
		return nil, fmt.Errorf("not stopped at its call: %v %#x", err, ws)
	}
	var regs syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(p.Pid, &regs); err != nil || regs.Orig_rax != unix.SYS_GETPGRP {
		return nil, fmt.Errorf("stopped at call %d: %v", regs.Orig_rax, err)
	}
	regs.Orig_rax, regs.Rdi, regs.Rsi = unix.SYS_CLONE3, 0, 0
	if err := syscall.PtraceSetRegs(p.Pid, &regs); err != nil {
		return nil, err
	}
	if err := syscall.PtraceDetach(p.Pid); err != nil {
		return nil, err
	}
	state, err := p.Wait()
	if err != nil {
		return nil, err
	}
	return state.ExitCode(), nil
}

// traceGetpgrp puts a filter on this thread that hands getpgrp to the debugger.
func traceGetpgrp() error {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: callfilter.Number.Off},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_GETPGRP, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_TRACE},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	_, _, errno := syscall.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return errno
	}
	return nil
}

// TestDebuggerGainsNothing holds what ptrace is allowed on: the kernel filters
// a call again after a debugger has changed it (since Linux 4.8).
func TestDebuggerGainsNothing(t *testing.T) {
	path := elf64(t, "\xb8"+imm(unix.SYS_GETPGRP)+"\x0f\x05"+exitErrno)
	for _, stop := range []string{"entry", "event"} {
		for how, want := range map[string]syscall.Errno{"bare": unix.EINVAL, "filtered": unix.ENOSYS} {
			var got int
			if err := child(t, &got, nil, "trace", how, stop, path); err != nil {
				t.Fatal(err)
			}
			if got != int(want) {
				t.Errorf("%s, %s: got status %d, want %d", stop, how, got, want)
			}
		}
	}
}
