package fakes

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// Feigned is a system call that is answered and not made: by an error, as where the
// kernel hasn't got it, or without one, as if it had done what it hasn't.
type Feigned struct {
	Call  uint32
	Errno syscall.Errno // 0 is success, and the result 0
	Only  *Argument     // of the calls which are meant; nil means all
}

// Argument tells calls apart by the low half of one of their arguments.
type Argument struct {
	Number uint32 // counted from 0
	Value  uint32
	Other  bool // it has any value but this
}

// Feign has calls of this thread, and of all that it starts, answered as told. Nothing
// takes that back, so the goroutine has to be locked to the thread, which ends with it
// (OnThread).
func Feign(calls ...Feigned) error {
	var program []bpf.Instruction
	for _, c := range calls {
		answer := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(c.Errno)}
		program = append(program, bpf.LoadAbsolute{Off: 0, Size: 4}) // the call's number
		if c.Only == nil {
			program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.Call, SkipFalse: 1}, answer)
			continue
		}
		cond := bpf.JumpEqual
		if c.Only.Other {
			cond = bpf.JumpNotEqual
		}
		program = append(program, bpf.JumpIf{Cond: bpf.JumpEqual, Val: c.Call, SkipFalse: 3},
			bpf.LoadAbsolute{Off: 16 + 8*c.Only.Number, Size: 4},
			bpf.JumpIf{Cond: cond, Val: c.Only.Value, SkipFalse: 1}, answer)
	}
	raw, err := bpf.Assemble(append(program, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}))
	if err != nil {
		return err
	}
	filters := make([]unix.SockFilter, len(raw))
	for i, ins := range raw {
		filters[i] = unix.SockFilter{Code: ins.Op, Jt: ins.Jt, Jf: ins.Jf, K: ins.K}
	}
	// Root needs no no_new_privs for it, and what is tested may be that the gate sets it.
	if err = install(filters); errors.Is(err, unix.EACCES) {
		if err = unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err == nil {
			err = install(filters)
		}
	}
	if err != nil {
		return fmt.Errorf("feign system calls: %w", err)
	}
	return nil
}

// install puts a filter on the calling thread.
func install(filters []unix.SockFilter) error {
	program := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
