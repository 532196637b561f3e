//go:build e2e

package e2e

import (
	bin "encoding/binary"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// capture sees all that passes the host's only link to the internet, as
// tcpdump(8) does there.
type capture struct {
	fd   int
	done chan struct{}

	mu      sync.Mutex
	packets []string
}

// sniff captures until the test's end.
func sniff(t *testing.T) *capture {
	t.Helper()
	link, err := net.InterfaceByName("up0")
	if err != nil {
		t.Fatal(err)
	}
	const all = unix.ETH_P_ALL>>8 | unix.ETH_P_ALL<<8&0xff00 // in network byte order (packet(7))
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, all)
	if err != nil {
		t.Fatal(err)
	}
	// It ends soon after the socket is shut.
	err = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Usec: 50_000})
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: all, Ifindex: link.Index})
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &capture{fd: fd, done: make(chan struct{})}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.collect()
	}()
	t.Cleanup(func() {
		close(c.done)
		<-ended
		unix.Close(fd)
	})
	return c
}

func (c *capture) collect() {
	frame := make([]byte, 1<<16)
	for {
		select {
		case <-c.done:
			return
		default:
		}
		n, _, err := unix.Recvfrom(c.fd, frame, 0)
		if err != nil {
			continue // nothing came, or a signal did
		}
		if text := describe(frame[:n]); text != "" {
			c.mu.Lock()
			c.packets = append(c.packets, text)
			c.mu.Unlock()
		}
	}
}

// describe is an Ethernet frame with a packet of a program's in words, "" for
// what hosts say to their neighbours by themselves.
func describe(frame []byte) string {
	const ethernet, ip4, ip6 = 14, 20, 40
	if len(frame) < ethernet {
		return ""
	}
	packet := frame[ethernet:]
	switch kind := bin.BigEndian.Uint16(frame[12:]); {
	case kind == unix.ETH_P_IP && len(packet) >= ip4 && packet[9] != unix.IPPROTO_IGMP:
		return fmt.Sprintf("protocol %d from %v to %v: %q", packet[9], net.IP(packet[12:16]), net.IP(packet[16:20]), packet[ip4:min(len(packet), 120)])
	case kind == unix.ETH_P_IPV6 && len(packet) >= ip6 && packet[6] != unix.IPPROTO_ICMPV6 && packet[6] != unix.IPPROTO_HOPOPTS:
		return fmt.Sprintf("protocol %d from %v to %v: %q", packet[6], net.IP(packet[8:24]), net.IP(packet[24:40]), packet[ip6:min(len(packet), 140)])
	}
	return ""
}

// seen is all since the last call. What was sent before this call has come: a
// packet of its own has.
func (c *capture) seen(t *testing.T) []string {
	t.Helper()
	own := fmt.Sprintf("seen-%d", time.Now().UnixNano())
	conn, err := net.Dial("udp", routerAddr+":9")
	if err == nil {
		_, err = conn.Write([]byte(own))
		conn.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	waitUntil(t, 5*time.Second, "the capture sees what this test sends", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, p := range c.packets {
			if strings.Contains(p, own) {
				all, c.packets = c.packets[:i:i], c.packets[i+1:]
				return true
			}
		}
		return false
	})
	// The router says by ICMP that nobody takes them.
	var out []string
	for _, p := range all {
		if !strings.Contains(p, "seen-") {
			out = append(out, p)
		}
	}
	return out
}
