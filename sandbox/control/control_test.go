package control

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/tests/need"
)

// TestMain lets the test binary be a client elsewhere.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[0] == "server" {
		s, err := Listen(filepath.Join(os.Args[1], os.Args[2]))
		if err != nil {
			os.Stdout.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		s.Serve(Handler{Info: func() Info { return Info{State: Running} }, Stop: func(time.Duration) {}})
		os.Stdout.WriteString("serving\n")
		select {}
	}
	if len(os.Args) == 3 && os.Args[0] == "client" {
		c, err := Dial(os.Args[1], os.Args[2])
		if err == nil {
			_, err = c.Info()
		}
		if err != nil {
			os.Stdout.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// serve starts a server of a name below a directory.
func serve(t *testing.T, runtime, name string, h Handler) *Server {
	t.Helper()
	s, err := Listen(filepath.Join(runtime, name))
	if err != nil {
		t.Fatal(err)
	}
	if h.Info == nil {
		h.Info = func() Info {
			return Info{Name: "a lie", State: Running, PID: os.Getpid(), Command: handshake.Args{"a\xffb"}}
		}
	}
	s.Serve(h)
	t.Cleanup(s.Close)
	return s
}

func dial(t *testing.T, runtime, name string) *Client {
	t.Helper()
	c, err := Dial(runtime, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestInfo(t *testing.T) {
	// The path alone is longer than an address of a socket may be.
	runtime := filepath.Join(t.TempDir(), strings.Repeat("long", 40), "aisb")
	serve(t, runtime, "aisb-x-000001", Handler{})
	c := dial(t, runtime, "aisb-x-000001")
	if c.PID() != os.Getpid() {
		t.Errorf("pid %d, want %d", c.PID(), os.Getpid())
	}
	info, err := c.Info()
	if err != nil || info.State != Running || info.Command[0] != "a\xffb" {
		t.Errorf("%+v, %v", info, err)
	}
	for name, want := range map[string]os.FileMode{"": 0o700, SocketName: 0o600} {
		st, err := os.Stat(filepath.Join(runtime, "aisb-x-000001", name))
		if err != nil || st.Mode().Perm() != want {
			t.Errorf("%q: %v, %v, want mode %v", name, st, err, want)
		}
	}
	if _, err := Listen(filepath.Join(runtime, "aisb-x-000001")); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("a second server of the same name: %v", err)
	}
}

func TestStopLastsUntilTheEnd(t *testing.T) {
	runtime := t.TempDir()
	asked := make(chan time.Duration, 1)
	s := serve(t, runtime, "r", Handler{Stop: func(grace time.Duration) { asked <- grace }})
	done := make(chan error, 1)
	c := dial(t, runtime, "r")
	go func() { done <- c.Stop(3*time.Second, time.Minute) }()
	if got := <-asked; got != 3*time.Second {
		t.Errorf("asked for %v", got)
	}
	// It answers others meanwhile.
	if _, err := dial(t, runtime, "r").Info(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-done:
		t.Errorf("it returned before the end: %v", err)
	default:
	}
	s.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	s = serve(t, runtime, "stuck", Handler{Stop: func(time.Duration) {}})
	if err := dial(t, runtime, "stuck").Stop(0, 50*time.Millisecond); !errors.Is(err, ErrNotEnded) {
		t.Errorf("a sandbox that doesn't end: %v", err)
	}
	s.Close()
}

func TestDeadAndSilent(t *testing.T) {
	runtime := t.TempDir()
	serve(t, runtime, "alive", Handler{})
	s := serve(t, runtime, "dead", Handler{})
	s.Close() // the socket stays, as after SIGKILL
	if _, err := os.Stat(filepath.Join(runtime, "dead", SocketName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(runtime, "podman-0123"), 0o700); err != nil {
		t.Fatal(err)
	}
	mute, err := Listen(filepath.Join(runtime, "mute"))
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	begin := time.Now()
	list, err := List(runtime, Glance)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range list {
		got = append(got, fmt.Sprint(r.Name, " ", r.State, " ", r.Stopped))
	}
	if want := []string{"alive running false", "dead dead false", "mute silent false"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if took := time.Since(begin); took > 20*Glance {
		t.Errorf("it took %v", took)
	}
	if _, err := Dial(runtime, "dead"); !errors.Is(err, ErrDead) {
		t.Error(err)
	}
	if _, err := Dial(runtime, "never"); !errors.Is(err, ErrDead) {
		t.Error(err)
	}
	if list, err := List(filepath.Join(runtime, "no [such] dir"), Glance); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestSlow: who takes longer than it takes to see whether he is stopped is no silent one.
func TestSlow(t *testing.T) {
	runtime := t.TempDir()
	serve(t, runtime, "slow", Handler{Info: func() Info {
		time.Sleep(stoppedAfter + stoppedAfter/2)
		return Info{State: Running}
	}})
	if list, err := List(runtime, time.Minute); err != nil || len(list) != 1 || list[0].State != Running {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestStopped: nobody waits for who is stopped, and it is told from who is slow, for a
// question and for a command.
func TestStopped(t *testing.T) {
	runtime := t.TempDir()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{"server", runtime, "r"}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "serving\n" {
		t.Fatalf("%q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(30 * time.Second); !stopped(cmd.Process.Pid); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it is not stopped")
		}
	}
	const long = 10 * time.Minute // the test ends before
	list, err := List(runtime, long)
	if err != nil || len(list) != 1 || list[0].State != Silent || !list[0].Stopped || list[0].PID != cmd.Process.Pid {
		t.Errorf("%+v, %v", list, err)
	}
	err = dial(t, runtime, "r").Stop(0, long)
	if is, ok := errors.AsType[*StoppedError](err); !ok || is.PID != cmd.Process.Pid {
		t.Errorf("a stop: %v", err)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if list, err = List(runtime, time.Minute); err != nil || len(list) != 1 || list[0].State != Running {
		t.Errorf("it goes on: %+v, %v", list, err)
	}
}

// TestBadClients: what a client sends, or that it sends nothing, disturbs nobody.
func TestBadClients(t *testing.T) {
	runtime := t.TempDir()
	serve(t, runtime, "r", Handler{Exec: func(context.Context, handshake.Exec) ([]*os.File, error) { return nil, errors.New("no") }})
	message := func(text string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(text)))) + text
	}
	for _, bytes := range []string{
		"", "GET / HTTP/1.1\r\n\r\n", "\xff\xff\xff\xff", "\x00\x00\x00\x05{", message("no json"), message("[]"), message("null"),
		message(`{"op":"exec"}`), message(`{"op":"exec","exec":{"Argv":[]}}`), message(`{"op":7}`), message(`{"op":"attach"}`), message(`{"op":"dance"}`),
	} {
		c, err := net.Dial("unix", filepath.Join(runtime, "r", SocketName))
		if err != nil {
			t.Fatal(err)
		}
		io.WriteString(c, bytes)
		c.(*net.UnixConn).CloseWrite()
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%q: the connection stays open", bytes)
		}
		c.Close()
	}
	for range 2 * maxClients { // who say nothing
		if c, err := net.Dial("unix", filepath.Join(runtime, "r", SocketName)); err == nil {
			defer c.Close()
		}
	}
	deadline := time.Now().Add(6 * requestTimeout)
	// Each may find all places taken: by one that says nothing, or that was just answered.
	served := func(ask func(c *Client) error) error {
		for {
			c := dial(t, runtime, "r")
			err := ask(c)
			c.Close() // some thousand tries fit in here
			if _, refused := errors.AsType[*Error](err); err == nil || refused || time.Now().After(deadline) {
				return err
			}
		}
	}
	if err := served(func(c *Client) error { _, err := c.Info(); return err }); err != nil {
		t.Fatal(err)
	}
	err := served(func(c *Client) error { _, _, err := c.ask(Request{Op: "dance"}, Patience); return err })
	if refused, ok := errors.AsType[*Error](err); !ok || refused.Hint == "" || !strings.Contains(refused.Text, `"dance"`) {
		t.Errorf("an unknown request: %v", err)
	}
}

// TestOtherSide: a process of the same user in another user namespace, as all of a
// sandbox are, isn't heard.
func TestOtherSide(t *testing.T) {
	need.UserNS(t)
	runtime := t.TempDir()
	serve(t, runtime, "r", Handler{})
	for _, flags := range []uintptr{0, syscall.CLONE_NEWUSER} {
		cmd := exec.Command("/proc/self/exe")
		cmd.Args = []string{"client", runtime, "r"}
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
		if flags != 0 {
			ids := []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
			cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = ids, []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
		}
		out, err := cmd.Output()
		if (err == nil) != (flags == 0) {
			t.Errorf("flags %x: %v: %s", flags, err, out)
		}
	}
}

func TestMatch(t *testing.T) {
	var runs []Info
	for _, name := range []string{"aisb-web-000001", "aisb-web-000002", "aisb-website-00000a", "mine", "mine-too", "aisb-api", "aisb-api-2"} {
		runs = append(runs, Info{Name: name})
	}
	for pattern, want := range map[string]string{
		"aisb-web-000001": "aisb-web-000001", "web-000002": "aisb-web-000002", "webs": "aisb-website-00000a",
		"aisb-web-": "aisb-web-000001 aisb-web-000002", "mine": "mine", "min": "mine mine-too", "x": "", "api": "aisb-api", "api-": "aisb-api-2", "000001": "",
	} {
		var got []string
		for _, r := range Match(runs, pattern) {
			got = append(got, r.Name)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, want %q", pattern, got, want)
		}
	}
}
