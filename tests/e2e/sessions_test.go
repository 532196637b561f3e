//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestPs: ps lists a sandbox with what it is while it runs, and not after.
func TestPs(t *testing.T) {
	gone := wantNothingLeft(t)
	s := waiting(t)
	list := s.ps(t)
	if len(list) != 1 {
		t.Fatalf("%+v", list)
	}
	r := list[0]
	want := backend
	if want == "" {
		want = "pasta"
	}
	if r.State != "running" || r.PID != s.cmd.Process.Pid || r.Net != "allow" || r.Backend != want || r.Image != testImage ||
		len(r.Command) != 3 || r.Command[0] != "/bin/sh" || time.Since(r.Started) > time.Minute {
		t.Errorf("%+v", r)
	}
	o := s.c.do(t, "ps")
	wantIn(t, "table", o.stdout, s.name, " "+want+" ", "/bin/sh -c 'echo ready; read line; ex...")
	t.Logf("ps took %v", o.took)
	wantIn(t, "completion", s.c.do(t, "__complete", "exec", "aisb-e2e").stdout, s.name+"\t"+s.c.dir+"\n")
	s.ends(t)
	if left := s.ps(t); len(left) > 0 {
		t.Errorf("after the end: %+v", left)
	}
	gone()
}

// TestStopOfSandboxes: stop ends a sandbox whatever its command makes of that.
func TestStopOfSandboxes(t *testing.T) {
	for name, tt := range map[string]struct {
		script string
		args   []string
		status int
	}{
		"by its own":  {"trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", []string{"-t", "60"}, 7},
		"deaf":        {"trap '' TERM; echo ready; while :; do sleep 0.05; done", nil, 137},
		"at once":     {"trap 'exit 7' TERM; echo ready; while :; do sleep 0.05; done", []string{"-t", "0"}, 137},
		"all of them": {"echo ready; sleep 1000", []string{"--all"}, 143},
	} {
		t.Run(name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			c := call{dir: project(t)}
			l := c.start(t, allowed, sh(tt.script)...)
			l.waitOut("ready\n")
			args := append([]string{"stop"}, tt.args...)
			if name != "all of them" {
				args = append(args, strings.TrimPrefix(filepath.Base(c.dir), "aisb-"))
			}
			o := c.do(t, args...)
			o.wantStatus(t, 0)
			gone()
			if o.took > stopLimit || !strings.HasPrefix(o.stdout, "aisb-e2e-") {
				t.Errorf("stop took %v and said %q", o.took, o.stdout)
			}
			t.Logf("stop took %v", o.took)
			r := l.wait(runTimeout)
			r.wantStatus(t, tt.status)
			wantIn(t, "receipt", r.stderr, "ended after")
		})
	}
}

// TestExecOfAPausedSandbox says what is the matter, and the sandbox goes on as if
// nobody had asked.
func TestExecOfAPausedSandbox(t *testing.T) {
	s := waiting(t)
	pid1 := child(t, "aisb-entry")
	syscall.Kill(pid1, syscall.SIGSTOP) // from above, where pid 1 is a process like others
	waitStopped(t, pid1)
	o := s.exec(t, "", "true")
	o.wantStatus(t, 125)
	wantIn(t, "message", o.stderr, "the sandbox doesn't answer", "podman unpause")
	syscall.Kill(pid1, syscall.SIGCONT)
	s.exec(t, "", "true").wantStatus(t, 0)
	s.ends(t)
}

// TestSandboxThatStarts is in the list, runs nothing for others, and can be stopped.
func TestSandboxThatStarts(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: faultyProject(t, "before", "sleep 1000"), bin: faulty}
	l := c.start(t, allowed, "true")
	s := &sandbox{live: l, c: call{dir: c.dir}}
	waitUntil(t, runTimeout, "ps lists it", func() bool {
		for _, r := range s.ps(t) {
			s.name = r.Name
			return r.Project == c.dir && r.State == "starting"
		}
		return false
	})
	o := s.exec(t, "", "true")
	o.wantStatus(t, 125)
	wantIn(t, "message", o.stderr, "aisb: error: the sandbox is still starting", "aisb: hint: ")
	s.c.do(t, "stop", s.name).wantStatus(t, 0)
	gone()
	o = l.wait(runTimeout)
	o.wantStatus(t, 143)
	wantIn(t, "message", o.stderr, "aisb: error: stopped before the command ran")
}

// forgetDead does away with what is left of a run that had no gate to remove its
// directory when aisb was killed: a socket that nobody listens on. It is in the list
// of such, and goes at the end of a later run.
func forgetDead(t *testing.T) {
	t.Helper()
	c := call{dir: project(t)}
	var dead []string
	for _, r := range (&sandbox{c: c}).psAll(t) {
		if r.State == "dead" {
			dead = append(dead, r.Name)
		}
	}
	if len(dead) != 1 {
		t.Fatalf("dead sandboxes: %q", dead)
	}
	dir := filepath.Join(agent.runtime, "aisb", dead[0])
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%s holds %v, %v", dir, files, err)
	}
	old := time.Now().Add(-time.Hour) // a new one may be about to listen
	if err := os.Chtimes(dir, old, old); err != nil {
		t.Fatal(err)
	}
	c.aisb(t, []string{"--net", "none"}, "true").wantStatus(t, 0)
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is still there", dir)
	}
}
