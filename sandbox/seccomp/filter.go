package seccomp

import (
	"slices"
	"syscall"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// abi is what the filter has to know of an architecture.
type abi struct {
	arch    uint32  // AUDIT_ARCH of the programs that may run
	foreign foreign // the 32-bit programs that the same kernel can run
	refused []group // calls that other architectures don't have
}

// foreign is the ABI of 32-bit programs.
type foreign struct {
	arch            uint32
	exit, exitGroup uint32
}

// Offsets in struct seccomp_data. Both architectures are little-endian, so the
// low half of an argument comes first.
const (
	offNr   = 0
	offArch = 4
	offArgs = 16
)

func low(arg uint32) bpf.Instruction  { return bpf.LoadAbsolute{Off: offArgs + 8*arg, Size: 4} }
func high(arg uint32) bpf.Instruction { return bpf.LoadAbsolute{Off: offArgs + 8*arg + 4, Size: 4} }

var allow = bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}

func refuse(errno syscall.Errno) bpf.Instruction {
	return bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(errno)}
}

// when runs the block if the value just loaded is v. A block ends in a return,
// so what follows it is reached with that value still loaded.
func when(v uint32, block ...bpf.Instruction) []bpf.Instruction {
	return append([]bpf.Instruction{bpf.JumpIf{Cond: bpf.JumpEqual, Val: v, SkipFalse: uint8(len(block))}}, block...)
}

// filter is the whole program. The plain part looks at nothing but ABI and
// number, so that the kernel can work out once which numbers always pass and
// skip the filter for them (since Linux 5.11).
func (a abi) filter(o Options) []bpf.Instruction {
	p := []bpf.Instruction{bpf.LoadAbsolute{Off: offArch, Size: 4}}
	p = append(p, when(a.foreign.arch, a.foreign.filter()...)...)
	p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.arch, SkipTrue: 1}, refuse(unix.ENOSYS))
	p = append(p, bpf.LoadAbsolute{Off: offNr, Size: 4})
	// Calls newer than this filter answer as an older kernel would, and
	// programs fall back. This is also all of x32 on amd64, whose numbers have
	// bit 30 set, and 512 to 547, which reach x32 code without that bit on
	// kernels before 5.4.
	p = append(p, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest, SkipFalse: 1}, refuse(unix.ENOSYS))
	for _, g := range slices.Concat(groups, a.refused) {
		if g.nesting && o.AllowUserNS {
			continue
		}
		for _, call := range g.calls {
			p = append(p, when(call, refuse(g.errno))...)
		}
	}
	if !o.AllowUserNS {
		p = append(p, when(unix.SYS_CLONE, clone()...)...)
		p = append(p, when(unix.SYS_UNSHARE, unshare()...)...)
	}
	p = append(p, when(unix.SYS_PRLIMIT64, prlimit()...)...)
	p = append(p, when(unix.SYS_SOCKET, socket()...)...)
	p = append(p, when(unix.SYS_SOCKETPAIR, socket()...)...)
	return append(p, allow)
}

// filter lets a 32-bit program do nothing but end: one that can't would spin,
// because C libraries call exit in an endless loop.
func (f foreign) filter() []bpf.Instruction {
	p := []bpf.Instruction{bpf.LoadAbsolute{Off: offNr, Size: 4}}
	p = append(p, when(f.exit, allow)...)
	p = append(p, when(f.exitGroup, allow)...)
	return append(p, refuse(unix.ENOSYS))
}

// clone refuses new namespaces. The kernel reads no more than the low half of
// the flags (kernel/fork.c, lower_32_bits). CLONE_NEWTIME is not among them:
// its bit is part of the exit signal here.
func clone() []bpf.Instruction {
	const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWPID |
		unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
	return []bpf.Instruction{
		low(0), // flags come first on both architectures, unlike on s390x
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: namespaces, SkipFalse: 1},
		refuse(unix.EPERM),
		allow,
	}
}

// unshare allows what separates a thread from its process and refuses the
// rest: all namespaces, those to come too.
func unshare() []bpf.Instruction {
	const harmless = unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM |
		unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_VM
	const others = ^uint32(harmless)
	return []bpf.Instruction{
		low(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: others, SkipTrue: 2},
		high(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		refuse(unix.EPERM),
		allow,
	}
}

// prlimit lets a process set its own limits and see those of others. The kernel asks
// for the same user and for nothing else (check_prlimit_permission in kernel/sys.c), and
// pid 1 is the command's user: without processor time it is killed, without descriptors
// it starts no command any more. A filter can't tell pid 1's threads from other processes.
func prlimit() []bpf.Instruction {
	return []bpf.Instruction{
		low(0), // a pid is an int; 0 is the caller
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 5},
		low(2), // the new limits' address
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 2},
		high(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		refuse(unix.EPERM),
		allow,
	}
}

// socket lets the fence's own families through, local sockets, and the netlink
// protocol that resolvers and tools list interfaces with. All three arguments
// are ints, of which the kernel reads the low half.
func socket() []bpf.Instruction {
	const typeMask = 0xf // include/linux/net.h, SOCK_TYPE_MASK: the rest is flags
	internet := []bpf.Instruction{low(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: typeMask}}
	internet = append(internet, when(unix.SOCK_STREAM, allow)...)
	internet = append(internet, when(unix.SOCK_DGRAM, allow)...)
	// Raw sockets want a capability that is gone. SOCK_PACKET under AF_INET
	// is AF_PACKET in disguise (net/socket.c), whose frames pass no ruleset.
	internet = append(internet, refuse(unix.EPERM))

	netlink := []bpf.Instruction{low(2)}
	netlink = append(netlink, when(unix.NETLINK_ROUTE, allow)...)
	netlink = append(netlink, refuse(unix.EPROTONOSUPPORT)) // as if the kernel had none

	p := []bpf.Instruction{low(0)}
	p = append(p, when(unix.AF_UNIX, allow)...)
	p = append(p, when(unix.AF_INET, internet...)...)
	p = append(p, when(unix.AF_INET6, internet...)...)
	p = append(p, when(unix.AF_NETLINK, netlink...)...)
	return append(p, refuse(unix.EAFNOSUPPORT))
}
