package entry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// serve plays a server of the agent's: it echoes, until a signal.
func serve(addr string) int {
	got := listen()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				io.Copy(c, c)
				c.(*net.TCPConn).CloseWrite()
			}()
		}
	}()
	fmt.Println(ln.Addr().(*net.TCPAddr).Port)
	return int((<-got).(unix.Signal))
}

// neverAccept plays one whose connections hang: its queue is full after the first.
func neverAccept() int {
	got := listen()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}})
	}
	if err == nil {
		err = unix.Listen(fd, 0)
	}
	var at unix.Sockaddr
	if err == nil {
		at, err = unix.Getsockname(fd)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(at.(*unix.SockaddrInet4).Port)
	return int((<-got).(unix.Signal))
}

// serving is a box whose first command listens, and the port.
func serving(t *testing.T, argv ...string) (*box, uint16) {
	t.Helper()
	b := newBox(t, layout{})
	b.begin(b.config(append([]string{harnessName}, argv...)...))
	o := b.started(3)
	line, err := bufio.NewReader(o.files[1]).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.ParseUint(strings.TrimSpace(line), 10, 16)
	if err != nil {
		t.Fatalf("the server says %q", line)
	}
	b.conn.SetDeadline(time.Time{})
	return b, uint16(port)
}

// asked is a connection that was asked for. The answer comes to conn.
func (b *box) asked(port uint16) *fdmsg.Conn {
	b.t.Helper()
	conn, theirs, err := fdmsg.Pair()
	if err != nil {
		b.t.Fatal(err)
	}
	defer theirs.Close()
	b.t.Cleanup(func() { conn.Close() })
	if err := b.conn.Send(handshake.Control{Dial: port}, theirs); err != nil {
		b.t.Fatal(err)
	}
	return conn
}

// answer is pid 1's answer, with the connection if it made one.
func (b *box) answer(conn *fdmsg.Conn) (handshake.Stage, net.Conn) {
	b.t.Helper()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	var st handshake.Stage
	m, err := conn.Recv(&st)
	if err != nil {
		b.t.Fatalf("no answer: %v\n%s", err, &b.stderr)
	}
	defer m.Close()
	if len(m.Files) == 0 {
		return st, nil
	}
	c, err := net.FileConn(m.Files[0])
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return st, c
}

// TestDial: pid 1 connects to a server of either family of the loopback and hands
// the socket out, which works from out here. The fence has nothing open for it.
func TestDial(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "0.0.0.0:0"} {
		b, port := serving(t, "serve", addr)
		st, c := b.answer(b.asked(port))
		if st.Stage != handshake.Dialed || st.Error != "" || c == nil {
			t.Fatalf("%s: %+v", addr, st)
		}
		go func() {
			fmt.Fprint(c, "hello")
			c.(*net.TCPConn).CloseWrite()
		}()
		if got, err := io.ReadAll(c); string(got) != "hello" || err != nil {
			t.Errorf("%s: echoed %q, %v", addr, got, err)
		}
		// Where nobody listens it says so at once.
		st, c = b.answer(b.asked(1))
		if st.Stage != handshake.Dialed || !strings.Contains(st.Error, "refused") || c != nil {
			t.Errorf("%s: port 1: %+v, %v", addr, st, c)
		}
		b.ends()
	}
}

// TestDialLeavesNothing: pid 1 keeps no descriptor of connections that it has
// handed out, or it could be made to run out of them.
func TestDialLeavesNothing(t *testing.T) {
	b, port := serving(t, "serve", "127.0.0.1:0")
	fds := func() int {
		list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", b.cmd.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if st, c := b.answer(b.asked(port)); c == nil { // the first brings the runtime's own
		t.Fatalf("%+v", st)
	}
	before := fds()
	for range 50 {
		conn := b.asked(port)
		if st, c := b.answer(conn); c == nil {
			t.Fatalf("%+v", st)
		}
		// The end of file comes when pid 1 is done with this one.
		if _, err := conn.Recv(&handshake.Stage{}); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	if after := fds(); after > before {
		t.Errorf("%d descriptors before, %d after 50 connections", before, after)
	}
	b.ends()
}

// TestDialsAreCounted: whoever has heard of a connection may ask for another one.
func TestDialsAreCounted(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	port := uint16(ln.Addr().(*net.TCPAddr).Port)
	var d dials
	for range 200 {
		conn, theirs, err := fdmsg.Pair()
		if err != nil {
			t.Fatal(err)
		}
		go d.serve(theirs, port)
		var st handshake.Stage
		m, err := conn.Recv(&st)
		if n := d.open.Load(); n != 0 || err != nil || len(m.Files) != 1 {
			t.Fatalf("%d are being made, %v, %+v", n, err, st)
		}
		m.Close()
		conn.Close()
	}
}

// TestDialsThatHang: a server that accepts nobody takes up a bounded part of pid 1,
// which goes on to hear of everything else.
func TestDialsThatHang(t *testing.T) {
	b, port := serving(t, "never-accept")
	var conns []*fdmsg.Conn
	for range maxDials + 20 {
		conns = append(conns, b.asked(port))
	}
	hang, refused := 0, 0
	for _, conn := range conns {
		conn.SetDeadline(time.Now().Add(dialTimeout / 5))
		var st handshake.Stage
		m, err := conn.Recv(&st)
		m.Close()
		switch {
		case err != nil:
			hang++
		case strings.Contains(st.Error, "are being made already"):
			refused++
		}
		if hang > 0 && refused > 0 {
			break
		}
	}
	if hang == 0 || refused == 0 {
		t.Errorf("%d hang, %d are refused", hang, refused)
	}
	b.ends() // by a signal that pid 1 passes on
}
