package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
	"github.com/aisb-dev/aisb/tests/need"
)

// publishTo serves a port that leads to addr, a real server, for processes of uid.
func publishTo(t *testing.T, uid int, addr string) (*published, string) {
	t.Helper()
	p, err := listen([]Publish{{Port: 80}}, uid)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	p.serve(func(_ *published, port uint16) (*net.TCPConn, error) {
		if port != 80 {
			t.Errorf("port %d was asked for", port)
		}
		c, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, err
		}
		return c.(*net.TCPConn), nil
	})
	return p, fmt.Sprintf("127.0.0.1:%d", p.ports[0].Host)
}

func TestPublishPasses(t *testing.T) {
	for name, talk := range map[string]fakes.Talk{"echo": fakes.Echo, "count": fakes.Count} {
		origin, err := fakes.StartTCP("127.0.0.1:0", talk, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { origin.Close() })
		_, at := publishTo(t, os.Getuid(), origin.Addr.String())
		const size = 8 << 20
		sent, err := io.ReadAll(fakes.Pattern(size))
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() {
			c.Write(sent)
			c.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(c)
		want := sent
		if name == "count" {
			want = fmt.Appendf(nil, "%d bytes\n", size)
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes came back, %.40q, %v", name, len(got), got, err)
		}
	}
}

// Where nobody listens in the sandbox, a client sees it as such.
func TestPublishWithoutServer(t *testing.T) {
	// A socket that has the port and doesn't listen: nobody else gets it meanwhile.
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	_, at := publishTo(t, os.Getuid(), fmt.Sprintf("127.0.0.1:%d", name.(*unix.SockaddrInet4).Port))
	c, err := net.Dial("tcp", at)
	if err == nil {
		defer c.Close()
		_, err = c.Read(make([]byte, 1))
	}
	if !errors.Is(err, syscall.ECONNRESET) { // connect(2) may see it already
		t.Errorf("%v, want a reset", err)
	}
}

// Another user of the machine gets nothing; root does, who could get in anyway.
func TestPublishForOneUser(t *testing.T) {
	need.Root(t)
	origin, err := fakes.StartTCP("127.0.0.1:0", fakes.Banner("served\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	const mine, other = 61001, 61002
	p, at := publishTo(t, mine, origin.Addr.String())
	ask := func(uid uint32) string {
		cmd := exec.Command("bash", "-c", `exec 3<>/dev/tcp/${0/://} && read -r -t 30 line <&3 && echo "$line"`, at)
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, _ := cmd.Output() // what it read tells
		return strings.TrimSpace(string(out))
	}
	for uid, want := range map[uint32]string{mine: "served", 0: "served", other: ""} {
		if got := ask(uid); got != want {
			t.Errorf("uid %d reads %q, want %q", uid, got, want)
		}
	}
	if n := p.foreign.Load(); n != 1 {
		t.Errorf("%d foreign connections counted", n)
	}
	if n := origin.Log.Events("tcp"); len(n) > 2 {
		t.Errorf("the server saw %d connections", len(n))
	}
}

// The end of the run cuts what is open, and nobody waits for it.
func TestPublishEnds(t *testing.T) {
	origin, err := fakes.StartTCP("127.0.0.1:0", fakes.Banner("x"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	p, at := publishTo(t, os.Getuid(), origin.Addr.String())
	c, err := net.Dial("tcp", at)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		p.close()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("close waits for a connection that is open")
	}
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n, err := c.Read(make([]byte, 1)); n != 0 || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the end: %d bytes, %v", n, err)
	}
	if _, err := net.Dial("tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("after the end: connect: %v", err)
	}
}

func TestPublishFailures(t *testing.T) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	taken := uint16(ln.Addr().(*net.TCPAddr).Port)
	f, ok := errors.AsType[*Failure](CheckPublish([]Publish{{Port: 1}, {Host: taken, Port: 80}}))
	if !ok || f.Status != 2 || !strings.Contains(f.Error(), fmt.Sprintf("another program has 127.0.0.1:%d", taken)) || !strings.Contains(f.Hint, "-p 0:80") {
		t.Errorf("a port that is taken: %+v", f)
	}
	if err := CheckPublish([]Publish{{Port: 1}}); err != nil {
		t.Error(err)
	}
	f = portFailure(Publish{Host: 80, Port: 3000}, fmt.Errorf("bind: %w", syscall.EACCES))
	if !strings.Contains(f.Hint, "-p 8080:3000") {
		t.Errorf("root's port: %+v", f)
	}
}
