package wire

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// countable adds to a gate's arguments what lets this user count its descriptors: of one
// that is locked up only root can.
func countable(args ...string) []string {
	if os.Getuid() != 0 {
		args = append(args, "--confine", "off")
	}
	return args
}

// descriptors of the gate's process that are open now.
func (s *standalone) descriptors() int {
	s.t.Helper()
	list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid))
	if err != nil {
		s.t.Fatal(err)
	}
	return len(list)
}

// A crowd of peers that begin and never go on keeps nobody else out, and leaves
// nothing behind.
func TestHalfOpenPeers(t *testing.T) {
	const crowd = 900 // two descriptors each in this process, of 1024 by default on one side
	_, target := echo(t)
	s := startStandalone(t, countable("--allow", target+"+tcp")...)
	serve := func() {
		t.Helper()
		c, r, status := s.connect(target)
		io.WriteString(c, "x\n")
		if line, err := r.ReadString('\n'); line != "x\n" {
			t.Fatalf("%s: %q, %v", status, line, err)
		}
		c.Close()
	}
	serve()
	s.wait("close", "")
	before := s.descriptors()
	var peers []net.Conn
	begin := []string{"", "C", "CONNECT " + target + " HTTP/1.1\r\nHost: x\r\n", "GET http://" + target + "/ HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 8000)}
	for i := range crowd {
		c, err := net.Dial("tcp", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		io.WriteString(c, begin[i%len(begin)])
		peers = append(peers, c)
	}
	for range 20 {
		serve()
	}
	if n := s.descriptors(); n < before+crowd {
		t.Errorf("%d descriptors with %d peers: they are not there", n, crowd)
	}
	for _, c := range peers {
		c.Close()
	}
	for end := time.Now().Add(limit); s.descriptors() > before+16; time.Sleep(5 * time.Millisecond) { // a few idle pipes may stay
		if time.Now().After(end) {
			t.Fatalf("%d descriptors are left, there were %d", s.descriptors(), before)
		}
	}
	serve()
}
