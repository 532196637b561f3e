//go:build e2e

package e2e

import (
	"net"
	"testing"
	"time"
)

// listener tells who comes to an address of the host.
type listener struct {
	addr string
	port int
	came chan string
}

func listen(t *testing.T, addr string) *listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	l := &listener{addr: ln.Addr().String(), port: ln.Addr().(*net.TCPAddr).Port, came: make(chan string, 1000)}
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			l.came <- conn.RemoteAddr().String()
			conn.Close()
		}
	}()
	return l
}

// wantNone fails the test if anyone came. Connections are accepted in their
// order, so once this call's own has come, all before it have.
func (l *listener) wantNone(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	for {
		select {
		case peer := <-l.came:
			if peer == conn.LocalAddr().String() {
				return
			}
			t.Errorf("%s came to %s", peer, l.addr)
		case <-time.After(5 * time.Second):
			t.Fatalf("the listener at %s is dead", l.addr)
		}
	}
}
