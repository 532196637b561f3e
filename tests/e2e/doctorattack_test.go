//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/attack"
)

// battery runs doctor --attack in the test image and returns its report.
func (c call) battery(t *testing.T, flags ...string) (attack.Report, outcome) {
	t.Helper()
	if c.dir == "" {
		c.dir = project(t)
	}
	o := c.do(t, append([]string{"doctor", "--attack", "--json", "--image", testImage}, flags...)...)
	var r attack.Report
	if err := json.Unmarshal([]byte(o.stdout), &r); err != nil && o.stdout != "" {
		t.Fatalf("%v: %s%s", err, o.stdout, o.stderr)
	}
	return r, o
}

// resultOf returns what came of an attack.
func resultOf(t *testing.T, r attack.Report, id string) attack.Result {
	t.Helper()
	i := slices.IndexFunc(r.Attacks, func(a attack.Result) bool { return a.ID == id })
	if i < 0 {
		t.Fatalf("no attack has the id %q", id)
	}
	return r.Attacks[i]
}

// mayBeUnknown are attacks that some host can't try. Any other must have been
// tried.
func mayBeUnknown(id string) bool {
	return slices.Contains([]string{"limit-processes", "limit-memory", "limit-cpu", "project-socket-relay", "tcp6-host", "udp6-host", "tcp-gateway", "udp-gateway"}, id) ||
		strings.HasPrefix(id, "int80-")
}

// Points 2, 3 and 4 of the threat table, row by row: nothing gets out, by what
// the attacks saw and by what the host's canaries and the internet saw.
func TestDoctorAttack(t *testing.T) {
	for _, backend := range []string{"pasta", "inner"} {
		t.Run(backend, func(t *testing.T) { wantAllHeld(t, "--net-backend", backend) })
	}
}

func wantAllHeld(t *testing.T, flags ...string) {
	t.Helper()
	gone := wantNothingLeft(t)
	mark := internet.mark()
	tmp := project(t)
	r, o := call{env: []string{"TMPDIR=" + tmp}}.battery(t, flags...)
	o.wantStatus(t, 0)
	if r.Verdict != attack.AllHeld || r.Out != 0 || len(r.Broken) != 0 || len(r.Attacks) < 60 {
		t.Errorf("verdict %s, %d of %d got out, broken: %q", r.Verdict, r.Out, len(r.Attacks), r.Broken)
	}
	rows := map[string]int{}
	for _, a := range r.Attacks {
		rows[a.Row]++
		if a.Verdict == attack.Out || a.Verdict == attack.Unknown && !mayBeUnknown(a.ID) {
			t.Errorf("%s %s (%s): %s: %s", a.Row, a.ID, a.Try, a.Verdict, a.Seen)
		}
		if a.Seen == "" {
			t.Errorf("%s: nothing was seen", a.ID)
		}
	}
	for i := range 21 {
		if rows[fmt.Sprintf("T%d", i+1)] == 0 {
			t.Errorf("no attack on row T%d", i+1)
		}
	}
	for _, c := range r.Controls {
		if c.Verdict != attack.Out {
			t.Errorf("control %s: %s %s", c.ID, c.Verdict, c.Seen)
		}
	}
	internet.wantSilence(t, mark)
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	gone()
}

// TestDoctorAttackCanFail weakens the sandbox, each time in another way, and
// sees the right attacks get out, and status 1.
func TestDoctorAttackCanFail(t *testing.T) {
	onPasta := []string{"--net-backend", "pasta"} // inner has no way out to open
	for _, tt := range []struct {
		name   string
		flags  []string
		script string   // after the proof, as root of the container
		allow  string   // rules in place of the battery's
		out    []string // at least
		rows   []string // and nothing in another
	}{
		{name: "fence taken down after its proof", script: "nft flush ruleset", flags: onPasta,
			out:  []string{"loopback-tcp", "loopback-udp", "second-gate", "second-gate-report", "udp-public", "dns-podman"},
			rows: []string{"T5", "T10", "T17"}},
		{name: "one port more", script: "nft insert rule inet aisb output udp dport 53 accept", flags: onPasta,
			out: []string{"udp-public", "bind-device"}, rows: []string{"T5"}},
		{name: "rules that are too wide",
			allow: "ALLOWED+tcp *.example.com host.containers.internal:LOOP",
			out: []string{"get-unlisted", "connect-unlisted", "connect-port-not-listed", "second-request", "gate-log",
				"sni-none", "sni-mismatch", "tunnel-plain", "tunnel-early", "dns-labels"},
			rows: []string{"T6", "T10", "T18"}},
		{name: "no fence", flags: []string{"--net", "full"},
			out: []string{"udp-public", "fence-proof"}, rows: []string{"T5", "T10", "T14", "T18"}},
		{name: "user namespaces", flags: []string{"--allow-userns"},
			out: []string{"unshare-user", "unshare-all", "clone-user", "clone3-user", "setns"}, rows: []string{"T1", "T8"}},
		{name: "root kept", flags: []string{"--insecure-keep-root"}, out: []string{"setuid-0"}, rows: []string{"T1", "T3", "T9", "T12"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := call{}
			if tt.allow != "" {
				c.bin, c.dir = faulty, faultyProject(t, "allow", tt.allow)
			}
			if tt.script != "" {
				c.bin, c.dir = faulty, faultyProject(t, "proved", tt.script)
				write(t, filepath.Join(c.dir, ".aisb-faults"), "blind", "")
			}
			r, o := c.battery(t, tt.flags...)
			o.wantStatus(t, 1)
			if r.Verdict != attack.SomeOut {
				t.Errorf("verdict %s, broken: %q", r.Verdict, r.Broken)
			}
			for _, id := range tt.out {
				if a := resultOf(t, r, id); a.Verdict != attack.Out {
					t.Errorf("%s: %s, %s", id, a.Verdict, a.Seen)
				}
			}
			for _, a := range r.Attacks {
				if a.Verdict == attack.Out && !slices.Contains(tt.rows, a.Row) {
					t.Errorf("%s %s got out too: %s", a.Row, a.ID, a.Seen)
				}
			}
		})
	}
}

// TestDoctorAttackNeedsASandbox: what aisb itself refuses or stops is no success
// of the battery's, nor is what it then couldn't try.
func TestDoctorAttackNeedsASandbox(t *testing.T) {
	c := call{dir: project(t), env: []string{"AISB_EXTRA_ARGS=--volume /tmp:/extra"}}
	if _, o := c.battery(t); o.status != 78 || o.stdout != "" {
		t.Errorf("a mount more: status %d: %s%s", o.status, o.stdout, o.stderr)
	}
	c = call{bin: faulty, dir: faultyProject(t, "proved", "nft flush ruleset")}
	if _, o := c.battery(t); o.status == 0 || o.status == 1 || o.stdout != "" {
		t.Errorf("a fence that the watchdog misses: status %d: %s%s", o.status, o.stdout, o.stderr)
	}
}

// TestDoctorAttackNotBegun: a battery that could not run is no success.
func TestDoctorAttackNotBegun(t *testing.T) {
	o := call{dir: project(t)}.do(t, "doctor", "--attack", "--image", "localhost/no-such-image:x")
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "aisb: error: ")
	if o.stdout != "" {
		t.Errorf("printed %q", o.stdout)
	}
	o = call{dir: project(t)}.do(t, "doctor", "--allow-userns")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, "needs --attack")
	// On a host the part inside does nothing.
	o = call{dir: project(t), stdin: "{}"}.do(t, attack.Command)
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, "in a sandbox of aisb alone")
}

// TestDoctorAttackText: the table has the row, the id, and what was seen.
func TestDoctorAttackText(t *testing.T) {
	o := call{dir: project(t)}.do(t, "doctor", "--attack", "--image", testImage, "--net", "none")
	wantIn(t, "table", o.stdout, "T5  egress past the gate", "held     tcp-public", "attacks: ", " held, ", " controls")
	wantNot(t, "table", o.stdout, "GOT OUT", "\x1b")
	o.wantStatus(t, 0)
	if strings.Contains(o.stderr, "\r") {
		t.Errorf("progress without a terminal: %q", o.stderr)
	}
}
