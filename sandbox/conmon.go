package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// holdConmon takes hold of the container's conmon, which is the parent of its first
// process. One that has ended before has left that process to whoever takes in orphans:
// init, or the user's service manager, which is nothing that aisb may ever signal.
func (p *podmanProcess) holdConmon(first int) {
	parent, err := parentOf("/proc", first)
	if err != nil {
		return // the container has ended
	}
	if !olderThan("/proc", parent, p.cmd.Process.Pid) {
		p.conmon = openHandle(parent)
	}
	p.alone = p.conmon == noHandle
}

// olderThan reports whether a process began before another did, by the machine's ticks.
// podman starts conmon, so what is older than podman is none.
func olderThan(proc string, pid, other int) bool {
	its, err1 := startedAt(proc, pid)
	others, err2 := startedAt(proc, other)
	return err1 == nil && err2 == nil && its < others
}

// startedAt is when a process began, in ticks since the machine did (proc_pid_stat(5)).
func startedAt(proc string, pid int) (uint64, error) {
	text, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, err
	}
	const after = 19 // fields after the name, which may hold anything
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) <= after {
		return 0, fmt.Errorf("process %d: %q has no start time", pid, text)
	}
	return strconv.ParseUint(fields[after], 10, 64)
}
