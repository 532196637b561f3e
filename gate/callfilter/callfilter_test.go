package callfilter

import (
	"encoding/binary"
	"syscall"
	"testing"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A filter judges by the number, the caller's ABI, and both halves of an argument, and
// goes on behind a block that it has jumped over.
func TestFilter(t *testing.T) {
	filter := []bpf.Instruction{Arch}
	filter = append(filter, When(1, Refuse(unix.EPERM))...)
	filter = append(filter, When(2, append([]bpf.Instruction{Low(1)}, append(When(7, Allow), Refuse(unix.EINVAL))...)...)...)
	filter = append(filter, When(3, append([]bpf.Instruction{High(5)}, append(When(7, Allow), Refuse(unix.EINVAL))...)...)...)
	filter = append(filter, Number)
	filter = append(filter, When(39, Allow)...)
	filter = append(filter, Refuse(unix.ENOSYS))
	vm, err := bpf.NewVM(filter)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(errno syscall.Errno) int { return unix.SECCOMP_RET_ERRNO | int(errno) }
	for _, c := range []struct {
		name     string
		number   uint32
		arch     uint32
		arg1     uint64
		arg5     uint64
		answered int
	}{
		{"by the ABI", 39, 1, 7, 7 << 32, refused(unix.EPERM)},
		{"by a low half", 39, 2, 7, 0, unix.SECCOMP_RET_ALLOW},
		{"by a low half alone", 39, 2, 7<<32 | 7, 0, unix.SECCOMP_RET_ALLOW},
		{"not by the other half", 39, 2, 7 << 32, 0, refused(unix.EINVAL)},
		{"by a high half", 39, 3, 0, 7 << 32, unix.SECCOMP_RET_ALLOW},
		{"not by the low one", 39, 3, 0, 7, refused(unix.EINVAL)},
		{"by the number", 39, 4, 0, 0, unix.SECCOMP_RET_ALLOW},
		{"by another", 40, 4, 0, 0, refused(unix.ENOSYS)},
	} {
		// struct seccomp_data as the kernel has it on a little-endian machine; the
		// interpreter reads big-endian words.
		data := make([]byte, 64)
		for i, word := range []uint32{c.number, c.arch, 0, 0, 0, 0, uint32(c.arg1), uint32(c.arg1 >> 32), 0, 0, 0, 0, 0, 0, uint32(c.arg5), uint32(c.arg5 >> 32)} {
			binary.BigEndian.PutUint32(data[4*i:], word)
		}
		if got, err := vm.Run(data); err != nil || got != c.answered {
			t.Errorf("%s: got %#x, %v, want %#x", c.name, got, err, c.answered)
		}
	}
}

// The kernel's form has every instruction, and jumps as far as was said.
func TestAssemble(t *testing.T) {
	got, err := Assemble(append([]bpf.Instruction{Number}, append(When(39, Allow), Refuse(unix.EPERM))...))
	if err != nil {
		t.Fatal(err)
	}
	want := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: 39, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	if len(got) != len(want) {
		t.Fatalf("got %d instructions, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("%d: got %+v, want %+v", i, got[i], want[i])
		}
	}
}
