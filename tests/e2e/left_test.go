//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// process is what /proc says of one.
type process struct {
	pid  int
	comm string
	args []string
	ppid int
}

// processes lists those of the machine, or of the lab, but no zombies.
func processes() []process {
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		panic(err) // the pattern is well-formed
	}
	var list []process
	for _, dir := range dirs {
		// One that ends meanwhile is not there: an error is no more than that.
		cmdline, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		if err != nil {
			continue
		}
		status, err := os.ReadFile(filepath.Join(dir, "status"))
		if err != nil || strings.HasPrefix(field(string(status), "State"), "Z") {
			continue
		}
		p := process{args: strings.Split(strings.TrimSuffix(string(cmdline), "\x00"), "\x00")}
		p.pid, _ = strconv.Atoi(filepath.Base(dir))
		p.comm = field(string(status), "Name")
		p.ppid, _ = strconv.Atoi(field(string(status), "PPid"))
		list = append(list, p)
	}
	return list
}

// field is the value of a line "name:\tvalue" of /proc/PID/status.
func field(status, name string) string {
	for line := range strings.Lines(status) {
		if v, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.Join(strings.Fields(v), " ")
		}
	}
	return ""
}

// find returns the pids of the processes whose argv[0] or name is role:
// aisb-gate, aisb-entry, pasta, conmon.
func find(role string) []int {
	var pids []int
	for _, p := range processes() {
		if filepath.Base(p.args[0]) == role || strings.HasPrefix(p.comm, role) {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// leftovers lists what runs may leave on the host: containers, run directories,
// processes.
func leftovers(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for id := range strings.FieldsSeq(asUser(t, "podman", "ps", "--all", "--quiet")) {
		out["container "+id] = true
	}
	runs, err := filepath.Glob(filepath.Join(agent.runtime, "aisb", "aisb-*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range runs {
		out[dir] = true
	}
	for _, role := range []string{"aisb-supervisor", "aisb-gate", "aisb-entry", "pasta", "conmon"} {
		for _, pid := range find(role) {
			out[fmt.Sprintf("process %s %d", role, pid)] = true
		}
	}
	return out
}

// wantNothingLeft returns a function that fails the test unless, within 2 s,
// nothing of the runs since this call is left.
func wantNothingLeft(t *testing.T) func() {
	t.Helper()
	return wantNothingLeftIn(t, 2*time.Second)
}

func wantNothingLeftIn(t *testing.T, limit time.Duration) func() {
	t.Helper()
	before := leftovers(t)
	return func() {
		t.Helper()
		deadline := time.Now().Add(limit)
		for {
			var left []string
			for what := range leftovers(t) {
				if !before[what] {
					left = append(left, what)
				}
			}
			if len(left) == 0 {
				return
			}
			if time.Now().After(deadline) {
				t.Errorf("left behind: %q", left)
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// alive reports whether a process exists, and is no zombie.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.HasPrefix(field(string(status), "State"), "Z")
}

// waitUntil polls until ok, and fails the test after limit.
func waitUntil(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
