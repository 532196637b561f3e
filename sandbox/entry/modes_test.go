package entry

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/tests/need"
)

func TestKeptRootHasNothingToo(t *testing.T) {
	need.Root(t)
	b := newBox(t, layout{Project: rootsDir(t)})
	cfg := b.config(harnessName, "report")
	cfg.UID, cfg.GID, cfg.InsecureKeepRoot = 0, 0, true
	b.begin(cfg)
	o := b.started(3)
	if names(o) != "apply fence proof drop stdio start" {
		t.Fatalf("stages %+v", o.stages)
	}
	r := readReport(t, o.files[1])
	b.wait()
	if r.UID != 0 || r.GID != 0 {
		t.Errorf("uid %d, gid %d", r.UID, r.GID)
	}
	for _, fields := range append(r.Init, r.Self) {
		for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
			if fields[set] != "0000000000000000" {
				t.Errorf("%s of %s is %q", set, fields["Name"], fields[set])
			}
		}
	}
	if len(r.InitSecrets) > 0 {
		t.Errorf("of pid 1 the command can open %q", r.InitSecrets)
	}
}

// rootsDir belongs to root of the container.
func rootsDir(t *testing.T) string {
	t.Helper()
	dir := publicDir(t)
	if err := os.Chown(dir, 100000, 100000); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestWithoutAFence(t *testing.T) {
	b := newBox(t, layout{})
	cfg := b.config(harnessName, "report")
	cfg.Fence = nil // --net full
	b.begin(cfg)
	o := b.started(3)
	if names(o) != "drop stdio start" {
		t.Fatalf("stages %+v", o.stages)
	}
	r := readReport(t, o.files[1])
	b.wait()
	if r.Self["CapBnd"] != "0000000000000000" || r.UID != 1000 {
		t.Errorf("%+v", r)
	}
	if strings.Contains(r.Direct, "refused") {
		t.Errorf("direct connection: %s", r.Direct)
	}
}

// TestStartedByHand: the binary lies in the container and on the host for
// everyone to try.
func TestStartedByHand(t *testing.T) {
	need.UserNS(t)
	path, err := exe()
	if err != nil {
		t.Fatal(err)
	}
	conn, peer, err := fdmsg.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	defer peer.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for _, c := range []struct {
		args  []string
		files []*os.File
		pid1  bool
		said  string
	}{
		{nil, nil, false, "aisb-entry: error: this is not the first process of a container\n"},
		{nil, []*os.File{peer}, false, "aisb-entry: error: this is not the first process of a container\n"},
		{nil, nil, true, "(aisb starts this program, nobody else)\n"},
		{nil, []*os.File{null}, true, "(aisb starts this program, nobody else)\n"},
		{[]string{probeArg}, nil, false, "aisb-entry: error: use inherited descriptor"},
	} {
		cmd := exec.Command(path)
		cmd.Args = append([]string{Name}, c.args...)
		cmd.ExtraFiles = c.files
		var said bytes.Buffer
		cmd.Stderr = &said
		if c.pid1 {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
			}
		}
		if err := cmd.Run(); cmd.ProcessState == nil {
			t.Fatal(err)
		}
		if got := cmd.ProcessState.ExitCode(); got != handshake.ExitProof || !strings.Contains(said.String(), c.said) {
			t.Errorf("%q: status %d, said %q, want %q", c.args, got, &said, c.said)
		}
	}
}

func TestTwoContainersDoNotMeet(t *testing.T) {
	a, b := newBox(t, layout{}), newBox(t, layout{})
	a.begin(a.config(harnessName, "await"))
	b.begin(b.config(harnessName, "exit", "9"))
	one, two := a.started(3), b.started(3)
	if status := b.wait(); status != 9 {
		t.Errorf("second: status %d, %+v", status, two.stages)
	}
	// It lives on after the other's end.
	if line, err := bufio.NewReader(one.files[1]).ReadString('\n'); err != nil || line != "ready\n" {
		t.Errorf("first: %q, %v", line, err)
	}
	a.conn.Close()
	if status := a.wait(); status != killed {
		t.Errorf("first: status %d", status)
	}
}
