//go:build e2e

package e2e

import (
	"strings"
	"testing"
)

// Inside, check says why; where there is no gate it says so, and does not judge
// as the host would.
func TestCheckInside(t *testing.T) {
	o := aisb(t, allowed, sh(`aisb check evil.test; printf 'allow allowed.test\ndeny evil.test\n' | aisb check -f -`)...)
	o.wantStatus(t, 0)
	wantIn(t, "answers", o.stdout, "why:       no rule allows this host", "2 checked, all as expected")

	o = aisb(t, []string{"--net", "none"}, sh(`aisb check evil.test; echo "status $?"; aisb check --allow evil.test:22 evil.test; echo "status $?"`)...)
	o.wantStatus(t, 0)
	wantIn(t, "stderr", o.stderr, "aisb: error: this sandbox has no gate", "aisb: hint: judge rules of your own")
	wantIn(t, "answers", o.stdout, "status 1\nevil.test:443 refused: port-not-listed\n")
	wantNot(t, "answers", o.stdout, "not-listed\nhint")
}

// A run's log is found by the run's name, by its beginning, and as the newest;
// what is suggested for it covers it.
func TestLogsOfRun(t *testing.T) {
	c := call{dir: project(t)}
	o := c.aisb(t, allowed, sh(`curl -s -o /dev/null http://allowed.test/; curl -s -o /dev/null http://evil.test/; true`)...)
	o.wantStatus(t, 0)
	_, path, ok := strings.Cut(o.stderr, "aisb: log: ")
	if !ok {
		t.Fatalf("no log is named:\n%s", o.stderr)
	}
	run := strings.Split(strings.TrimSuffix(strings.TrimSpace(path), "/log.jsonl"), "/")
	name := run[len(run)-1]
	for _, args := range [][]string{{}, {name}, {name[:len(name)-2]}, {"-f", name}} {
		o := c.do(t, append([]string{"gate", "logs"}, args...)...)
		o.wantStatus(t, 0)
		wantIn(t, "log", o.stdout, `"event":"allow"`, `"run":"`+name+`"`, `"host":"evil.test"`, `"event":"exit"`)
	}
	o = c.do(t, "gate", "replay", name, "--suggest")
	o.wantStatus(t, 0)
	if o.stdout != "allowed.test\n" {
		t.Errorf("suggested %q", o.stdout)
	}
	c.do(t, "gate", "replay", name, "--allow", "allowed.test").wantStatus(t, 0)
	o = c.do(t, "gate", "replay", name, "--allow", "evil.test")
	o.wantStatus(t, 1)
	wantIn(t, "replay", o.stdout, "would be refused  allowed.test:80", "would be allowed  evil.test:80")
}

// README's way to a list of one's own: a run that may reach any public name, the
// list of what it reached, and a run with that list alone.
func TestLearnRules(t *testing.T) {
	c := call{dir: project(t)}
	fetch := sh(`curl -sS -o /dev/null http://allowed.test/ && echo reached`)
	c.aisb(t, []string{"--resolver", routerAddr, "--allow", "*", "--allow-all-names"}, fetch...).wantStatus(t, 0)
	o := c.do(t, "gate", "replay", "--suggest")
	o.wantStatus(t, 0)
	rules := write(t, c.dir, "rules.txt", o.stdout)
	o = c.aisb(t, []string{"--resolver", routerAddr, "--allow-file", rules}, sh(`curl -sS http://allowed.test/ >/dev/null && echo reached; curl -s http://evil.test/ | head -1`)...)
	wantIn(t, "output", o.stdout, "reached\n", "Blocked by aisb: not-listed")
}
