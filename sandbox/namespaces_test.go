package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/aisb-dev/aisb/tests/need"
)

// Each namespace that a container shares with the host is seen.
func TestSharedNamespaces(t *testing.T) {
	need.UserNS(t)
	flags := map[string]uintptr{
		"user": syscall.CLONE_NEWUSER, "mnt": syscall.CLONE_NEWNS, "pid": syscall.CLONE_NEWPID,
		"net": syscall.CLONE_NEWNET, "ipc": syscall.CLONE_NEWIPC, "uts": syscall.CLONE_NEWUTS,
	}
	if len(flags) != len(ownNamespaces) {
		t.Fatalf("%d namespaces are tried, %d looked at", len(flags), len(ownNamespaces))
	}
	start := func(without string) error {
		var all uintptr
		for name, flag := range flags {
			if name != without {
				all |= flag
			}
		}
		cmd := exec.Command("sleep", "60")
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: all, Pdeathsig: syscall.SIGKILL}
		if all&syscall.CLONE_NEWUSER != 0 {
			cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		}
		if err := cmd.Start(); err != nil {
			t.Fatalf("without %q: %v", without, err)
		}
		defer cmd.Wait()
		defer cmd.Process.Kill()
		return checkNamespaces("/proc", cmd.Process.Pid)
	}
	if err := start(""); err != nil {
		t.Errorf("none is shared: %v", err)
	}
	for name := range flags {
		if name == "user" && os.Getuid() != 0 {
			continue // an ordinary user gets no other namespace without it
		}
		f, ok := errors.AsType[*Failure](start(name))
		if !ok || f.Status != 78 || !strings.Contains(f.Error(), "the host's "+name+" namespace") {
			t.Errorf("%s is shared: %v", name, f)
		}
	}
	if err := checkNamespaces("/proc", 1<<30); err == nil {
		t.Error("a process that isn't there passes")
	}
}
