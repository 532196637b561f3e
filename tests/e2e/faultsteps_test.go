//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// faultSteps are the steps at which all stand still, and the points of the tests' own
// binary for that: "part-" are ends of parts of a run (AISB_TRACE=1 prints them), the
// others are pid 1's. The steps without a point need none: there the command or a
// podman of the tests' own holds everything up.
var faultSteps = map[string]string{
	"prepare": "part-prepare", // all is ready for podman, the gate starts
	"podman":  "",             // podman was started and has done nothing
	"hello":   "hello",        // pid 1 is there and has said nothing
	"gate":    "part-pasta",   // the gate serves; pid 1 waits for its go
	"apply":   "before",       // pid 1 has all that it needs, and no ruleset
	"verify":  "applied",      // the ruleset is in, and not read back
	"proof":   "verified",     // read back, and not proved
	"drop":    "proved",       // proved; pid 1 is root
	"streams": "dropped",      // pid 1 has nothing any more
	"running": "",
	"stop":    "part-kill",    // the command has been asked to end, and hasn't
	"ended":   "ended",        // pid 1 knows of the command's end, nobody else
	"cleanup": "part-command", // aisb knows
	"scan":    "part-cleanup", // the container is gone
	"removed": "",             // podman is through and has not ended
	"report":  "part-scan",    // the project was looked through
}

// struck is a run with a fault.
type struck struct {
	*live
	fault
	hold, here string // files: all stand still while the first is there, and do so once the second is
}

// tries are what the command of each of these runs does: past the gate, which must fail,
// and through it.
const tries = `curl -s -o /dev/null --max-time 1 --noproxy '*' http://` + originAddr + `/past
	curl -s -o /dev/null --max-time 5 http://allowed.test/listed
	`

// begin starts a run and returns when it has come to the step.
func (f fault) begin(t *testing.T, secret canary) *struck {
	t.Helper()
	point, known := faultSteps[f.step]
	if !known {
		t.Fatalf("there is no step %q", f.step)
	}
	c := call{bin: faulty, env: append([]string{"CANARY=" + secret.value}, f.env...)}
	x := &struck{fault: f}
	script := "touch ran\n" + tries + "exit 7"
	switch {
	case f.step == "stop": // it is killed only once the others go on
		c.dir = faultyProject(t, point, "")
		dir := filepath.Join(c.dir, ".aisb-faults")
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		x.hold = filepath.Join(dir, point)
		script = "trap 'echo stopping; read x; exit 7' TERM; touch ran; echo ready; while :; do sleep 0.02; done"
	case point != "":
		c.dir = faultyProject(t, point, ": >"+inFaults("here")+"; while [ -e "+inFaults(point)+" ]; do sleep 0.01; done")
		dir := filepath.Join(c.dir, ".aisb-faults")
		if err := os.Chmod(dir, 0o777); err != nil { // root of the container is another user
			t.Fatal(err)
		}
		x.hold, x.here = filepath.Join(dir, point), filepath.Join(dir, "here")
	case f.step == "podman" || f.step == "removed":
		c.dir = project(t)
		bin := holdingPodman(t, f.step == "podman")
		c.env = append(c.env, "PATH="+bin+":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")
		x.hold, x.here = filepath.Join(bin, "hold"), filepath.Join(bin, "here")
	default:
		c.dir = project(t)
		script = "touch ran; echo ready; read x\n" + tries + "exit 7"
	}
	flags := slices.Concat([]string{"-e", "CANARY"}, f.flags, allowed)
	if f.detached {
		flags = append(flags, "--detach")
	}
	x.live = c.start(t, flags, sh(script)...)
	x.arrive()
	return x
}

func inFaults(name string) string { return "/project/.aisb-faults/" + name }

// holdingPodman makes a directory with a podman that stands still before it starts a
// container, or after that has ended.
func holdingPodman(t *testing.T, before bool) string {
	t.Helper()
	dir := project(t)
	hold := ": >" + dir + "/here; while [ -e " + dir + "/hold ]; do sleep 0.01; done\n"
	script := "#!/bin/bash\ncase \" $* \" in *' run --rm '*) ;; *) exec /usr/bin/podman \"$@\" ;; esac\n"
	if before {
		script += hold + "exec /usr/bin/podman \"$@\"\n"
	} else {
		script += "/usr/bin/podman \"$@\"; s=$?\n" + hold + "exit $s\n"
	}
	write(t, dir, "hold", "")
	if err := os.Chmod(write(t, dir, "podman", script), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// arrive waits until the run has come to its step.
func (x *struck) arrive() {
	x.t.Helper()
	switch x.step {
	case "running":
		x.waitOut("ready\n")
	case "stop":
		x.waitOut("ready\n")
		x.signal(syscall.SIGTERM)
		x.waitOut("stopping\n")
	default:
		waitUntil(x.t, runTimeout, "step "+x.step, func() bool {
			if _, err := os.Lstat(x.here); err == nil {
				return true
			}
			if !x.detached {
				select {
				case <-x.ended:
					x.t.Fatalf("it ended before the step %s\n%s", x.step, x.stderr)
				default:
				}
			}
			return false
		})
	}
}

// victims are the processes that a word of the table means.
func (x *struck) victims() []int {
	is := func(role string, more func(p process) bool) []int {
		var pids []int
		for _, p := range processes() {
			if filepath.Base(p.args[0]) == role && more(p) {
				pids = append(pids, p.pid)
			}
		}
		return pids
	}
	every := func(process) bool { return true }
	switch x.who {
	case "aisb", "caller":
		return []int{x.cmd.Process.Pid}
	case "supervisor", "gate":
		return is("aisb-"+x.who, every)
	case "pid 1":
		return is("aisb-entry", func(p process) bool { return len(p.args) == 1 })
	case "prober":
		return is("aisb-entry", func(p process) bool { return len(p.args) > 1 })
	case "podman": // it has a second process in the user's namespace
		starts := func(p process) bool { return slices.Contains(p.args, "run") && slices.Contains(p.args, "--rm") }
		return append(is("podman", starts), is("bash", starts)...)
	case "command":
		return is("sh", func(p process) bool { return strings.Contains(strings.Join(p.args, " "), "touch ran") })
	}
	return find(x.who)
}

// strike does it, and waits until it is done.
func (x *struck) strike() {
	x.t.Helper()
	var pids []int
	waitUntil(x.t, runTimeout, x.who+" is there", func() bool {
		pids = x.victims()
		return len(pids) > 0
	})
	how := x.how
	if how == 0 {
		how = syscall.SIGKILL
	}
	undone := x.undone()
	for _, pid := range pids {
		if err := syscall.Kill(pid, how); err != nil && alive(pid) {
			x.t.Fatalf("%s, process %d: %v", x.who, pid, err)
		}
	}
	for _, pid := range pids {
		switch how {
		case syscall.SIGKILL:
			waitUntil(x.t, runTimeout, x.who+" has ended", func() bool { return !alive(pid) })
		case syscall.SIGSTOP:
			waitStopped(x.t, pid)
		}
	}
	if how == syscall.SIGSTOP { // the user has had enough
		x.signal(syscall.SIGTERM)
	}
	undone()
}

// undone returns a function that waits until whoever the fault tells to give the start
// up has heard of it, where pid 1 would otherwise be faster: it cuts the lifeline then,
// which is a socket of its own.
func (x *struck) undone() func() {
	pid := x.cmd.Process.Pid
	switch {
	case strings.HasPrefix(faultSteps[x.step], "part-") || x.ran:
		return func() {} // aisb itself stands still
	case x.who == "caller":
		pid = find("aisb-supervisor")[0]
	case x.who != "aisb" || x.how != syscall.SIGTERM:
		return func() {}
	}
	before := sockets(pid)
	return func() {
		x.t.Helper()
		waitUntil(x.t, runTimeout, "the lifeline is cut", func() bool { return sockets(pid) < before })
	}
}

// sockets counts those that a process has open.
func sockets(pid int) int {
	fds, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid)) // the pattern is well formed
	n := 0
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// goOn lets the others move again.
func (x *struck) goOn() {
	x.t.Helper()
	switch {
	case x.step == "stop" && x.who == "pid 1":
		// It ends by that. Killed meanwhile, it would have ended as it was asked to.
	case x.hold != "":
		if err := os.Remove(x.hold); err != nil {
			x.t.Fatal(err)
		}
	case x.step == "running" && (x.who == "gate" || x.who == "pasta"): // else it goes on waiting
		x.say("")
	}
}

// end waits for the end. Of a detached run that is the one that was told to who asks.
func (x *struck) end() outcome {
	x.t.Helper()
	o := x.wait(runTimeout)
	if !x.detached || !x.ran {
		return o
	}
	o.wantStatus(x.t, 0)
	return call{dir: x.cmd.Dir}.do(x.t, "wait", strings.TrimSpace(o.stdout))
}

// has reports whether the project has a file.
func (x *struck) has(name string) bool {
	_, err := os.Lstat(filepath.Join(x.cmd.Dir, name))
	return err == nil
}

// traces are what runs may leave: leftovers, volumes, and podman's own processes.
func traces(t *testing.T) (map[string]bool, error) {
	t.Helper()
	out, err := leftovers(t)
	err = errors.Join(err, podmanLists(t, "volume", out, "volume", "ls", "--quiet"))
	for _, p := range processes() {
		if filepath.Base(p.args[0]) == "podman" && slices.Contains(p.args, "--rm") {
			out[fmt.Sprintf("process podman %d", p.pid)] = true
		}
	}
	return out, err
}

// wantNoTrace is wantNothingLeft for traces, perhaps but for the run's directory.
func wantNoTrace(t *testing.T, butDir bool) func() {
	t.Helper()
	return wantGone(t, traces, func(what string) bool { return butDir && strings.HasPrefix(what, agent.runtime) })
}
