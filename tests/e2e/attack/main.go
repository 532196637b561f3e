//go:build linux

// Command attack tries from inside a sandbox what an agent must not be able to
// do, by system calls, and prints what came of each as a line of JSON:
//
//	{"name":"vsock","error":"operation not permitted"}
//
// Each is tried in a process of its own, since a filter may answer by a signal.
// Without an error it succeeded. Names that start with "may-" must succeed: they
// show that the others don't fail for a reason of their own.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

type result struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

type attempt struct {
	name string
	try  func() error
}

// inSandbox keeps what is tried here away from any other machine.
func inSandbox() bool {
	comm, err := os.ReadFile("/proc/1/comm")
	return err == nil && string(comm) == "aisb-entry\n" && os.Getuid() != 0
}

func main() {
	if !inSandbox() {
		fmt.Fprintln(os.Stderr, "attack: error: this runs in a sandbox of aisb alone")
		os.Exit(2)
	}
	if len(os.Args) == 2 {
		for _, a := range attempts() {
			if a.name == os.Args[1] {
				if err := a.try(); err != nil {
					fmt.Println(err)
					os.Exit(1)
				}
				return
			}
		}
		fmt.Fprintln(os.Stderr, "attack: error: no such attempt")
		os.Exit(2)
	}
	for _, a := range attempts() {
		out, err := exec.Command("/proc/self/exe", a.name).CombinedOutput()
		r := result{Name: a.name}
		if err != nil {
			r.Error = strings.TrimSpace(string(out) + " " + err.Error())
		}
		if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
			os.Exit(1)
		}
	}
}

func attempts() []attempt {
	list := []attempt{
		{"may-tcp", socket(unix.AF_INET, unix.SOCK_STREAM, 0)},
		{"may-tcp6", socket(unix.AF_INET6, unix.SOCK_STREAM, 0)},
		{"may-unix", socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)},
		{"may-route-netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)},
		// pid 1 must not take it for a fault of its own.
		{"may-queue-fault", queueFault},
		{"may-thread", func() error { return call(unix.SYS_GETTID) }},

		{"vsock", socket(unix.AF_VSOCK, unix.SOCK_STREAM, 0)},
		{"packet", socket(unix.AF_PACKET, unix.SOCK_RAW, 0x0300)},
		{"packet-cooked", socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0x0300)},
		{"raw-ip", socket(unix.AF_INET, unix.SOCK_RAW, unix.IPPROTO_ICMP)},
		{"raw-ip6", socket(unix.AF_INET6, unix.SOCK_RAW, unix.IPPROTO_ICMPV6)},
		{"netfilter-netlink", socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_NETFILTER)},
		{"alg", socket(unix.AF_ALG, unix.SOCK_SEQPACKET, 0)},
		{"xdp", socket(unix.AF_XDP, unix.SOCK_RAW, 0)},
		{"tipc", socket(unix.AF_TIPC, unix.SOCK_STREAM, 0)},
		{"socketpair-vsock", func() error {
			var fds [2]int32
			return call(unix.SYS_SOCKETPAIR, unix.AF_VSOCK, unix.SOCK_STREAM, 0, uintptr(unsafe.Pointer(&fds)))
		}},
		{"keyctl", func() error { return call(unix.SYS_KEYCTL, 0 /* GET_KEYRING_ID */, negative(3), 1) }},
		{"add-key", addKey},
		{"request-key", requestKey},
		{"io-uring", func() error {
			var params [120]byte
			return call(unix.SYS_IO_URING_SETUP, 4, uintptr(unsafe.Pointer(&params)))
		}},
		{"bpf", bpf},
		{"userfaultfd", func() error { return call(unix.SYS_USERFAULTFD, 1 /* user mode only */) }},
		{"perf", func() error {
			attr := unix.PerfEventAttr{Type: unix.PERF_TYPE_SOFTWARE, Size: unix.PERF_ATTR_SIZE_VER0, Bits: unix.PerfBitExcludeKernel}
			return call(unix.SYS_PERF_EVENT_OPEN, uintptr(unsafe.Pointer(&attr)), 0, negative(1), negative(1), 0)
		}},
		{"unshare-user", func() error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWUSER) }},
		{"unshare-net", func() error { return call(unix.SYS_UNSHARE, unix.CLONE_NEWNET) }},
		{"clone-user", func() error { return fork(unix.SYS_CLONE, unix.CLONE_NEWUSER|uintptr(unix.SIGCHLD)) }},
		{"clone3-user", clone3},
		{"setuid-0", func() error { return call(unix.SYS_SETUID, 0) }},
		{"gain-net-admin", gain},
		{"mount", func() error { return unix.Mount("none", "/mnt", "tmpfs", 0, "") }},
		{"pid1-memory", open("/proc/1/mem")},
		{"pid1-environ", open("/proc/1/environ")},
		{"pid1-descriptors", func() error { _, err := os.ReadDir("/proc/1/fd"); return err }},
		{"pid1-namespace", func() error { _, err := os.Readlink("/proc/1/ns/net"); return err }},
		{"pid1-trace", func() error { return unix.PtraceAttach(1) }},
		{"host-sysctl", func() error { return os.WriteFile("/proc/sys/kernel/hostname", []byte("x"), 0) }},
	}
	return append(list, foreign()...)
}

// negative is a small negative argument of a system call.
func negative(n int) uintptr { return ^uintptr(n - 1) }

func call(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	if _, _, errno := unix.Syscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func socket(domain, kind, proto uintptr) func() error {
	return func() error { return call(unix.SYS_SOCKET, domain, kind, proto) }
}

func open(path string) func() error {
	return func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(make([]byte, 1))
		return err
	}
}

// fork is a clone whose child, if there is one, ends at once.
func fork(nr uintptr, args ...uintptr) error {
	var a [6]uintptr
	copy(a[:], args)
	pid, _, errno := unix.RawSyscall6(nr, a[0], a[1], a[2], a[3], a[4], a[5])
	if errno != 0 {
		return errno
	}
	if pid == 0 {
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0)
	}
	return nil
}

func clone3() error {
	args := struct {
		flags, pidfd, childTID, parentTID, exitSignal, stack, stackSize, tls uint64
	}{flags: unix.CLONE_NEWUSER, exitSignal: uint64(unix.SIGCHLD)}
	return fork(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args))
}

func addKey() error {
	kind, name, payload := []byte("user\x00"), []byte("aisb\x00"), []byte("x")
	return call(unix.SYS_ADD_KEY, uintptr(unsafe.Pointer(&kind[0])), uintptr(unsafe.Pointer(&name[0])),
		uintptr(unsafe.Pointer(&payload[0])), 1, negative(2))
}

func requestKey() error {
	kind, name := []byte("user\x00"), []byte("aisb\x00")
	return call(unix.SYS_REQUEST_KEY, uintptr(unsafe.Pointer(&kind[0])), uintptr(unsafe.Pointer(&name[0])), 0, 0)
}

func bpf() error {
	// BPF_MAP_CREATE of an array, which needs no more than this.
	attr := struct{ kind, key, value, entries, flags uint32 }{2, 4, 4, 1, 0}
	return call(unix.SYS_BPF, 0, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
}

// queueFault sends pid 1 what looks like a fault, to all of its threads' process.
func queueFault() error {
	for _, sig := range []unix.Signal{unix.SIGSEGV, unix.SIGBUS, unix.SIGFPE, unix.SIGILL, unix.SIGTRAP, unix.SIGSYS} {
		info := [32]int32{int32(sig), 0, -1 /* SI_QUEUE */} // siginfo_t
		if err := call(unix.SYS_RT_SIGQUEUEINFO, 1, uintptr(sig), uintptr(unsafe.Pointer(&info))); err != nil {
			return err
		}
	}
	return nil
}

// gain asks for CAP_NET_ADMIN.
func gain() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	data[0].Effective, data[0].Permitted = 1<<unix.CAP_NET_ADMIN, 1<<unix.CAP_NET_ADMIN
	err := unix.Capset(&header, &data[0])
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("malformed call: %w", err)
	}
	return err
}
