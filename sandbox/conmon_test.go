package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOlderThan: who has taken a dead conmon's child in was there before podman.
func TestOlderThan(t *testing.T) {
	proc := t.TempDir()
	const podman = 300
	for pid, ticks := range map[int]string{podman: "5000", 1: "1", 200: "4999", 400: "5000", 500: "5007"} {
		dir := filepath.Join(proc, fmt.Sprint(pid))
		text := fmt.Sprintf("%d (a) b) S 1 %s%s 0 0\n", pid, strings.Repeat("7 ", 17), ticks)
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for pid, want := range map[int]bool{1: true, 200: true, 400: false, 500: false, 600: false} {
		if got := olderThan(proc, pid, podman); got != want {
			t.Errorf("process %d: %v", pid, got)
		}
	}
	if olderThan(proc, 1, 600) {
		t.Error("older than one that is not there")
	}
	if at, err := startedAt("/proc", os.Getpid()); at == 0 || err != nil {
		t.Errorf("this process began at %d, %v", at, err)
	}
}

// TestLost: podman has lost its container when it or its conmon has ended and pid 1 has not.
func TestLost(t *testing.T) {
	start := func() (*exec.Cmd, handle) {
		cmd := exec.Command("sleep", "1000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		end := func() {
			cmd.Process.Kill()
			_ = cmd.Wait() // killed
		}
		t.Cleanup(end)
		h := openHandle(cmd.Process.Pid)
		t.Cleanup(h.close)
		return cmd, h
	}
	first, pid1 := start()
	_, conmon := start()
	gone, ended := start()
	gone.Process.Kill()
	_ = gone.Wait() // killed
	running, done := make(chan struct{}), make(chan struct{})
	close(done)
	cases := map[string]struct {
		p    *podmanProcess
		lost bool
	}{
		"all are there":         {&podmanProcess{init: pid1, conmon: conmon, done: running}, false},
		"no podman":             {&podmanProcess{init: pid1, conmon: conmon, done: done}, true},
		"no conmon":             {&podmanProcess{init: pid1, conmon: ended, done: running}, true},
		"no conmon ever":        {&podmanProcess{init: pid1, conmon: noHandle, alone: true, done: running}, true},
		"before the first word": {&podmanProcess{init: noHandle, conmon: noHandle, done: done}, false},
	}
	for name, c := range cases {
		if got := c.p.lost(); got != c.lost {
			t.Errorf("%s: %v", name, got)
		}
	}
	first.Process.Kill()
	_ = first.Wait() // killed
	for name, c := range cases {
		if c.p.lost() {
			t.Errorf("%s, and pid 1 has ended: lost", name)
		}
	}
}
