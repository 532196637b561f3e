package fakes

import (
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/need"
)

// Two namespaces reach each other and nothing else, and their mounts are their own.
func TestNetns(t *testing.T) {
	need.Root(t)
	if _, err := exec.LookPath("ip"); err != nil {
		need.Missing(t, "root", err)
	}
	one, other := netns(t), netns(t)
	if err := one.Join("one0", "198.51.100.1/30", other, "other0", "198.51.100.2/30"); err != nil {
		t.Fatal(err)
	}
	var origin *TCP
	if err := other.Do(func() (err error) {
		origin, err = StartTCP("198.51.100.2:80", HalfClosed("from the other\n"), nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	defer origin.Close()
	dial := func() (got string, err error) {
		c, err := net.DialTimeout("tcp", "198.51.100.2:80", 5*time.Second)
		if err != nil {
			return "", err
		}
		defer c.Close()
		b, err := io.ReadAll(c)
		return string(b), err
	}
	if err := one.Do(func() error {
		got, err := dial()
		if got != "from the other\n" {
			t.Errorf("got %q", got)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := netns(t).Do(func() error { _, err := dial(); return err }); err == nil {
		t.Error("a third namespace reaches the other")
	}

	file := t.TempDir() + "/file"
	hosts := t.TempDir() + "/hosts"
	for name, text := range map[string]string{file: "mine\n", hosts: "everyone's\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Bind(file, hosts); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.Command("cat", hosts)
	cmd.Stdout = &out
	if err := one.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || out.String() != "mine\n" {
		t.Errorf("inside: %q, %v", out.String(), err)
	}
	if b, err := os.ReadFile(hosts); err != nil || string(b) != "everyone's\n" {
		t.Errorf("outside: %q, %v", b, err)
	}
}

func netns(t *testing.T) *Netns {
	t.Helper()
	n, err := NewNetns()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	return n
}

// What OnThread runs leaves nothing behind for the others, wherever it comes from.
func TestOnThread(t *testing.T) {
	first := make(chan int)
	for range 4 * runtime.NumCPU() {
		go func() {
			for range 100 {
				runtime.Gosched()
				OnThread(func() { first <- unix.Gettid() })
			}
		}()
	}
	for range 400 * runtime.NumCPU() {
		if <-first == os.Getpid() {
			t.Error("ran on the process's first thread")
		}
	}
}
