package mounts

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestKindOf(t *testing.T) {
	for name, want := range map[string]socketKind{
		"/x/docker.sock": engineSocket, "/x/podman.sock": engineSocket, "/x/containerd.sock.ttrpc": engineSocket,
		"/x/crio.sock": engineSocket, "/x/libvirt-sock-ro": engineSocket, "/x/virtqemud-sock": engineSocket,
		"/x/S.gpg-agent.extra": agentSocket, "/tmp/ssh-a1b2c3/agent.123": agentSocket, "/x/systemd/private": agentSocket,
		"/x/bus": agentSocket, "/x/wayland-0": agentSocket,
		"/x/server.sock": plainSocket, "/x/private": plainSocket, "/x/agent.go": plainSocket, "/x/bus.sock": plainSocket,
	} {
		if kind, _ := kindOf(name); kind != want {
			t.Errorf("%s: kind %d, want %d", name, kind, want)
		}
	}
}

func TestSockets(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, dir+"/deep/er")

	// Idle: reported.
	left := filepath.Join(dir, "deep/left.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: left})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	if err := unix.Mkfifo(dir+"/pipe", 0o600); err != nil {
		t.Fatal(err)
	}
	p := plan(t, h, Options{Dir: dir})
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], left) || !strings.Contains(p.Warnings[0], dir+"/pipe") {
		t.Errorf("warnings %q", p.Warnings)
	}

	// Listening: refused without the flag, whatever the type and name.
	for name, open := range map[string]func(string){
		"stream": func(path string) { listen(t, path) },
		"datagram": func(path string) {
			c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(dir, "deep/er/"+name+" ż")
			open(path)
			wantRefusal(t, h, Options{Dir: dir}, "listens on the socket", "--allow-sockets")
			p := plan(t, h, Options{Dir: dir, AllowSockets: true})
			if !strings.Contains(strings.Join(p.Warnings, "\n"), "through "+quote(path)) {
				t.Errorf("warnings %q", p.Warnings)
			}
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		})
	}

	// An engine's: always refused, listening or not.
	if err := os.Rename(left, dir+"/docker.sock"); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, h, Options{Dir: dir, AllowSockets: true, AllowDir: true}, "container engine", "no flag")
}

// The engine's socket under another name is known by its inode.
func TestEngineSocketByInode(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, h.RuntimeDir+"/podman")
	listen(t, h.RuntimeDir+"/podman/podman.sock")
	if err := os.Link(h.RuntimeDir+"/podman/podman.sock", dir+"/harmless"); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, h, Options{Dir: dir, AllowSockets: true}, "container engine", "no flag")
}

func TestAgentSocket(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	listen(t, dir+"/S.gpg-agent")
	wantRefusal(t, h, Options{Dir: dir}, "gpg agent", "--allow-sockets")
	plan(t, h, Options{Dir: dir, AllowSockets: true})

	named := testHost(t)
	listen(t, named.Home+"/code/project/key")
	named.Sockets = []string{named.Home + "/code/project/key"}
	wantRefusal(t, named, Options{Dir: named.Home + "/code/project"}, "a service of the host", "--allow-sockets")
}

// The backlog is full, so a connect would have to wait.
func TestBusySocketIsListening(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: dir + "/busy"}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		c, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(c)
		if err := unix.Connect(c, &unix.SockaddrUnix{Name: dir + "/busy"}); err == unix.EAGAIN {
			break
		}
	}
	wantRefusal(t, h, Options{Dir: dir}, "listens on the socket", "--allow-sockets")
}

// A tree too large to look through still can't hide a listening socket, and
// its size is said.
func TestCappedScan(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	deep := dir
	for range scanDepth + 2 {
		deep += "/d"
	}
	mkdir(t, deep)
	p := plan(t, h, Options{Dir: dir})
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "not looked through") {
		t.Errorf("warnings %q", p.Warnings)
	}
	listen(t, dir+"/d/s")
	for _, row := range []struct {
		bound   string
		refused bool
	}{{dir + "/d/s", true}, {dir + "/d/gone", false}, {dir + "/d", false}, {dir + "x/s", false}, {"/d/s", false}} {
		full := &scan{entries: scanEntries} // comes to no entry
		r := socketReport{top: mustOpen(t, dir)}
		if err := r.check(full, []string{row.bound}); (err != nil) != row.refused || !r.capped {
			t.Errorf("%s: %v, capped %v; want refused: %v", row.bound, err, r.capped, row.refused)
		}
	}
}

func mustOpen(t *testing.T, path string) *source {
	t.Helper()
	var p Plan
	t.Cleanup(func() { p.Close() })
	s, err := p.open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseListening(t *testing.T) {
	const table = `Num       RefCount Protocol Flags    Type St Inode Path
0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/a b/x.sock
0000000000000000: 00000002 00000000 00010000 0005 01 12346 @/abstract
0000000000000000: 00000003 00000000 00000000 0001 03 12347 /run/connected
0000000000000000: 00000002 00000000 00010000 0001 01 12348
0000000000000000: 00000002 00000000 00010000 0001 01 12349 relative/x
0000000000000000: 00000002 00000000 00010000 0001 01 12350 /run//y
`
	if got, want := strings.Join(parseListening(table), "|"), "/run/a b/x.sock|/run/y"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	path := filepath.Join(t.TempDir(), "s")
	listen(t, path)
	all, err := listeningPaths()
	if err != nil || !strings.Contains(strings.Join(all, "|"), path) {
		t.Errorf("the kernel's list %q, %v lacks %q", all, err, path)
	}
}

// The scan's time is noted by "go test -bench Scan".
func BenchmarkScan(b *testing.B) {
	dir := b.TempDir()
	for i := range 200 {
		sub := fmt.Sprintf("%s/%d", dir, i)
		if err := os.Mkdir(sub, 0o755); err != nil {
			b.Fatal(err)
		}
		for j := range 50 {
			if err := os.WriteFile(fmt.Sprintf("%s/%d", sub, j), nil, 0o644); err != nil {
				b.Fatal(err)
			}
		}
	}
	f, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for b.Loop() {
		s := newScan()
		s.deadline = time.Now().Add(time.Hour)
		s.walk(f, "", 0)
		if s.entries != 200*51 || s.capped {
			b.Fatalf("saw %d entries, capped %v", s.entries, s.capped)
		}
	}
}
