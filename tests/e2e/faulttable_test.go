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

	"golang.org/x/sys/unix"
)

// fault is a process that is struck at a step of a start or of a stop, and what must be
// seen of it. docs/faults.md has the same rows.
type fault struct {
	who, step string
	how       syscall.Signal // SIGKILL when 0
	detached  bool           // the run is one of --detach
	backend   string         // where only that has such a process
	status    int            // of aisb; -1 where a signal ended it
	says      string         // its error
	ran       bool           // the command has run
	env       []string
	flags     []string
	dir       bool // the run's directory in XDG_RUNTIME_DIR stays until a later run
}

// faultTable is in the order of a run. Before "running" no command has run; afterwards
// it has ended with status 7 by itself unless the fault, or the stop, ends it.
var faultTable = []fault{
	// aisb: nobody is left to say anything, and its lifelines end all the rest.
	{who: "aisb", step: "prepare", status: -1},
	{who: "aisb", step: "podman", status: -1},
	{who: "aisb", step: "hello", status: -1},
	{who: "aisb", step: "gate", status: -1},
	{who: "aisb", step: "apply", status: -1},
	{who: "aisb", step: "verify", status: -1},
	{who: "aisb", step: "proof", status: -1},
	{who: "aisb", step: "drop", status: -1},
	{who: "aisb", step: "streams", status: -1},
	{who: "aisb", step: "stop", status: -1, ran: true},
	{who: "aisb", step: "ended", status: -1, ran: true},
	{who: "aisb", step: "cleanup", status: -1, ran: true},
	{who: "aisb", step: "scan", status: -1, ran: true, dir: true},
	{who: "aisb", step: "report", status: -1, ran: true, dir: true},

	// A signal to end is answered at every step, and the start undone.
	{who: "aisb", step: "prepare", how: syscall.SIGTERM, status: 143, says: "interrupted before the command ran"},
	{who: "aisb", step: "hello", how: syscall.SIGTERM, status: 143, says: "interrupted before the command ran"},
	{who: "aisb", step: "proof", how: syscall.SIGTERM, status: 143, says: "interrupted before the command ran"},
	{who: "aisb", step: "streams", how: syscall.SIGTERM, status: 143, says: "interrupted before the command ran"},
	{who: "aisb", step: "cleanup", how: syscall.SIGTERM, status: 7, ran: true},

	{who: "gate", step: "prepare", status: 125, says: "the gate's process does not answer"},
	{who: "gate", step: "hello", status: 125, says: "the gate's process does not answer"},
	{who: "gate", step: "gate", status: 125, says: "the gate's process does not answer", backend: "inner"},
	{who: "gate", step: "gate", status: 78, says: "proof of the fence", backend: "pasta"},
	{who: "gate", step: "verify", status: 125, says: "the gate's process does not answer", backend: "inner"},
	{who: "gate", step: "proof", status: 78, says: "proof of the fence", backend: "pasta"},
	{who: "gate", step: "drop", status: 7, says: "the gate has ended", ran: true},
	{who: "gate", step: "streams", status: 7, says: "the gate has ended", ran: true},
	{who: "gate", step: "stop", status: 137, says: "the gate has ended", ran: true},
	{who: "gate", step: "ended", status: 7, says: "the gate has ended", ran: true},
	{who: "gate", step: "cleanup", status: 7, says: "the gate has ended", ran: true},

	{who: "podman", step: "podman", status: 125, says: "container did not start"},
	{who: "podman", step: "hello", status: 125, says: "podman has ended before the command ran"},
	{who: "podman", step: "gate", status: 125, says: "podman has ended before the command ran"},
	{who: "podman", step: "proof", status: 125, says: "podman has ended before the command ran"},
	{who: "podman", step: "running", status: 125, says: "the sandbox was stopped: podman has ended before it", ran: true},
	{who: "podman", step: "ended", status: 7, ran: true},
	{who: "podman", step: "removed", status: 7, ran: true},

	{who: "conmon", step: "hello", status: 125, says: "podman has ended before the command ran"},
	{who: "conmon", step: "proof", status: 125, says: "podman has ended before the command ran"},
	{who: "conmon", step: "running", status: 125, says: "the sandbox was stopped: podman has ended before it", ran: true},
	{who: "conmon", step: "stop", status: 137, ran: true},
	{who: "conmon", step: "ended", status: 7, ran: true},

	{who: "pasta", step: "hello", status: 78, says: "no pasta process serves", backend: "pasta"},
	{who: "pasta", step: "gate", status: 78, says: "proof of the fence", backend: "pasta"},
	{who: "pasta", step: "proof", status: 78, says: "proof of the fence", backend: "pasta"},
	{who: "pasta", step: "streams", status: 7, ran: true, backend: "pasta"},
	{who: "pasta", step: "ended", status: 7, ran: true, backend: "pasta"},

	{who: "pid 1", step: "hello", status: 125, says: "container did not start"},
	{who: "pid 1", step: "gate", status: 125, says: "entrypoint ended without a word"},
	{who: "pid 1", step: "apply", status: 125, says: "entrypoint ended without a word"},
	{who: "pid 1", step: "verify", status: 125, says: "entrypoint ended without a word"},
	{who: "pid 1", step: "proof", status: 125, says: "entrypoint ended without a word"},
	{who: "pid 1", step: "drop", status: 125, says: "entrypoint ended without a word"},
	{who: "pid 1", step: "streams", status: 125, says: "entrypoint ended without a word"},
	{who: "pid 1", step: "stop", status: 137, says: "pid 1 ended without handing over a status", ran: true},
	{who: "pid 1", step: "ended", status: 137, says: "pid 1 ended without handing over a status", ran: true},
	{who: "pid 1", step: "proof", how: syscall.SIGSTOP, status: 143, says: "interrupted before the command ran"},

	{who: "prober", step: "gate", status: 78, says: "the proof's process"},
	{who: "prober", step: "apply", status: 78, says: "proof of the fence"},
	{who: "prober", step: "proof", status: 78, says: "proof of the fence"},

	{who: "command", step: "running", status: 137, ran: true},
	{who: "command", step: "stop", status: 137, ran: true},

	{who: "supervisor", step: "prepare", detached: true, status: 137, says: "the supervisor was ended before the command ran"},
	{who: "supervisor", step: "hello", detached: true, status: 137, says: "the supervisor was ended before the command ran"},
	{who: "supervisor", step: "proof", detached: true, status: 137, says: "the supervisor was ended before the command ran"},
	{who: "supervisor", step: "streams", detached: true, status: 137, says: "the supervisor was ended before the command ran"},
	{who: "supervisor", step: "ended", detached: true, status: 137, says: "its supervisor was killed", ran: true},
	{who: "supervisor", step: "cleanup", detached: true, status: 137, says: "its supervisor was killed", ran: true},
	{who: "supervisor", step: "report", detached: true, status: 137, says: "its supervisor was killed", ran: true, dir: true},
	{who: "caller", step: "prepare", detached: true, status: -1},
	{who: "caller", step: "proof", detached: true, status: -1},
}

func (f fault) name() string {
	name := f.who + " at " + f.step
	if f.how != 0 && f.how != syscall.SIGKILL {
		name += " by " + unix.SignalName(f.how)
	}
	return name
}

// networked are those who have to do with the backend. How the others end is the same
// with each, and is tried with inner.
var networked = map[string]bool{"aisb": true, "gate": true, "pasta": true, "pid 1": true}

// TestFaultTable strikes each process at each step of a start and of a stop, while the
// others stand still: nothing is left, nothing gets out, and whoever is left says what
// happened.
func TestFaultTable(t *testing.T) {
	secret, gone := newCanary(t), wantNoTrace(t, false)
	struck := 0
	for _, f := range faultTable {
		if f.backend != "" && f.backend != backend || backend == "pasta" && !networked[f.who] {
			continue
		}
		struck++
		t.Run(f.name(), func(t *testing.T) { f.try(t, secret) })
	}
	if struck < 40 {
		t.Errorf("%d faults were tried, want 40 or more", struck)
	}
	secret.wantInNoProcess(t)
	secret.wantInNoFile(t, "")
	age(t, filepath.Join(agent.runtime, "aisb", "aisb-*"))
	aisb(t, allowed, "true").wantStatus(t, 0) // removes what had to stay
	gone()
}

// age makes directories old: a run leaves alone what is younger than a minute.
func age(t *testing.T, pattern string) {
	t.Helper()
	dirs, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	then := time.Now().Add(-time.Hour)
	for _, dir := range dirs {
		if err := os.Chtimes(dir, then, then); err != nil {
			t.Fatal(err)
		}
	}
}

// try strikes and looks.
func (f fault) try(t *testing.T, secret canary) {
	gone, mark := wantNoTrace(t, f.dir), internet.mark()
	x := f.begin(t, secret)
	x.strike()
	x.goOn()
	o := x.end()
	f.judge(t, x, o)
	gone()
	for _, e := range internet.since(t, mark) {
		if !f.mayReach(e.Fake, e.Name, e.Host, e.Path) {
			t.Errorf("reached the internet: %+v", e)
		}
	}
	t.Logf("status %d: %s", o.status, strings.ReplaceAll(strings.TrimSpace(o.stderr), "\n", " / "))
}

// judge compares the end with what must be seen.
func (f fault) judge(t *testing.T, x *struck, o outcome) {
	t.Helper()
	if o.status != f.status {
		t.Errorf("status %d, want %d\n%s", o.status, f.status, o.stderr)
	}
	if ran := x.has("ran"); ran != f.ran {
		t.Errorf("the command has run: %v, want %v\n%s", ran, f.ran, o.stderr)
	}
	wantNot(t, "messages", o.stderr, "goroutine ", "panic")
	if f.status == -1 {
		return
	}
	if f.says != "" {
		wantIn(t, "error", o.stderr, "aisb: error: ", f.says)
	}
	if !f.ran && f.status != 143 && f.who != "supervisor" {
		wantIn(t, "error", o.stderr, "aisb: hint: ")
	}
	if f.ran && !f.detached {
		wantIn(t, "receipt", o.stderr, fmt.Sprintf("with status %d", f.status), "fence proved")
	}
	if n := strings.Count("\n"+o.stderr, "\naisb: error: "); n > 1 {
		t.Errorf("%d lines of error:\n%s", n, o.stderr)
	}
}

// mayReach reports whether an event of the internet is what the command may do: to ask
// the gate for the allowed host, as long as it, or its pasta, lives.
func (f fault) mayReach(fake, name, host, path string) bool {
	late := f.step == "ended" || f.step == "cleanup"
	if !f.ran || !late && (f.who == "gate" || f.who == "pasta") {
		return false
	}
	return fake == "dns" && name == "allowed.test" || fake == "http" && host == "allowed.test" && path == "/listed"
}
