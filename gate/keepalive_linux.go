package gate

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A peer that has gone is found after two and a half minutes, one that is only
// silent is left alone.
const (
	keepIdle  = 15 * time.Second
	keepEvery = 15 * time.Second
	keepCount = 9
)

// keepAlive asks the kernel to look after a connection.
func keepAlive(c stream) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepIdle, Interval: keepEvery, Count: keepCount})
	}
}

// inheritKeepAlive sets it for a listener: accepted sockets are copies of it
// (tcp_create_openreq_child), so it costs nothing a connection. A listener of
// net.Listen sets it again for each, with four system calls.
func inheritKeepAlive(ln net.Listener) {
	c, ok := ln.(syscall.Conn)
	if !ok {
		return
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) {
		// A unix socket takes the first and refuses the others.
		_ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1)
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, int(keepIdle.Seconds()))
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPINTVL, int(keepEvery.Seconds()))
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_KEEPCNT, keepCount)
	})
}

// ListenConfig is how a listener for Serve is made at best: Serve sets keep-alive
// itself, and no client speaks multipath TCP, whose listeners are dearer.
func ListenConfig() *net.ListenConfig {
	lc := &net.ListenConfig{KeepAlive: -1}
	lc.SetMultipathTCP(false)
	return lc
}
