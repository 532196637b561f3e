//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"
)

// claimUpload measures. Each time the receiver's socket is full pasta drops, and
// the sender waits for a retransmission; a send buffer that never fills the
// receiver's avoids that.
func claimUpload(t *trial) error {
	for _, sysctl := range []string{"", "net.ipv4.tcp_wmem=4096 16384 131072"} {
		p := plan{}
		if sysctl != "" {
			p.extra = []string{"--sysctl", sysctl}
		}
		b, err := t.start(p)
		if err != nil {
			return err
		}
		ln, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return err
		}
		sunk := make(chan string, 1)
		go func() { sunk <- sink(ln) }()
		_, _, err = b.ask(question{Op: opUpload,
			Addr: net.JoinHostPort(loopback, strconv.Itoa(ln.Addr().(*net.TCPAddr).Port))})
		if err != nil {
			t.saw("the sender gave up: %v", err)
		}
		select {
		case seen := <-sunk:
			t.saw("%s", seen)
		case <-time.After(40 * time.Second):
			return errors.Join(errors.New("the receiver never ended"), ln.Close())
		}
	}
	return nil
}

// sink receives one connection, a little slower than a container sends.
func sink(ln net.Listener) string {
	defer ln.Close()
	c, err := ln.Accept()
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	buf := make([]byte, 64<<10)
	total, pause := 0, time.Duration(0)
	start := time.Now()
	last := start
	for {
		n, err := c.Read(buf)
		total += n
		pause = max(pause, time.Since(last))
		if err != nil {
			break
		}
		time.Sleep(100 * time.Microsecond) // this makes it slower
		last = time.Now()
	}
	took := time.Since(start)
	return fmt.Sprintf("%d of %d MiB, %.0f MiB/s, longest pause %d ms",
		total>>20, uploadSize>>20, float64(total>>20)/took.Seconds(), pause.Milliseconds())
}
