package control

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// peer returns the process at the other end of a connection, if it is one of the
// same user on the same side: not in a sandbox, whose user namespace is another
// although its user is the same. A server's peer is who has connected, a client's
// who has begun to listen (SO_PEERCRED, unix(7)).
func peer(c *net.UnixConn) (pid int, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return 0, err
	}
	var cred *unix.Ucred
	var sockErr error
	err = raw.Control(func(fd uintptr) {
		cred, sockErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err := errors.Join(err, sockErr); err != nil {
		return 0, fmt.Errorf("ask who is at the other end: %w", err)
	}
	if int(cred.Uid) != os.Geteuid() {
		return 0, fmt.Errorf("uid %d is at the other end", cred.Uid)
	}
	ours, err := os.Readlink("/proc/self/ns/user")
	if err != nil {
		return 0, fmt.Errorf("tell user namespaces apart: %w", err)
	}
	// The pid may be another's by now, if that process has ended: it would have to
	// be one of this user on this side, which could have come itself.
	theirs, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/user", cred.Pid))
	if err != nil {
		return 0, fmt.Errorf("tell user namespaces apart: %w", err)
	}
	if ours != theirs {
		return 0, fmt.Errorf("process %d is in another user namespace", cred.Pid)
	}
	return int(cred.Pid), nil
}

// stopped reports whether a process stands still by a signal (proc_pid_stat(5)). Its name,
// which may hold anything, ends with the last parenthesis.
func stopped(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := bytes.Cut(text[bytes.LastIndexByte(text, ')')+1:], []byte(" "))
	return bytes.HasPrefix(after, []byte("T"))
}
