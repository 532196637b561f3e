//go:build e2e

package e2e

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// gate is the pid of the run's gate, which aisb itself has started.
func (l *live) gate() int {
	l.t.Helper()
	for _, p := range processes() {
		if p.ppid == l.cmd.Process.Pid && p.args[0] == "aisb-gate" {
			return p.pid
		}
	}
	l.t.Fatal("the run has no gate")
	return 0
}

// Point 10: the gate is killed while a command runs: nothing is reached any
// more, clients fail at once, and aisb says so.
func TestPoint10GateKilled(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, allowed, sh(`curl -sS http://allowed.test/; echo ready
		while read -r line; do
			start=$(date +%s%N)
			curl -s --max-time 10 http://allowed.test/after; echo "http $?"
			curl -s --max-time 10 -k https://allowed.test/after; echo "https $?"
			curl -s --max-time 10 --noproxy '*' http://`+originAddr+`/after; echo "direct $?"
			echo "took $(( ($(date +%s%N) - start) / 1000000 )) ms"; echo done
		done`)...)
	l.waitOut("ready\n")
	if err := syscall.Kill(l.gate(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.waitErr("aisb: error: the gate has ended")
	mark := internet.mark()
	l.say("now")
	l.waitOut("done\n")
	text := l.stdout.String()
	for _, what := range []string{"http", "https", "direct"} {
		if strings.Contains(text, "\n"+what+" 0\n") {
			t.Errorf("egress without a gate:\n%s", text)
		}
		if strings.Contains(text, what+" 28\n") { // CURLE_OPERATION_TIMEDOUT
			t.Errorf("a client waits:\n%s", text)
		}
	}
	_, took, _ := strings.Cut(text, "took ")
	took, _, _ = strings.Cut(took, " ms")
	if ms, err := strconv.Atoi(took); err != nil || ms >= 9000 { // one that waits takes 10 s
		t.Errorf("three clients took %s ms to fail", took)
	}
	internet.wantSilence(t, mark)
	l.stdin.Close()
	o := l.wait(runTimeout)
	wantIn(t, "receipt", o.stderr, "the gate had ended before")
	gone()
}

// Point 10: aisb is killed: container, gate and pasta are gone within 2 s, and
// nothing is left.
func TestPoint10AisbKilled(t *testing.T) {
	gone := wantNothingLeft(t)
	dir := project(t)
	// Children that ignore signals and sit in sessions of their own.
	l := call{dir: dir}.start(t, allowed, sh(`trap '' TERM HUP INT; setsid sh -c 'trap "" TERM HUP; while :; do sleep 1; done' & echo ready; sleep 1000`)...)
	l.waitOut("ready\n")
	pids := append(inSandbox(t), l.gate(), child(t, "aisb-entry"))
	l.signal(syscall.SIGKILL)
	<-l.ended
	waitUntil(t, 2*time.Second, "container and gate are gone", func() bool {
		return !slices.ContainsFunc(pids, alive)
	})
	gone()
}

// TestKilledWhileStarting kills aisb at several moments of the start. podman goes
// on until the container sees that aisb is gone, and on a busy machine that takes
// as long as a start.
func TestKilledWhileStarting(t *testing.T) {
	gone := wantNothingLeft(t)
	for _, role := range []string{"aisb-gate", "pasta", "aisb-entry"} {
		if role == "pasta" && backend == "inner" {
			continue
		}
		l := call{dir: project(t)}.start(t, allowed, "sleep", "1000")
		waitUntil(t, runTimeout, role+" is there", func() bool { return len(find(role)) > 0 })
		l.signal(syscall.SIGKILL)
		<-l.ended
		gone()
	}
}

// TestStoppedWhileStarting: the status is the signal's.
func TestStoppedWhileStarting(t *testing.T) {
	gone := wantNothingLeft(t)
	for sig, status := range map[syscall.Signal]int{syscall.SIGTERM: 143, syscall.SIGINT: 130, syscall.SIGHUP: 129} {
		// It comes no further than this.
		dir := faultyProject(t, "before", "sleep 1000")
		l := call{dir: dir, bin: faulty}.start(t, allowed, "true")
		waitUntil(t, runTimeout, "the entrypoint is there", func() bool { return len(find("aisb-entry")) > 0 })
		l.signal(sig)
		o := l.wait(runTimeout)
		o.wantStatus(t, status)
		wantIn(t, "error", o.stderr, "aisb: error: interrupted before the command ran")
		gone()
	}
}

// stopLimit bounds a stop in these tests. On an idle machine it takes 0.3 s, or
// 1.3 s if the command ignores the signal; podman's clean-up takes its time on
// a busy one. A stop that is left to podman takes 10 s (podman-stop(1)).
const stopLimit = 9 * time.Second

// TestStop: SIGTERM and SIGHUP end a run soon, whatever the command makes of
// them, and SIGINT is the command's to answer.
func TestStop(t *testing.T) {
	for _, tt := range []struct {
		name   string
		sig    syscall.Signal
		script string
		status int
	}{
		{"by the default action", syscall.SIGTERM, "echo ready; sleep 1000", 143},
		{"answered", syscall.SIGTERM, "trap 'echo bye; exit 5' TERM; echo ready; while :; do sleep 0.1; done", 5},
		{"ignored", syscall.SIGTERM, "trap '' TERM; echo ready; while :; do sleep 0.1; done", 137},
		{"hung up", syscall.SIGHUP, "echo ready; sleep 1000", 129},
		{"interrupted", syscall.SIGINT, "trap 'exit 6' INT; echo ready; while :; do sleep 0.1; done", 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			l := call{dir: project(t)}.start(t, allowed, sh(tt.script)...)
			l.waitOut("ready\n")
			l.signal(tt.sig)
			o := l.wait(runTimeout)
			o.wantStatus(t, tt.status)
			if o.took >= stopLimit {
				t.Errorf("it took %v", o.took)
			}
			gone()
		})
	}
}

// TestPastaKilled leaves a sandbox that reaches nothing, and aisb says so.
func TestPastaKilled(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, allowed, sh(`echo ready; read x; curl -s --max-time 2 http://allowed.test/; echo "status $?"`)...)
	l.waitOut("ready\n")
	mark := internet.mark()
	if err := syscall.Kill(child(t, "pasta"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.waitErr("aisb: error: pasta has ended: the sandbox reaches nothing any more\n")
	l.say("")
	l.waitOut("status ")
	wantNot(t, "output", l.stdout.String(), "status 0")
	internet.wantSilence(t, mark)
	wantIn(t, "receipt", l.wait(runTimeout).stderr, "pasta had ended before")
	gone()
}

// TestPidOneKilled: a sandbox whose pid 1 is killed from outside has no status of
// the command's, and aisb says so.
func TestPidOneKilled(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, allowed, sh("echo ready; sleep 1000")...)
	l.waitOut("ready\n")
	if err := syscall.Kill(child(t, "aisb-entry"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	o := l.wait(runTimeout)
	o.wantStatus(t, 137)
	wantIn(t, "error", o.stderr, "aisb: error: the container's pid 1 ended without handing over a status", "aisb: hint: ")
	gone()
}

// TestHungPodman: a stop is a stop, also of a container that is paused, and of
// one whose conmon can't tell podman of its end.
func TestHungPodman(t *testing.T) {
	for _, tt := range []struct {
		name string
		hang func(t *testing.T, l *live)
	}{
		{"paused", func(t *testing.T, _ *live) { asUser(t, "podman", "pause", containerName(t)) }},
		{"paused, and told more than its socket holds", func(t *testing.T, l *live) {
			asUser(t, "podman", "pause", containerName(t))
			for range 3000 { // some hundred are enough, if each is passed on
				l.signal(syscall.SIGUSR1)
				time.Sleep(500 * time.Microsecond)
			}
		}},
		{"stopped conmon", func(t *testing.T, _ *live) {
			conmon := child(t, "conmon")
			if err := syscall.Kill(conmon, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			waitStopped(t, conmon)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			l := call{dir: project(t)}.start(t, allowed, sh("trap 'exit 9' TERM; echo ready; while :; do sleep 0.1; done")...)
			l.waitOut("ready\n")
			tt.hang(t, l)
			l.signal(syscall.SIGTERM)
			o := l.wait(runTimeout)
			if want := map[bool]int{true: 137, false: 9}[strings.HasPrefix(tt.name, "paused")]; o.status != want {
				t.Errorf("status %d, want %d\n%s", o.status, want, o.stderr)
			}
			t.Logf("it took %v", o.took)
			gone()
		})
	}
}

// TestPodmanHangsWhileStarting: one signal ends a run whose podman waits for
// ever, another one at once.
func TestPodmanHangsWhileStarting(t *testing.T) {
	bin := project(t)
	if err := os.Chmod(write(t, bin, "podman", "#!/bin/sh\ntrap '' TERM INT HUP\nexec sleep 1000 <&0\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	hung := func() (l *live, podman int) {
		l = call{dir: project(t), env: []string{"PATH=" + bin + ":/usr/bin:/bin"}}.start(t, allowed, "true")
		waitUntil(t, runTimeout, "podman is there", func() bool {
			list := processes()
			i := slices.IndexFunc(list, func(p process) bool { return p.ppid == l.cmd.Process.Pid && p.comm == "sleep" })
			if i >= 0 {
				podman = list[i].pid
			}
			return i >= 0
		})
		return l, podman
	}
	l, _ := hung()
	l.signal(syscall.SIGTERM)
	o := l.wait(runTimeout)
	o.wantStatus(t, 143)
	wantIn(t, "error", o.stderr, "aisb: error: interrupted before the command ran")
	t.Logf("one signal: %v", o.took)

	l, podman := hung()
	defer syscall.Kill(podman, syscall.SIGKILL)
	waitUntil(t, stopLimit, "an impatient ^C ends it", func() bool {
		l.signal(syscall.SIGINT)
		select {
		case <-l.ended:
			return true
		case <-time.After(100 * time.Millisecond):
			return false
		}
	})
}

// TestConmonKilled: podman knows nothing of the end then, and conmon, which
// would clean up, is gone.
func TestConmonKilled(t *testing.T) {
	gone := wantNothingLeft(t)
	l := call{dir: project(t)}.start(t, allowed, sh("echo ready; read x; exit 5")...)
	l.waitOut("ready\n")
	if err := syscall.Kill(child(t, "conmon"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	l.say("")
	o := l.wait(runTimeout)
	o.wantStatus(t, 5)
	t.Logf("it took %v", o.took)
	gone()
}

// TestIgnoredSignals: who starts aisb by nohup means its end by SIGHUP not to
// be one, neither before the command runs nor later.
func TestIgnoredSignals(t *testing.T) {
	dir := faultyProject(t, "before", "sleep 3")
	args := append([]string{"-c", `trap '' HUP INT; exec "$0" "$@"`, faulty}, runArgs(allowed, sh("echo ready; read x; exit 5")...)...)
	l := call{dir: dir, bin: "/bin/sh"}.startAny(t, args...)
	waitUntil(t, runTimeout, "the entrypoint is there", func() bool { return len(find("aisb-entry")) > 0 })
	l.signal(syscall.SIGHUP)
	l.signal(syscall.SIGINT)
	l.waitOut("ready\n")
	l.signal(syscall.SIGHUP)
	l.signal(syscall.SIGINT)
	l.say("")
	l.wait(runTimeout).wantStatus(t, 5)
}
