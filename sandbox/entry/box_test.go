package entry

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/tests/need"
)

// box is a container of the tests, with a network that leads to a fake gate in
// a namespace outside.
type box struct {
	t       *testing.T
	layout  layout
	conn    *fdmsg.Conn
	cmd     *exec.Cmd
	stderr  text
	outside *outside
	write   *os.File // the layout goes in here
}

// exe is a static build of this test binary, in a directory that other users
// can reach: made once, by TestMain's first caller.
var exe = sync.OnceValues(func() (string, error) {
	path := filepath.Join(os.TempDir(), fmt.Sprintf("aisb-entry-test-%d", os.Getpid()))
	if withCgo {
		cmd := exec.Command("go", "test", "-c", "-o", path, ".")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build without cgo: %w: %s", err, out)
		}
		return path, nil
	}
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(path, text, 0o755)
	}
	return path, err
})

// publicDir is a directory that other users can reach.
func publicDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// newBox makes namespaces and network. Nothing runs in it yet.
func newBox(t *testing.T, l layout) *box {
	t.Helper()
	// The container needs a second user id and a network outside.
	need.Root(t)
	need.UserNS(t)
	if l.Caps == nil {
		l.Caps = podmanCaps
	}
	if l.Project == "" {
		l.Project = publicDir(t)
		if err := os.Chown(l.Project, 101000, 101000); err != nil {
			t.Fatal(err)
		}
	}
	conn, peer, err := fdmsg.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	path, err := exe()
	if err != nil {
		t.Fatal(err)
	}
	l.Exe = path
	b := &box{t: t, layout: l, conn: conn, write: w}
	b.cmd = exec.Command(path)
	b.cmd.Args = []string{containerName}
	b.cmd.ExtraFiles = []*os.File{peer, r}
	b.cmd.Stderr = &b.stderr
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 100000, Size: 2000}}
	b.cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID | syscall.CLONE_NEWNS |
			syscall.CLONE_NEWNET | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		UidMappings: ids, GidMappings: ids, GidMappingsEnableSetgroups: true,
		Credential: &syscall.Credential{Uid: 0, Gid: 0},
	}
	if err := b.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		w.Close()
		conn.Close()
		b.cmd.Process.Kill()
		b.cmd.Wait()
	})
	if l.NoNet {
		b.outside = &outside{key: make([]byte, minKey), gate: netip.MustParseAddrPort("169.254.1.3:3128"), canary: netip.MustParseAddrPort("169.254.1.3:3129")}
	} else {
		b.outside = newOutside(t, b.cmd.Process.Pid)
	}
	if l.Pause != "" {
		fifo := filepath.Join(l.Project, l.Pause)
		if err := errors.Join(unix.Mkfifo(fifo, 0o666), os.Chmod(fifo, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return b
}

// config is what aisb would send for a command.
func (b *box) config(argv ...string) handshake.Config {
	public := netip.MustParseAddr("203.0.113.1")
	return handshake.Config{
		Version: handshake.Version, Run: "aisb-test",
		Argv: argv, Dir: "/project", UID: 1000, GID: 1000,
		UserMap: handshake.IDMap{Inside: 1000, Outside: 101000}, GroupMap: handshake.IDMap{Inside: 1000, Outside: 101000},
		Env:    [][]byte{[]byte("PATH=/bin"), []byte("ODD=a\nb=\"c\xff")},
		Mounts: b.layout.mounts(b.t),
		Fence: &handshake.Fence{
			Policy: netpolicy.Spec{
				Gates: []netip.AddrPort{b.outside.gate},
				Probes: []netpolicy.Probe{
					{Name: "tcp", Proto: netpolicy.TCP, To: netip.AddrPortFrom(public, 443)},
					{Name: "tcp6", Proto: netpolicy.TCP, To: netip.MustParseAddrPort("[2001:db8::1]:443")},
					{Name: "dns", Proto: netpolicy.UDP, To: netip.AddrPortFrom(public, 53)},
					{Name: "canary", Proto: netpolicy.TCP, To: b.outside.canary},
				},
			},
			Proof: handshake.Proof{Gate: b.outside.gate.String(), Key: b.outside.key},
		},
	}
}

// begin lets the container's first process become the entrypoint, which says
// hello, and sends it the configuration.
func (b *box) begin(cfg handshake.Config) {
	b.t.Helper()
	if err := json.NewEncoder(b.write).Encode(b.layout); err != nil {
		b.t.Fatal(err)
	}
	b.write.Close()
	b.conn.SetDeadline(time.Now().Add(20 * time.Second))
	var hello handshake.Stage
	if _, err := b.conn.Recv(&hello); err != nil || hello.Stage != handshake.Hello {
		b.conn.Close()
		b.cmd.Wait()
		b.t.Fatalf("got %+v, %v instead of hello\n%s", hello, err, &b.stderr)
	}
	if err := b.conn.Send(cfg); err != nil {
		b.t.Fatal(err)
	}
}

// pauseAt lets pid 1 wait at a point until box.spoil has done its part.
func pauseAt(where string) func(string) {
	return func(point string) {
		if point != where {
			return
		}
		if _, err := os.ReadFile("/project/" + where); err != nil {
			panic(err)
		}
	}
}

// spoil runs a program of the host in the container's network while the start
// waits at layout.Pause.
func (b *box) spoil(stdin string, command ...string) {
	b.t.Helper()
	var fifo *os.File
	for limit := time.Now().Add(20 * time.Second); ; {
		var err error
		// Without a reader this is ENXIO (fifo(7)): the start isn't there yet.
		fifo, err = os.OpenFile(filepath.Join(b.layout.Project, b.layout.Pause), os.O_WRONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			break
		}
		if !errors.Is(err, unix.ENXIO) || time.Now().After(limit) {
			b.t.Fatalf("the start doesn't come to %q: %v\n%s", b.layout.Pause, err, &b.stderr)
		}
		time.Sleep(time.Millisecond)
	}
	defer fifo.Close() // lets it go on
	cmd := exec.Command("nsenter", append([]string{fmt.Sprintf("--net=/proc/%d/ns/net", b.cmd.Process.Pid)}, command...)...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		b.t.Fatalf("%q: %v: %s", command, err, out)
	}
}

// outcome is how a start went.
type outcome struct {
	stages []handshake.Stage
	status *os.File // of the command
	watch  *os.File // the packet filter
	files  []*os.File
}

// stages receives until the entrypoint has no more to say.
func (b *box) stages() outcome {
	b.t.Helper()
	var o outcome
	for {
		var s handshake.Stage
		m, err := b.conn.Recv(&s)
		if errors.Is(err, io.EOF) {
			return o
		}
		if err != nil {
			b.t.Fatalf("receive stage: %v\n%s", err, &b.stderr)
		}
		o.stages = append(o.stages, s)
		if s.Stage == handshake.Listening && len(m.Files) == 1 {
			ln, err := net.FileListener(m.Files[0])
			if err != nil {
				b.t.Fatal(err)
			}
			b.t.Cleanup(func() { ln.Close() })
			go b.outside.serve(ln)
		}
		if s.Stage == handshake.Fenced && len(m.Files) == 1 {
			o.watch = m.Files[0]
		}
		if s.Stage == handshake.Stdio && len(m.Files) > 0 {
			o.status = m.Files[0]
			o.files = append(o.files, m.Files[1:]...)
		}
		b.t.Cleanup(m.Close)
	}
}

// started is stages for a command that must start, with n descriptors.
func (b *box) started(n int) outcome {
	b.t.Helper()
	o := b.stages()
	if o.last().Stage != handshake.Start || o.last().Error != "" || len(o.files) != n {
		b.t.Fatalf("%d descriptors and last stage %+v\n%s", len(o.files), o.last(), &b.stderr)
	}
	return o
}

// stage is the stage of a name, zero when it didn't come.
func (o outcome) stage(name handshake.StageName) handshake.Stage {
	i := slices.IndexFunc(o.stages, func(s handshake.Stage) bool { return s.Stage == name })
	if i < 0 {
		return handshake.Stage{}
	}
	return o.stages[i]
}

// last is the stage that ended the start, or Start.
func (o outcome) last() handshake.Stage {
	if len(o.stages) == 0 {
		return handshake.Stage{}
	}
	return o.stages[len(o.stages)-1]
}

// wait returns the status of the container.
func (b *box) wait() int {
	b.t.Helper()
	timer := time.AfterFunc(30*time.Second, func() { b.cmd.Process.Kill() })
	defer timer.Stop()
	b.cmd.Wait()
	return b.cmd.ProcessState.ExitCode()
}
