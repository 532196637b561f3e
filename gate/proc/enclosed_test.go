package proc

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/fakes"
	"github.com/aisb-dev/aisb/tests/need"
)

// elsewhere runs body on a thread in a network namespace of its own.
func elsewhere(t *testing.T, body func() error) {
	t.Helper()
	need.Root(t)
	var err error
	fakes.OnThread(func() {
		if err = unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return
		}
		if err = loopbackUp(); err == nil {
			err = body()
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	req.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, req)
}

// An enclosed gate serves the listener of a sandbox's namespace, once, and never
// one of its own namespace, which others share.
func TestEnclosed(t *testing.T) {
	dir := t.TempDir()
	files := listen(t, dir)
	cfg := Config{Run: "run-1", Allow: lines("allowed.test"), Key: []byte("key"), RunDir: filepath.Join(dir, "run"), Enclosed: true}
	p, err := Start(t.Context(), "/proc/self/exe", cfg, Listeners{Log: files.Log})
	if err != nil {
		t.Fatal(err)
	}
	own, err := files.Gate.File()
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	if err := p.Serve(own); err == nil || !strings.Contains(err.Error(), "not of a sandbox's") {
		t.Errorf("a listener of the host: %v", err)
	}
	elsewhere(t, func() error {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		file, err := ln.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		defer file.Close()
		if err := p.Serve(file); err != nil {
			return err
		}
		if err := p.Serve(file); err == nil {
			t.Error("a second listener is taken")
		}
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"); err != nil {
			return err
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if reason := resp.Header.Get("X-Aisb-Reason"); resp.StatusCode != http.StatusForbidden || reason != "not-listed" {
			t.Errorf("%s, %q", resp.Status, reason)
		}
		return nil
	})
	report, err := p.Stop(t.Context())
	if err != nil || len(report.Refusals) != 1 || report.Foreign != 0 {
		t.Errorf("report %+v, %v", report, err)
	}
}

// A gate whose listener another process has made a blocking one can't stop accepting.
// It ends nevertheless when its parent has gone, and not at once when it is asked to.
func TestStuck(t *testing.T) {
	dir := t.TempDir()
	files := listen(t, dir)
	cfg := Config{Run: "run-1", Key: []byte("key"), RunDir: filepath.Join(dir, "run"), Enclosed: true}
	p, err := Start(t.Context(), "/proc/self/exe", cfg, Listeners{Log: files.Log})
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	elsewhere(t, func() error {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer ln.Close()
		file, err := ln.(*net.TCPListener).File()
		if err != nil {
			return err
		}
		defer file.Close()
		if err := p.Serve(file); err != nil {
			return err
		}
		if err := unix.SetNonblock(int(file.Fd()), false); err != nil {
			return err
		}
		conn, err := net.Dial("tcp", ln.Addr().String()) // for the gate to come back to accept
		if err != nil {
			return err
		}
		conn.SetDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.WriteString(conn, "GET http://evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n"); err != nil {
			return err
		}
		_, err = http.ReadResponse(bufio.NewReader(conn), nil)
		return errors.Join(err, conn.Close())
	})
	// Its client has had the answer before it is back.
	for end := time.Now().Add(20 * time.Second); !isIn(t, p.PID(), unix.SYS_ACCEPT4); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the gate doesn't wait for another client")
		}
	}
	if err := p.conn.Send(message{Kind: kindStop}); err != nil {
		t.Fatal(err)
	}
	p.conn.SetDeadline(time.Now().Add(2 * drainTime))
	var m message
	if _, err := p.conn.Recv(&m); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the gate has stopped, and is not stuck: %+v, %v", m, err)
	}
	p.conn.Close()
	select {
	case <-p.Done():
	case <-time.After(10 * time.Second):
		t.Error("the gate is still there")
	}
}

// isIn reports whether a thread of a process waits in a system call
// (proc_pid_syscall(5)).
func isIn(t *testing.T, pid int, call int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of %d: %v", pid, err)
	}
	for _, name := range threads {
		text, err := os.ReadFile(name) // one that has ended waits for nothing
		if number, _, _ := strings.Cut(string(text), " "); err == nil && number == strconv.Itoa(call) {
			return true
		}
	}
	return false
}

// A gate that isn't enclosed takes no listener.
func TestNotEnclosed(t *testing.T) {
	dir := t.TempDir()
	files := listen(t, dir)
	p, err := Start(t.Context(), "/proc/self/exe", Config{RunDir: filepath.Join(dir, "run")}, files)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = p.Stop(t.Context()) }()
	file, err := files.Canary.File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := p.Serve(file); err == nil {
		t.Error("a second listener is taken")
	}
}
