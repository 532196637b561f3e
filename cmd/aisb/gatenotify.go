package main

import (
	"fmt"
	"net"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// notifier tells the service manager how the gate is (sd_notify(3)). The zero
// value tells nobody. It is connected from the start: a gate that is locked up makes
// no unix sockets.
type notifier struct {
	conn net.Conn
	err  error // why it is not connected
}

// newNotifier takes NOTIFY_SOCKET out of the environment: nobody else is to
// speak for this process.
func newNotifier() notifier {
	addr := os.Getenv("NOTIFY_SOCKET")
	_ = os.Unsetenv("NOTIFY_SOCKET")
	if !strings.HasPrefix(addr, "/") && !strings.HasPrefix(addr, "@") {
		return notifier{} // vsock: is of machines, not of services
	}
	conn, err := net.Dial("unixgram", addr) //nolint:gosec // who starts the gate says who manages it; "@" is an abstract name, unix(7)
	return notifier{conn, err}
}

func (n notifier) send(lines ...string) error {
	err := n.err
	if err == nil && n.conn != nil {
		_, err = n.conn.Write([]byte(strings.Join(lines, "\n")))
	}
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// ready says that all is well.
func (n notifier) ready(status string) error { return n.send("READY=1", "STATUS="+status) }

// reloading says that a reload begins; systemd wants to know when, to tell it
// from one that was asked for later.
func (n notifier) reloading() error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return err
	}
	return n.send("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000))
}

// stopping says that the end has begun.
func (n notifier) stopping() error { return n.send("STOPPING=1", "STATUS=draining") }
