//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
)

// entryName is argv[0] of this binary as the first process in a container: an
// agent that does what it is asked for over descriptor 3.
const entryName = "spike-entry"

// What the agent can do.
const (
	opRun     = "run"     // Argv: its output and status
	opPipes   = "pipes"   // starts Argv, sends the ends of its stdin and stdout
	opPTY     = "pty"     // starts Argv on a terminal made here, sends the master
	opListen  = "listen"  // listens on Addr, sends the listener
	opNetlink = "netlink" // opens a nfnetlink socket, sends it
	opDial    = "dial"    // connects by TCP or UDP (Net) to Addr, says how that ended
	opUpload  = "upload"  // sends uploadSize bytes to Addr over TCP
	opTry     = "try"     // tries system calls that a harness has no need of
	opDrop    = "drop"    // gives up every capability on every thread, becomes 1000
)

// question is what the agent is asked.
type question struct {
	Op        string
	Argv      []string `json:",omitempty"`
	Net, Addr string   `json:",omitempty"`
}

// answer is what it says.
type answer struct {
	Out    string        `json:",omitempty"`
	Status int           `json:",omitempty"`
	Errno  syscall.Errno `json:",omitempty"` // of a dial
	Micros int64         `json:",omitempty"` // of a dial
	Err    string        `json:",omitempty"`
}

// endStatus tells the agent's own end from others.
const endStatus = 7

func entryMain() int {
	conn, err := fdmsg.FromFile(os.NewFile(3, "aisb"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "spike-entry: error:", err)
		return 1
	}
	if err := conn.Send(answer{Out: "hello"}); err != nil {
		return 1
	}
	for {
		var q question
		if _, err := conn.Recv(&q); err != nil {
			return endStatus // the lifeline: whoever held the other end is gone
		}
		a, files, err := q.do()
		if err != nil {
			a.Err = err.Error()
		}
		err = conn.Send(a, files...)
		for _, f := range files {
			f.Close()
		}
		if err != nil {
			return endStatus
		}
	}
}

func (q question) do() (answer, []*os.File, error) {
	switch q.Op {
	case opRun:
		return q.run()
	case opPipes:
		return q.pipes()
	case opPTY:
		return q.pty()
	case opListen:
		return q.listen()
	case opNetlink:
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return answer{}, []*os.File{os.NewFile(uintptr(fd), "nfnetlink")}, err
	case opDial:
		return q.dial(), nil, nil
	case opUpload:
		return answer{}, nil, upload(q.Addr)
	case opTry:
		return answer{Out: trySyscalls()}, nil, nil
	case opDrop:
		return answer{}, nil, drop()
	}
	return answer{}, nil, fmt.Errorf("unknown operation %q", q.Op)
}

func (q question) run() (answer, []*os.File, error) {
	cmd := exec.Command(q.Argv[0], q.Argv[1:]...)
	cmd.Env = append(os.Environ(), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
	out, err := cmd.CombinedOutput()
	a := answer{Out: strings.TrimSpace(string(out))}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		a.Status, err = exit.ExitCode(), nil
	}
	return a, nil, err
}

func (q question) pipes() (answer, []*os.File, error) {
	inR, inW, err := os.Pipe()
	if err != nil {
		return answer{}, nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return answer{}, nil, err
	}
	defer inR.Close()
	defer outW.Close()
	_, err = os.StartProcess(q.Argv[0], q.Argv, &os.ProcAttr{Files: []*os.File{inR, outW, outW}})
	return answer{}, []*os.File{inW, outR}, err
}

func (q question) pty() (answer, []*os.File, error) {
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return answer{}, nil, err
	}
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		return answer{}, nil, err
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return answer{}, nil, err
	}
	defer slave.Close()
	_, err = os.StartProcess(q.Argv[0], q.Argv, &os.ProcAttr{
		Files: []*os.File{slave, slave, slave},
		Sys:   &syscall.SysProcAttr{Setsid: true, Setctty: true},
	})
	return answer{}, []*os.File{master}, err
}

func (q question) listen() (answer, []*os.File, error) {
	ln, err := net.Listen("tcp", q.Addr)
	if err != nil {
		return answer{}, nil, err
	}
	defer ln.Close()
	f, err := ln.(*net.TCPListener).File()
	return answer{Out: ln.Addr().String()}, []*os.File{f}, err
}

// dial tries one connection. A connected UDP socket reports what came back for
// its datagram (udp(7)); five seconds without anything are ETIMEDOUT.
func (q question) dial() answer {
	const patience = 5 * time.Second
	start := time.Now()
	c, err := net.DialTimeout(q.Net, q.Addr, patience)
	if err == nil && strings.HasPrefix(q.Net, "udp") {
		_ = c.SetDeadline(start.Add(patience))
		if _, err = c.Write([]byte("spike")); err == nil {
			_, err = c.Read(make([]byte, 512))
		}
	}
	a := answer{Micros: time.Since(start).Microseconds()}
	if c != nil {
		c.Close()
	}
	var errno syscall.Errno
	var timeout net.Error
	switch {
	case errors.As(err, &errno):
		a.Errno = errno
	case errors.As(err, &timeout) && timeout.Timeout():
		a.Errno = unix.ETIMEDOUT
	case err != nil:
		a.Err = err.Error()
	}
	return a
}

// uploadSize is what upload sends.
const uploadSize = 64 << 20

func upload(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	_ = c.SetDeadline(time.Now().Add(25 * time.Second))
	_, err = c.Write(make([]byte, uploadSize))
	return errors.Join(err, c.Close())
}

// trySyscalls tells which system calls succeed here.
func trySyscalls() string {
	var out strings.Builder
	for _, try := range []struct {
		name string
		call func() error
	}{
		{"vsock socket", func() error {
			fd, err := unix.Socket(unix.AF_VSOCK, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
			return errors.Join(err, closeFD(fd))
		}},
		{"netfilter netlink socket", func() error {
			fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
			return errors.Join(err, closeFD(fd))
		}},
		{"keyctl", func() error {
			_, err := unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
			return err
		}},
		{"io_uring_setup", func() error {
			var params [120]byte // struct io_uring_params
			fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 1, uintptr(unsafe.Pointer(&params)), 0)
			if errno != 0 {
				return errno
			}
			return closeFD(int(fd))
		}},
		{"unshare user namespace", func() error {
			cmd := exec.Command("/bin/true")
			cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWUSER}
			return cmd.Run()
		}},
	} {
		if err := try.call(); err != nil {
			fmt.Fprintf(&out, "%s: %v\n", try.name, err)
		} else {
			fmt.Fprintf(&out, "%s: open\n", try.name)
		}
	}
	return out.String()
}

func closeFD(fd int) error {
	if fd < 0 {
		return nil
	}
	return unix.Close(fd)
}

// drop empties the five capability sets on all threads and becomes 1000. It is
// the experiment's own, not the product's.
func drop() error {
	all := func(trap uintptr, args ...uintptr) error {
		args = append(args, 0, 0, 0, 0, 0)
		_, _, errno := syscall.AllThreadsSyscall6(trap, args[0], args[1], args[2], args[3], args[4], 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	for c := uintptr(0); c <= unix.CAP_LAST_CAP; c++ {
		if err := all(unix.SYS_PRCTL, unix.PR_CAPBSET_DROP, c); err != nil && !errors.Is(err, unix.EINVAL) {
			return fmt.Errorf("drop %d from the bounding set: %w", c, err)
		}
	}
	if err := all(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL); err != nil {
		return fmt.Errorf("clear ambient set: %w", err)
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setresgid(1000, 1000, 1000), syscall.Setresuid(1000, 1000, 1000)); err != nil {
		return fmt.Errorf("become 1000: %w", err)
	}
	// Leaving uid 0 emptied all but the inheritable set (capabilities(7)).
	head := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET,
		uintptr(unsafe.Pointer(&head)), uintptr(unsafe.Pointer(&none[0])), 0)
	if errno != 0 {
		return fmt.Errorf("capset: %w", errno)
	}
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}
