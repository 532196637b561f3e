//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/sandbox/trust"
)

// TestRaceOfRules: rules are read once. Who changes their file while a start goes on
// gets the rules of one moment enforced, never some of one and some of another.
func TestRaceOfRules(t *testing.T) {
	// They differ in one byte: to write several is no one step, and a file half written
	// is its writer's fault.
	one, other := "n0.test", "n1.test"
	for _, way := range []string{"symlink", "rename", "exchange", "write"} {
		t.Run(way, func(t *testing.T) {
			dir := project(t)
			right, wrong := evenly(one+"\n", other+"\n")
			path, decoy := write(t, dir, "rules", right), write(t, dir, "decoy", wrong)
			stop := attacked(t, way, path, decoy, write(t, project(t), "rules", other+"\n"))
			c := call{dir: dir}
			script := fmt.Sprintf("for h in %s %s; do curl -s -o /dev/null -w '%%{http_code} ' http://$h/; done", one, other)
			o := c.aisb(t, []string{"--allow-file", path}, sh(script)...)
			if o.status == 0 && o.stdout != "200 403 " && o.stdout != "403 200 " || o.status != 0 && o.stdout != "" {
				t.Errorf("status %d, %q\n%s", o.status, o.stdout, o.stderr)
			}
			seen := map[string]int{}
			both := func() bool { return seen[one] > 0 && seen[other] > 0 }
			for begin := time.Now(); time.Since(begin) < swapLimit || !both() && time.Since(begin) < time.Minute; {
				o := c.do(t, runArgs([]string{"--allow-file", path, "--dry-run"}, "true")...)
				var rules []string
				for line := range strings.Lines(o.stdout) {
					if f := strings.Fields(line); len(f) > 2 && f[0] == "allow" {
						rules = append(rules, f[1])
					}
				}
				seen[strings.Join(rules, "+")]++
			}
			times := stop()
			t.Logf("changed %d times, rules of starts: %v", times, seen)
			delete(seen, "") // refused: there was no file, or an empty one
			if !both() || len(seen) != 2 {
				t.Errorf("rules of starts: %v, want each of the two alone", seen)
			}
		})
	}
}

// TestRaceOfApproval: what is approved is what was shown, though the file changes all the
// time.
func TestRaceOfApproval(t *testing.T) {
	for _, way := range []string{"symlink", "rename", "exchange", "hard link", "write"} {
		t.Run(way, func(t *testing.T) {
			r := settingsRace(t)
			sums := map[string]string{}
			for what, path := range map[string]string{"narrow": r.path, "wide": r.decoy} {
				text, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				sums[what] = trust.Sum(text)
			}
			stop := attacked(t, way, r.path, r.decoy, r.target)
			seen := map[string]int{}
			for begin := time.Now(); time.Since(begin) < swapLimit || seen["narrow"] == 0 && time.Since(begin) < time.Minute; {
				o := r.in.do(t, "config", "trust", "--yes")
				text, err := os.ReadFile(approvalOf(r.in.dir))
				var a trust.Approval
				if err == nil {
					err = json.Unmarshal(text, &a)
				}
				if err != nil {
					t.Fatal(err)
				}
				shown := ""
				switch {
				case o.status != 0: // there was no file, or a link
				case strings.Contains(o.stderr, "\naisb:   mounts "): // not "- mounts", which is gone
					shown = "wide"
				case strings.Contains(o.stderr, "\naisb:   sets the variable LEVEL"):
					shown = "narrow"
				}
				if shown != "" && a.SHA256 != sums[shown] {
					t.Fatalf("shown was the %s one, approved is %+v\n%s", shown, a, o.stderr)
				}
				seen[shown]++
			}
			times := stop()
			t.Logf("changed %d times, approved: %v", times, seen)
			if seen["narrow"] == 0 || times < 50 {
				t.Errorf("changed %d times, approved %v: that shows nothing", times, seen)
			}
		})
	}
}

// approvalOf is the file of a project's approval.
func approvalOf(dir string) string {
	return filepath.Join(xdg, "state/aisb/trust", trust.Sum([]byte(dir))+".json")
}

// TestRacesWithoutChecks: the attackers of TestRaces win where nothing is in their way:
// an env file that no agent can write is read through a link, an approval that covers the wide
// content or is put in the other's place lets it in, and podman alone mounts what it finds.
func TestRacesWithoutChecks(t *testing.T) {
	for _, row := range []struct {
		name, way string
		make      func(t *testing.T) race
	}{
		{"env file out of reach", "exchange", func(t *testing.T) race {
			r := envRace(t)
			r.in.dir = project(t) // so that the file lies elsewhere
			for i := range r.args {
				r.args[i] = strings.Replace(r.args[i], "my.env", r.path, 1)
			}
			return r
		}},
		{"the wide content is approved", "exchange", func(t *testing.T) race {
			r := approvalRace(t) // it leaves the wide one in the place of the project's file
			r.path, r.decoy = filepath.Join(r.in.dir, ".aisb.toml"), write(t, r.in.dir, "decoy", "env = [\"LEVEL=right\"]\n")
			r.in.do(t, "config", "trust", "--yes").wantStatus(t, 0)
			return r
		}},
		{"a forged approval", "rename", func(t *testing.T) race {
			r := approvalRace(t)
			text, err := os.ReadFile(r.target)
			if err == nil {
				err = os.Remove(r.decoy)
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(write(t, filepath.Dir(r.path), filepath.Base(r.decoy), string(text)), 0o600); err != nil {
				t.Fatal(err)
			}
			return r
		}},
		{"podman alone", "symlink", func(t *testing.T) race {
			r := dirRace(t)
			r.in.bin = "/usr/bin/podman"
			r.args = []string{"run", "--rm", "--network=none", "--volume", r.path + ":/mnt/d", testImage, "/bin/cat", "/mnt/d/file"}
			return r
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := row.make(t)
			stop := attacked(t, row.way, r.path, r.decoy, r.target)
			var more []string
			if r.in.bin == "" {
				more = []string{"--dry-run"}
			}
			n, won := 0, false
			for begin := time.Now(); !won && time.Since(begin) < time.Minute; n++ {
				o := r.in.do(t, r.argv(more...)...)
				for _, wrong := range r.wrong {
					won = won || strings.Contains(o.stdout, wrong)
				}
			}
			t.Logf("changed %d times, %d starts", stop(), n)
			if !won {
				t.Errorf("of %d starts none has shown anything: the others show nothing either", n)
			}
		})
	}
}

// TestNoHardLinkOut: an agent can't give a file of one mount a name in another (link(2),
// EXDEV), which no look at a path would tell from one of the project's own.
func TestNoHardLinkOut(t *testing.T) {
	base := project(t) // both lie in one file system, and below one directory
	own(t, base+"/p", base+"/mnt")
	write(t, base+"/mnt", "key", "x")
	o := call{dir: base + "/p"}.aisb(t, []string{"--net", "none", "-v", base + "/mnt:/mnt/d"},
		"python3", "-c", `import errno, os
for name in "/mnt/d/key", "/etc/passwd", "/proc/1/exe":
    try:
        os.link(name, "/project/link"); print("linked", name)
    except OSError as e: print(errno.errorcode[e.errno])
os.link("/mnt/d/key", "/mnt/d/again"); print("in its own: linked")`)
	o.wantStatus(t, 0)
	if o.stdout != "EXDEV\nEXDEV\nEXDEV\nin its own: linked\n" {
		t.Errorf("%q\n%s", o.stdout, o.stderr)
	}
}
