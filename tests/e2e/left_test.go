//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// podmanLists adds what podman lists to a set. It may fail while something goes.
func podmanLists(t *testing.T, what string, to map[string]bool, args ...string) error {
	t.Helper()
	o := call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, args...)
	if o.status != 0 {
		return fmt.Errorf("podman %q: status %d: %s", args, o.status, o.stderr)
	}
	for name := range strings.FieldsSeq(o.stdout) {
		to[what+" "+name] = true
	}
	return nil
}

// leftovers lists what runs may leave on the host: containers, run directories,
// processes.
func leftovers(t *testing.T) (map[string]bool, error) {
	t.Helper()
	out := map[string]bool{}
	listed := podmanLists(t, "container", out, "ps", "--all", "--quiet")
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
	return out, listed
}

// goneLimit is only how long a test waits for what is left to go: who is to be gone
// sooner is looked at by the tests of that. podman's own removal of a container takes
// its time on a busy machine.
const goneLimit = 20 * time.Second

// wantNothingLeft returns a function that fails the test unless, soon, nothing of the
// runs since this call is left.
func wantNothingLeft(t *testing.T) func() {
	t.Helper()
	return wantGone(t, leftovers, func(string) bool { return false })
}

// wantGone is wantNothingLeft for what look finds, but for some of it.
func wantGone(t *testing.T, look func(*testing.T) (map[string]bool, error), but func(what string) bool) func() {
	t.Helper()
	var before map[string]bool
	var err error
	for begin := time.Now(); ; {
		if before, err = look(t); err == nil {
			break
		}
		if time.Since(begin) > goneLimit {
			t.Fatal(err)
		}
	}
	return func() {
		t.Helper()
		for begin := time.Now(); ; time.Sleep(20 * time.Millisecond) {
			left, err := look(t)
			maps.DeleteFunc(left, func(what string, _ bool) bool { return before[what] || but(what) })
			if err == nil && len(left) == 0 {
				return
			}
			if time.Since(begin) > goneLimit {
				t.Errorf("left behind: %q (%v)", slices.Sorted(maps.Keys(left)), err)
				return
			}
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
