//go:build e2e

package e2e

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestName: a run has the name that it was given, no other has it meanwhile, and it
// is free again afterwards, with the log of the first kept.
func TestName(t *testing.T) {
	gone := wantNothingLeft(t)
	c := call{dir: project(t)}
	flags := append([]string{"--name", "work"}, allowed...)
	l := c.start(t, flags, sh("echo ready; read line; exit 4")...)
	l.waitOut("ready\n")
	if got := strings.TrimSpace(asUser(t, "podman", "ps", "--format", "{{.Names}}")); got != "aisb-work" {
		t.Errorf("the container is called %q", got)
	}
	o := c.aisb(t, flags, "true")
	o.wantStatus(t, 2)
	wantIn(t, "a name that is taken", o.stderr, `a sandbox with the name "aisb-work" is running`, "aisb stop aisb-work")
	wantIn(t, "exec by the name", c.do(t, "exec", "work", "--", "echo", "in it").stdout, "in it\n")
	l.say("")
	l.wait(runTimeout).wantStatus(t, 4)
	c.aisb(t, flags, "true").wantStatus(t, 0)
	gone()
	wantIn(t, "log by the name", c.do(t, "logs", "work").stdout, `"run":"aisb-work"`)
	if logs, err := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/aisb-work.*/log.jsonl")); err != nil || len(logs) != 1 {
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
