//go:build linux

package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

var nativeEndian = binary.NativeEndian

// holderName is argv[0] of this binary as the process that holds a container's
// lifeline, to be killed.
const holderName = "spike-holder"

// held is what the holder says: whom it holds.
type held struct {
	Name                         string
	Podman, Conmon, First, Pasta int
	Argv                         []string
}

func lifelineClaims() []claim {
	return []claim{
		{"b1", "kill -9 of the process that holds the other end: the first process sees the end of file, and container, pasta, conmon and podman are gone within 5 s, also from podman's list", claimLifeline},
	}
}

// holderMain starts a container and waits to be killed.
func holderMain() int {
	var e environment
	if err := json.Unmarshal([]byte(os.Args[1]), &struct{ Image, Self, Dir, Conf *string }{&e.image, &e.self, &e.dir, &e.conf}); err != nil {
		return 1
	}
	b, argv, err := e.start(plan{})
	if err != nil {
		fmt.Fprintln(os.Stderr, "spike-holder: error:", err)
		return 1
	}
	h := held{Name: b.name, Podman: b.cmd.Process.Pid, First: b.pid, Conmon: parent(b.pid), Argv: argv}
	h.Pasta, _ = findPasta(b.pid)
	if err := json.NewEncoder(os.Stdout).Encode(h); err != nil {
		return 1
	}
	for {
		time.Sleep(time.Hour) // the lifeline is held by being alive
	}
}

func claimLifeline(t *trial) error {
	text, err := json.Marshal(struct{ Image, Self, Dir, Conf string }{t.env.image, t.env.self, t.env.dir, t.env.conf})
	if err != nil {
		return err
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{holderName, string(text)}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var h held
	err = json.NewDecoder(stdout).Decode(&h)
	t.did(h.Argv)
	if err != nil {
		return errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	who := map[string]int{"podman": h.Podman, "conmon": h.Conmon, "first process": h.First, "pasta": h.Pasta}
	for _, name := range []string{"podman", "conmon", "first process", "pasta"} {
		if who[name] <= 1 {
			return fmt.Errorf("%s is not there", name)
		}
	}
	t.saw("holder %d, podman %d, conmon %d, first process %d, pasta %d",
		cmd.Process.Pid, h.Podman, h.Conmon, h.First, h.Pasta)
	start := time.Now()
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	_ = cmd.Wait()
	for len(who) > 0 && time.Since(start) < 5*time.Second {
		for name, pid := range who {
			if !alive(pid) {
				t.saw("%s gone after %d ms", name, time.Since(start).Milliseconds())
				delete(who, name)
			}
		}
		time.Sleep(time.Millisecond)
	}
	if len(who) > 0 {
		return fmt.Errorf("after %v still there: %v", time.Since(start), who)
	}
	out, _, err := t.podman("ps", "--all", "--format", "{{.Names}}")
	if err == nil && slices.Contains(strings.Fields(out), h.Name) {
		err = errors.New("podman still lists it")
	}
	return err
}

// alive tells whether a process exists and is no zombie.
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err == nil && !strings.Contains(string(status), "\nState:\tZ")
}

// parent is the PPid of a process, or 0.
func parent(pid int) int {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if v, ok := strings.CutPrefix(line, "PPid:"); ok {
			n, _ := strconv.Atoi(strings.TrimSpace(v))
			return n
		}
	}
	return 0
}
