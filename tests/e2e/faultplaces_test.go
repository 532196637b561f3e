//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// smallDisk makes a file system of the user's with room for size bytes.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := project(t)
	err := unix.Mount("none", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%s,mode=700,uid=%d,gid=%d", size, agent.uid, agent.gid))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill takes all the room of a disk but some bytes, by a file.
func fill(t *testing.T, dir string, but int64) string {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(dir, "ballast"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, int64(st.Bavail)*st.Bsize-but); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// TestFullDisk: a disk for logs that is full stops a start before anything runs, one that
// gets full ends the sandbox, and each says so.
func TestFullDisk(t *testing.T) {
	held := func(t *testing.T, disk string, flags ...string) (outcome, *struck) {
		x := (fault{step: "hello", env: []string{"XDG_STATE_HOME=" + disk}, flags: flags}).begin(t, newCanary(t))
		fill(t, disk, 0)
		x.goOn()
		return x.end(), x
	}
	t.Run("from the start", func(t *testing.T) {
		gone, disk := wantNoTrace(t, false), smallDisk(t, "64m")
		fill(t, disk, 0)
		c := call{dir: project(t), env: []string{"XDG_STATE_HOME=" + disk}}
		o := c.aisb(t, allowed, sh("touch ran")...)
		wantRefusedStart(t, c.dir, o, 125, "the disk is nearly full")
		gone()
	})
	t.Run("from the start, and no floor wanted", func(t *testing.T) {
		gone, disk := wantNoTrace(t, false), smallDisk(t, "64m")
		fill(t, disk, 0)
		c := call{dir: project(t), env: []string{"XDG_STATE_HOME=" + disk}}
		o := c.aisb(t, append([]string{"--min-free", "0"}, allowed...), sh("touch ran")...)
		wantRefusedStart(t, c.dir, o, 125, "no space left on device")
		wantIn(t, "hint", o.stderr, "make room")
		gone()
	})
	t.Run("in the middle of the start", func(t *testing.T) {
		gone, disk := wantNoTrace(t, false), smallDisk(t, "64m")
		o, x := held(t, disk, "--min-free", "0")
		wantRefusedStart(t, x.cmd.Dir, o, 125, "no space left on device")
		wantIn(t, "hint", o.stderr, "make room")
		gone()
	})
	t.Run("while the command runs", func(t *testing.T) {
		gone, disk := wantNoTrace(t, false), smallDisk(t, "64m")
		l := call{dir: project(t), env: []string{"XDG_STATE_HOME=" + disk}}.start(t, append([]string{"--min-free", "32m"}, allowed...), sh("echo ready; sleep 1000")...)
		l.waitOut("ready\n")
		fill(t, disk, 16<<20)
		o := l.wait(dogLimit)
		o.wantStatus(t, 125)
		wantIn(t, "error", o.stderr, "aisb: error: ", "the disk is nearly full", "aisb: hint: ")
		gone()
	})
	t.Run("while the command runs, and no floor wanted", func(t *testing.T) {
		gone, disk := wantNoTrace(t, false), smallDisk(t, "64m")
		l := call{dir: project(t), env: []string{"XDG_STATE_HOME=" + disk}}.start(t, append([]string{"--min-free", "0"}, allowed...), sh(`echo ready
			while read -r line; do
				n=0; while [ $n -lt 60 ] && curl -fs -o /dev/null http://allowed.test/; do n=$((n+1)); done
				echo "$line: $n"
			done`)...)
		l.waitOut("ready\n")
		ballast := fill(t, disk, 0)
		l.say("full") // what is left of a page holds some lines
		l.waitErr("aisb: warning: the run's log can't be written, and nothing new is let through until it can")
		l.waitOut("full: ")
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		l.say("room")
		l.waitOut("room: 60\n")
		l.stdin.Close()
		o := l.wait(runTimeout)
		o.wantStatus(t, 0)
		if strings.Contains(o.stderr, "the log lacks") {
			t.Errorf("lines are missing: %s", o.stderr)
		}
		wantWholeLog(t, disk)
		gone()
	})
}

// wantWholeLog looks at the one log below a state directory: each line is one, and what was
// allowed has ended.
func wantWholeLog(t *testing.T, state string) {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(state, "aisb/runs/*/log.jsonl"))
	if err != nil || len(logs) != 1 {
		t.Fatalf("logs: %q, %v", logs, err)
	}
	text, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var m struct{ Event, Reason string }
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		events[strings.TrimSpace(m.Event+" "+m.Reason)]++
	}
	// By the line that can't be written first: that of an allow, or another before it.
	cut, refused := events["close limit"], events["error limit"]
	if cut+refused == 0 || events["allow listed"] != cut+events["close"] {
		t.Errorf("the log has %v", events)
	}
}

// TestUnusablePlaces: directories that aisb can't write to, or that aren't there, are
// refusals that name them.
func TestUnusablePlaces(t *testing.T) {
	closed := func(t *testing.T) string {
		dir := project(t)
		if err := os.Chmod(dir, 0o500); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	readOnly := func(t *testing.T) string {
		dir := smallDisk(t, "1m")
		if err := unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, ""); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	full := func(t *testing.T) string {
		dir := smallDisk(t, "64k")
		fill(t, dir, 0)
		return dir
	}
	missing := func(t *testing.T) string { return filepath.Join(project(t), "missing") }
	for _, tt := range []struct {
		what, name  string
		dir         func(t *testing.T) string
		error, hint string
	}{
		{"closed", "XDG_STATE_HOME", closed, "permission denied", "XDG_STATE_HOME"},
		{"read-only", "XDG_STATE_HOME", readOnly, "read-only file system", "XDG_STATE_HOME"},
		{"closed", "XDG_CACHE_HOME", closed, "permission denied", "XDG_CACHE_HOME"},
		{"full", "XDG_CACHE_HOME", full, "no space left on device", "make room"},
		{"closed", "XDG_RUNTIME_DIR", closed, "permission denied", "XDG_RUNTIME_DIR"},
		{"read-only", "XDG_RUNTIME_DIR", readOnly, "read-only file system", "XDG_RUNTIME_DIR"},
		{"full", "XDG_RUNTIME_DIR", full, "no space left on device", "make room"},
		{"missing", "XDG_RUNTIME_DIR", missing, "no private directory for run-time files", "log in as that user"},
	} {
		t.Run(tt.what+" "+tt.name, func(t *testing.T) {
			gone := wantNoTrace(t, false)
			dir := tt.dir(t)
			c := call{dir: project(t), env: []string{tt.name + "=" + dir}}
			o := c.aisb(t, allowed, sh("touch ran")...)
			wantRefusedStart(t, c.dir, o, 125, tt.error)
			wantIn(t, "error", o.stderr, dir, tt.hint)
			gone()
		})
	}
}

// TestFewDescriptors: with whatever limit of open files, a run works or is refused with a
// word about it, and a gate serves or says why not.
func TestFewDescriptors(t *testing.T) {
	worked := 0
	for _, limit := range []int{8, 16, 32, 64, 256} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			gone, mark := wantNoTrace(t, false), internet.mark()
			c := call{dir: project(t), enter: []string{"/usr/bin/prlimit", fmt.Sprintf("--nofile=%d:%d", limit, limit), "--"}}
			o := c.aisb(t, allowed, sh("touch ran; "+tries)...)
			if o.status == 0 {
				worked++
				wantIn(t, "receipt", o.stderr, "fence proved")
			} else {
				wantRefusedStart(t, c.dir, o, o.status, "")
			}
			for _, e := range internet.since(t, mark, "http", "tcp") {
				if o.status != 0 || e.Path != "/listed" {
					t.Errorf("reached the internet: %+v", e)
				}
			}
			t.Logf("status %d: %s", o.status, strings.TrimSpace(o.stderr))
			gone()
		})
	}
	if worked == 0 {
		t.Error("no limit was enough, so the refusals may have another reason")
	}
}
