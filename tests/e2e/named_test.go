//go:build e2e

package e2e

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestName: a run has the name that it was given, no other has it meanwhile, and it
// is free again afterwards, with the log of the first kept.
func TestName(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	flags := append([]string{"--name", "named"}, allowed...)
	l := c.start(t, flags, sh("echo ready; read line; exit 4")...)
	l.waitOut("ready\n")
	if got := strings.TrimSpace(asUser(t, "podman", "ps", "--format", "{{.Names}}")); got != "aisb-named" {
		t.Errorf("the container is called %q", got)
	}
	o := c.aisb(t, flags, "true")
	o.wantStatus(t, 2)
	wantIn(t, "a name that is taken", o.stderr, `a sandbox with the name "aisb-named" is running`, "aisb stop aisb-named")
	wantIn(t, "exec by the name", c.do(t, "exec", "named", "--", "echo", "in it").stdout, "in it\n")
	l.say("")
	l.wait(runTimeout).wantStatus(t, 4)
	c.aisb(t, flags, "true").wantStatus(t, 0)
	gone()
	wantIn(t, "log by the name", c.do(t, "logs", "named").stdout, `"run":"aisb-named"`)
	if logs, err := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/aisb-named.*/log.jsonl")); err != nil || len(logs) != 1 {
		t.Errorf("the first log: %q, %v", logs, err)
	}
}

// TestTimeout: a run that takes too long is ended, whatever its command makes of
// that, and the status says so; one that doesn't has its own.
func TestTimeout(t *testing.T) {
	gone := wantNothingLeft(t)
	for _, script := range []string{
		"trap 'exit 0' TERM; while :; do sleep 0.05; done",
		"trap '' TERM; while :; do sleep 0.05; done",
	} {
		o := aisb(t, []string{"--net", "none", "--timeout", "1s"}, sh(script)...)
		o.wantStatus(t, 124)
		wantIn(t, "message", o.stderr, "aisb: error: ended after 1s, as --timeout says", "aisb: ended after")
	}
	aisb(t, []string{"--net", "none", "--timeout", "10m"}, sh("exit 3")...).wantStatus(t, 3)
	gone()
}

// TestStopUnread: who has stopped reading what the command writes, such as a pager that
// waits for a key, doesn't hold up the end of a run, neither by --timeout nor by stop.
func TestStopUnread(t *testing.T) {
	for _, flags := range [][]string{{"--timeout", "1s"}, {"--name", "unread"}} {
		gone := wantNothingLeft(t)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		cmd := call{dir: project(t)}.command(t.Context(), runArgs(append(flags, "--net", "none"), "yes")...)
		cmd.Stdout = w
		err = cmd.Start()
		w.Close()
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		want := 124
		if flags[0] == "--name" {
			want = 143
			if _, err := io.ReadFull(r, make([]byte, 100)); err != nil {
				t.Fatal(err)
			}
			call{dir: agent.home}.do(t, "stop", "unread").wantStatus(t, 0)
		}
		select {
		case <-ended:
		case <-time.After(runTimeout):
			t.Errorf("%q: it waits for its reader", flags)
			cmd.Process.Kill()
			<-ended
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%q: status %d, want %d", flags, got, want)
		}
		gone()
	}
}

// TestNameOfALeftContainer: a run that was killed together with its podman, or with the
// whole machine, has left a container; its name can be had all the same. One that runs
// is not touched.
func TestNameOfALeftContainer(t *testing.T) {
	gone := wantNothingLeft(t)
	flags := []string{"--name", "left", "--net", "none"}
	asUser(t, "podman", "create", "--name", "aisb-left", testImage, "true")
	o := aisb(t, flags, "echo", "ran")
	o.wantStatus(t, 0)
	wantIn(t, "output", o.stdout, "ran\n")
	gone()
	asUser(t, "podman", "run", "--detach", "--network", "none", "--name", "aisb-left", testImage, "sleep", "1000")
	defer asUser(t, "podman", "rm", "--force", "--time", "0", "aisb-left")
	o = aisb(t, flags, "true")
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "already in use", "aisb: hint: a container that no aisb of this login has started")
	wantIn(t, "podman's list", asUser(t, "podman", "ps", "--format", "{{.Names}}"), "aisb-left")
}

// TestPodmanKilledWhileStarting: podman is killed when it has made the container, whose
// conmon waits for it with the lifeline in its hand. aisb doesn't wait, and removes it.
func TestPodmanKilledWhileStarting(t *testing.T) {
	gone := wantNothingLeft(t)
	bin := project(t)
	script := `#!/bin/sh
case " $* " in *" run "*) ;; *) exec /usr/bin/podman "$@" ;; esac
for arg; do [ "$last" = --name ] && name=$arg; last=$arg; done
/usr/bin/podman create --name "$name" ` + testImage + ` true >/dev/null
sleep 60 >/dev/null 2>&1 &
kill -9 $$
`
	if err := os.Chmod(write(t, bin, "podman", script), 0o755); err != nil {
		t.Fatal(err)
	}
	o := call{dir: project(t), env: []string{"PATH=" + bin + ":/usr/bin:/bin"}}.aisb(t, []string{"--net", "none"}, "true")
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "aisb: error: container did not start")
	if o.took > 50*time.Second {
		t.Errorf("it took %v", o.took)
	}
	gone()
}
