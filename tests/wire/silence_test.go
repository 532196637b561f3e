package wire

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What an origin sends unasked is nobody's to read: not on stderr, where a journal
// would keep it.
func TestUnaskedAnswer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		c, err := ln.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		r := bufio.NewReader(c)
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		io.WriteString(c, "HTTP/1.1 200 CANARY\r\nContent-Length: 0\r\n\r\n")
		io.Copy(io.Discard, r) // until the gate has had enough
	}()
	target := fmt.Sprintf("host.containers.internal:%d", ln.Addr().(*net.TCPAddr).Port)
	s := startStandalone(t, "--allow", target)
	c, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(limit))
	fmt.Fprintf(c, "GET http://%s/ HTTP/1.1\r\nHost: x\r\n\r\n", target)
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", resp, err)
	}
	select {
	case <-gone:
	case <-time.After(limit):
		t.Fatal("the connection to the origin is kept")
	}
	s.signal(syscall.SIGTERM)
	if _, err := s.end(); err != nil {
		t.Error(err)
	}
	if text := s.errs.String(); strings.Contains(text, "CANARY") {
		t.Errorf("stderr has %q", text)
	}
}
