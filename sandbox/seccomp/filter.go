package seccomp

import (
	"slices"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/callfilter"
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

// filter is the whole program. The plain part looks at nothing but ABI and
// number, so that the kernel can work out once which numbers always pass and
// skip the filter for them (since Linux 5.11).
func (a abi) filter(o Options) []bpf.Instruction {
	p := []bpf.Instruction{callfilter.Arch}
	p = append(p, callfilter.When(a.foreign.arch, a.foreign.filter()...)...)
	p = append(p, bpf.JumpIf{Cond: bpf.JumpEqual, Val: a.arch, SkipTrue: 1}, callfilter.Refuse(unix.ENOSYS))
	p = append(p, callfilter.Number)
	// Calls newer than this filter answer as an older kernel would, and
	// programs fall back. This is also all of x32 on amd64, whose numbers have
	// bit 30 set, and 512 to 547, which reach x32 code without that bit on
	// kernels before 5.4.
	p = append(p, bpf.JumpIf{Cond: bpf.JumpGreaterThan, Val: newest, SkipFalse: 1}, callfilter.Refuse(unix.ENOSYS))
	for _, g := range slices.Concat(groups, a.refused) {
		if g.nesting && o.AllowUserNS {
			continue
		}
		for _, number := range g.calls {
			p = append(p, callfilter.When(number, callfilter.Refuse(g.errno))...)
		}
	}
	if !o.AllowUserNS {
		p = append(p, callfilter.When(unix.SYS_CLONE, clone()...)...)
		p = append(p, callfilter.When(unix.SYS_UNSHARE, unshare()...)...)
	}
	p = append(p, callfilter.When(unix.SYS_PRLIMIT64, prlimit()...)...)
	p = append(p, callfilter.When(unix.SYS_SETPRIORITY, priority(unix.PRIO_USER)...)...)
	p = append(p, callfilter.When(unix.SYS_IOPRIO_SET, priority(ioprioUser)...)...)
	p = append(p, callfilter.When(unix.SYS_SCHED_SETSCHEDULER, scheduler()...)...)
	p = append(p, callfilter.When(unix.SYS_SCHED_SETATTR, own()...)...)
	p = append(p, callfilter.When(unix.SYS_SOCKET, socket()...)...)
	p = append(p, callfilter.When(unix.SYS_SOCKETPAIR, socket()...)...)
	return append(p, callfilter.Allow)
}

// filter lets a 32-bit program do nothing but end: one that can't would spin,
// because C libraries call exit in an endless loop.
func (f foreign) filter() []bpf.Instruction {
	p := []bpf.Instruction{callfilter.Number}
	p = append(p, callfilter.When(f.exit, callfilter.Allow)...)
	p = append(p, callfilter.When(f.exitGroup, callfilter.Allow)...)
	return append(p, callfilter.Refuse(unix.ENOSYS))
}

// clone refuses new namespaces. The kernel reads no more than the low half of
// the flags (kernel/fork.c, lower_32_bits).
func clone() []bpf.Instruction {
	return []bpf.Instruction{
		callfilter.Low(0), // flags come first on both architectures, unlike on s390x
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: callfilter.Namespaces, SkipFalse: 1},
		callfilter.Refuse(unix.EPERM),
		callfilter.Allow,
	}
}

// unshare allows what separates a thread from its process and refuses the
// rest: all namespaces, those to come too.
func unshare() []bpf.Instruction {
	const harmless = unix.CLONE_FILES | unix.CLONE_FS | unix.CLONE_SYSVSEM |
		unix.CLONE_THREAD | unix.CLONE_SIGHAND | unix.CLONE_VM
	const others = ^uint32(harmless)
	return []bpf.Instruction{
		callfilter.Low(0),
		bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: others, SkipTrue: 2},
		callfilter.High(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		callfilter.Refuse(unix.EPERM),
		callfilter.Allow,
	}
}

// prlimit lets a process set its own limits and see those of others. The kernel asks
// for the same user and for nothing else (check_prlimit_permission in kernel/sys.c), and
// pid 1 is the command's user: without processor time it is killed, without descriptors
// it starts no command any more. A filter can't tell pid 1's threads from other processes.
func prlimit() []bpf.Instruction {
	return []bpf.Instruction{
		callfilter.Low(0), // a pid is an int; 0 is the caller
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 5},
		callfilter.Low(2), // the new limits' address
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipFalse: 2},
		callfilter.High(2),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		callfilter.Refuse(unix.EPERM),
		callfilter.Allow,
	}
}

// own lets a thread call for itself, by 0 as its first argument, an int.
func own() []bpf.Instruction {
	return []bpf.Instruction{
		callfilter.Low(0),
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: 0, SkipTrue: 1},
		callfilter.Refuse(unix.EPERM),
		callfilter.Allow,
	}
}

// ioprioUser is IOPRIO_WHO_USER (include/uapi/linux/ioprio.h).
const ioprioUser = 3

// priority lets a thread set its own priority or that of its group, by 0 as the second
// argument, and not that of all that is its user's. As with limits the kernel asks for
// nothing but the same user, and a pid 1 that comes last among a thousand that compute
// takes minutes to see the end of its lifeline, or to end when it is killed.
func priority(user uint32) []bpf.Instruction {
	p := append([]bpf.Instruction{callfilter.Low(0)}, callfilter.When(user, callfilter.Refuse(unix.EPERM))...)
	p = append(p, callfilter.Low(1))
	return append(append(p, callfilter.When(0, callfilter.Allow)...), callfilter.Refuse(unix.EPERM))
}

// scheduler lets a thread choose its own, and for others but what they have, or what the
// kernel wants a right for: C libraries ask for the calling thread by its number.
func scheduler() []bpf.Instruction {
	p := append([]bpf.Instruction{callfilter.Low(0)}, callfilter.When(0, callfilter.Allow)...)
	p = append(p, callfilter.Low(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ^uint32(unix.SCHED_RESET_ON_FORK)})
	for _, policy := range []uint32{unix.SCHED_NORMAL, unix.SCHED_FIFO, unix.SCHED_RR} {
		p = append(p, callfilter.When(policy, callfilter.Allow)...)
	}
	return append(p, callfilter.Refuse(unix.EPERM))
}

// socket lets the fence's own families through, local sockets, and the netlink
// protocol that resolvers and tools list interfaces with. All three arguments
// are ints, of which the kernel reads the low half.
func socket() []bpf.Instruction {
	internet := []bpf.Instruction{callfilter.Low(1), bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: callfilter.TypeMask}}
	internet = append(internet, callfilter.When(unix.SOCK_STREAM, callfilter.Allow)...)
	internet = append(internet, callfilter.When(unix.SOCK_DGRAM, callfilter.Allow)...)
	// Raw sockets want a capability that is gone. SOCK_PACKET under AF_INET
	// is AF_PACKET in disguise (net/socket.c), whose frames pass no ruleset.
	internet = append(internet, callfilter.Refuse(unix.EPERM))

	netlink := []bpf.Instruction{callfilter.Low(2)}
	netlink = append(netlink, callfilter.When(unix.NETLINK_ROUTE, callfilter.Allow)...)
	netlink = append(netlink, callfilter.Refuse(unix.EPROTONOSUPPORT)) // as if the kernel had none

	p := []bpf.Instruction{callfilter.Low(0)}
	p = append(p, callfilter.When(unix.AF_UNIX, callfilter.Allow)...)
	p = append(p, callfilter.When(unix.AF_INET, internet...)...)
	p = append(p, callfilter.When(unix.AF_INET6, internet...)...)
	p = append(p, callfilter.When(unix.AF_NETLINK, netlink...)...)
	return append(p, callfilter.Refuse(unix.EAFNOSUPPORT))
}
