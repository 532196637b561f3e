package proc

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// serveEnclosed serves a listener of another network namespace. One of this
// namespace would be open to all who share the machine.
func (c *child) serveEnclosed(files []*os.File) error {
	if !c.enclosed || len(files) != 1 {
		return errors.New("a listener that was not to come")
	}
	own, err := ownNamespace(files[0])
	if err != nil {
		return err
	}
	if own {
		return errors.New("the listener is not of a sandbox's network namespace")
	}
	c.enclosed = false
	return c.serve(files[0])
}

// CanEnclose says why this kernel can't serve an enclosed listener, if it can't.
func CanEnclose() error {
	here, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(here)
	if _, err := unix.GetsockoptUint64(here, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE); err != nil {
		return fmt.Errorf("tell network namespaces apart (needs Linux 5.14): %w", err)
	}
	return nil
}

// ownNamespace reports whether a socket is of this process's network namespace,
// by the kernel's number for that (SO_NETNS_COOKIE, Linux 5.14).
func ownNamespace(socket *os.File) (bool, error) {
	here, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, fmt.Errorf("make a socket: %w", err)
	}
	defer unix.Close(here)
	raw, err := socket.SyscallConn()
	if err != nil {
		return false, err
	}
	ours, errOurs := unix.GetsockoptUint64(here, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	var theirs uint64
	var errTheirs error
	err = raw.Control(func(fd uintptr) {
		theirs, errTheirs = unix.GetsockoptUint64(int(fd), unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
	})
	if err := errors.Join(err, errOurs, errTheirs); err != nil {
		return false, fmt.Errorf("tell network namespaces apart (needs Linux 5.14): %w", err)
	}
	return ours == theirs, nil
}
