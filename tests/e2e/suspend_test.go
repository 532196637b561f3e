//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// suspension is how long the tests stop a process: AISB_E2E_SUSPEND, or some
// seconds. It is longer than what the watchdog looks twice in.
func suspension(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv("AISB_E2E_SUSPEND")
	if text == "" {
		return 4 * time.Second
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("AISB_E2E_SUSPEND: %v", err)
	}
	return d
}

// restless asks the gate for each line that it reads, and all the while tries to
// get past it. The answer is the status over http, by a connection that the gate may
// have kept, or that of CONNECT, which opens one.
const restless = `while :; do
		curl -s -o /dev/null --max-time 2 --noproxy '*' http://` + originAddr + `/direct
		curl -s -o /dev/null --max-time 2 --noproxy '*' -g 'http://[` + evilAddr6 + `]/direct'
		sleep 0.1
	done &
	echo ready
	while read -r path; do
		case $path in
		tunnel-*) code=$(curl -sk -o /dev/null -w '%{http_connect}' https://allowed.test/$path) ;;
		*) code=$(curl -sS -o /dev/null -w '%{http_code}' http://allowed.test/$path) ;;
		esac
		echo "$path $code"
	done
	exit 5`

// wantOnlyGate fails the test if anything but what the gate lets through has
// reached the internet since mark.
func wantOnlyGate(t *testing.T, mark mark) {
	t.Helper()
	for _, e := range internet.since(t, mark) {
		if e.Fake == "dns" && e.Name == "allowed.test" || strings.HasPrefix(e.Fake, "http") && e.Host == "allowed.test" && e.Path != "/direct" {
			continue
		}
		t.Errorf("reached the internet: %+v", e)
	}
}

// TestSuspended: a part of a run that stands still lets nothing out, ends
// nothing, and work goes on where it was when it moves again. A notebook that
// sleeps stops all of them at once.
func TestSuspended(t *testing.T) {
	pause := suspension(t)
	signal := func(sig syscall.Signal, find func(l *live) int) func(l *live) {
		return func(l *live) {
			pid := find(l)
			if err := syscall.Kill(pid, sig); err != nil {
				t.Fatal(err)
			}
			if sig == syscall.SIGSTOP {
				waitStopped(t, pid)
			}
		}
	}
	type part struct {
		name     string
		pid      func(l *live) int
		silences bool // what is asked meanwhile must not arrive
	}
	parts := []part{
		{"gate", (*live).gate, true},
		{"aisb", func(l *live) int { return l.cmd.Process.Pid }, true}, // it hands the request on
		{"pid 1", func(l *live) int { return child(l.t, "aisb-entry") }, false},
		{"conmon", func(l *live) int { return child(l.t, "conmon") }, false},
	}
	if backend != "inner" {
		parts = append(parts, part{"pasta", func(l *live) int { return child(l.t, "pasta") }, true})
	}
	for _, p := range parts {
		t.Run(p.name, func(t *testing.T) {
			pause := pause
			if p.name == "pasta" {
				// Its clients inside don't stand still: after a minute a connection
				// that was begun meanwhile failed. What sleeps, sleeps with them: "all".
				pause = min(pause, 4*time.Second)
			}
			suspended(t, pause, p.silences, signal(syscall.SIGSTOP, p.pid), signal(syscall.SIGCONT, p.pid))
		})
	}
	t.Run("container", func(t *testing.T) {
		var name string
		suspended(t, pause, true, func(*live) {
			name = containerName(t)
			podman(t, "pause", name)
		}, func(*live) { podman(t, "unpause", name) })
	})
	t.Run("all", func(t *testing.T) {
		each := func(sig syscall.Signal) func(l *live) {
			return func(l *live) {
				for _, p := range parts {
					signal(sig, p.pid)(l)
				}
			}
		}
		suspended(t, pause, true, each(syscall.SIGSTOP), each(syscall.SIGCONT))
	})
}

// waitStopped waits until each thread of a process stands still: SIGSTOP is taken by
// one of them, and the others go on until that one has told them
// (do_signal_stop in kernel/signal.c).
func waitStopped(t *testing.T, pid int) {
	t.Helper()
	waitUntil(t, runTimeout, fmt.Sprintf("process %d stands still", pid), func() bool {
		tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(tasks) == 0 {
			t.Fatalf("the threads of process %d: %q, %v", pid, tasks, err)
		}
		for _, task := range tasks {
			stat, err := os.ReadFile(task)
			if err != nil {
				continue // that thread has ended meanwhile
			}
			_, rest, _ := strings.Cut(string(stat), ") ") // after the name, proc_pid_stat(5)
			if !strings.HasPrefix(rest, "T") {
				return false
			}
		}
		return true
	})
}

// suspended runs a sandbox and stops a part of it for a time.
func suspended(t *testing.T, pause time.Duration, silences bool, stop, goOn func(l *live)) {
	gone := wantNothingLeft(t)
	mark := internet.mark()
	// A stream that goes on over the pause loses nothing.
	events := int((pause + 2*time.Second) / (100 * time.Millisecond))
	l := call{dir: project(t)}.start(t, allowed, sh(fmt.Sprintf(
		"curl -sSN 'http://allowed.test/stream/%d?every=100ms' | grep -c ^data >stream &\n%s", events, restless))...)
	l.waitOut("ready\n")
	l.say("before")
	l.waitOut("before 200\n")
	stop(l)
	begin := time.Now()
	l.say("meanwhile")
	time.Sleep(pause) // that is what is tried
	for _, e := range internet.since(t, mark, "http") {
		if silences && e.Path == "/meanwhile" {
			t.Error("a request came through while what it passes stood still")
		}
	}
	select {
	case <-l.ended:
		t.Fatalf("the run ended after %v\nstderr: %s", time.Since(begin), l.stderr)
	default:
	}
	goOn(l)
	l.waitOut("meanwhile 200\n")
	l.say("after")
	l.waitOut("after 200\n")
	waitUntil(t, runTimeout, "the stream ends", func() bool {
		text, err := os.ReadFile(l.cmd.Dir + "/stream")
		return err == nil && len(text) > 0
	})
	if text, _ := os.ReadFile(l.cmd.Dir + "/stream"); string(text) != fmt.Sprintln(events) {
		t.Errorf("%s of %d events of the stream came", strings.TrimSpace(string(text)), events)
	}
	l.stdin.Close()
	o := l.wait(runTimeout)
	o.wantStatus(t, 5)
	wantNot(t, "stderr", o.stderr, "error", "the gate had ended")
	wantIn(t, "receipt", o.stderr, "fence proved")
	wantOnlyGate(t, mark)
	gone()
}
