//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// race is what an attacker fights for while aisb starts.
type race struct {
	path, decoy, target string // what the attacker works with
	in                  call
	args                []string // of aisb
	finds               string   // a shell script that finds its way to the project first
	right               []string // what the command may see
	wrong               []string // what no run may see, nor a dry run list
	bare                bool     // no dry run: what is checked is checked by the start
}

// swapLimit is how long each row is attacked.
const swapLimit = 2 * time.Second

// run is one start, which must be right or refused. It returns what was seen.
func (r race) run(t *testing.T) string {
	t.Helper()
	o := r.in.do(t, r.argv()...)
	wantNot(t, "output", o.stdout+o.stderr, r.wrong...)
	switch {
	case o.status == 0 && !slices.Contains(r.right, o.stdout):
		t.Errorf("the command saw %q, want one of %q\n%s", o.stdout, r.right, o.stderr)
	case o.status != 0 && (o.stdout != "" || !strings.Contains(o.stderr, "aisb: error: ") || strings.Contains(o.stderr, "goroutine")):
		t.Errorf("status %d, %q\n%s", o.status, o.stdout, o.stderr)
	}
	return fmt.Sprint(o.status)
}

func (r race) argv(more ...string) []string {
	args := slices.Insert(slices.Clone(r.args), 1, more...)
	if r.finds != "" {
		args = append([]string{"-c", r.finds, "sh", r.path, binary}, args...)
	}
	return args
}

// dryRun is a start that ends before podman, and so one of many.
func (r race) dryRun(t *testing.T) string {
	t.Helper()
	o := r.in.do(t, r.argv("--dry-run")...)
	wantNot(t, "a dry run", o.stdout+o.stderr, r.wrong...)
	if o.status != 0 && !strings.Contains(o.stderr, "aisb: error: ") {
		t.Errorf("status %d\n%s", o.status, o.stderr)
	}
	return fmt.Sprint("dry ", o.status)
}

// TestRaces: whatever a process does to what a start is given, while it starts, the
// command gets what was there or named by the user, or there is no command.
func TestRaces(t *testing.T) {
	for _, row := range []struct {
		name string
		make func(t *testing.T) race
		ways []string
	}{
		{"env file", envRace, []string{"symlink", "exchange"}},
		{"env file that names variables", namesRace, []string{"rename", "exchange", "write"}},
		{"mounted file", fileRace, []string{"symlink", "exchange", "hard link"}},
		{"mounted directory", dirRace, []string{"symlink", "exchange"}},
		{"project", projectRace, []string{"symlink", "rename", "exchange"}},
		{"project's settings", settingsRace, []string{"symlink", "rename", "exchange", "hard link", "write"}},
		{"approval", approvalRace, []string{"symlink", "exchange"}},
		{"start-up files of the home", homeRace, []string{"symlink", "exchange"}},
	} {
		for _, way := range row.ways {
			t.Run(row.name+"/"+way, func(t *testing.T) {
				gone := wantNothingLeft(t)
				r := row.make(t)
				stop := attacked(t, way, r.path, r.decoy, r.target)
				seen := map[string]int{}
				begin := time.Now()
				for n := 0; n < 2 || time.Since(begin) < swapLimit; n++ {
					if n == 0 || r.bare {
						seen[r.run(t)]++
					} else {
						seen[r.dryRun(t)]++
					}
				}
				times := stop()
				t.Logf("changed %d times, starts by status: %v", times, seen)
				if times < 50 {
					t.Errorf("changed only %d times", times)
				}
				gone()
			})
		}
	}
}

// own makes directories of the user's.
func own(t *testing.T, dirs ...string) {
	t.Helper()
	for _, dir := range dirs {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, agent.uid, agent.gid); err != nil {
			t.Fatal(err)
		}
	}
}

// linked makes a link and returns its path.
func linked(t *testing.T, target, path string) string {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// An env file in the project becomes a link out of it.
func envRace(t *testing.T) race {
	dir, secret := project(t), newCanary(t).mark
	target := write(t, project(t), "keys", "TOKEN="+secret+"\n")
	return race{
		path: write(t, dir, "my.env", "A=right\n"), decoy: linked(t, target, filepath.Join(dir, "decoy")), target: target,
		in: call{dir: dir}, args: runArgs([]string{"--net", "none", "--env-file", "my.env"}, sh(`echo "$A$TOKEN"`)...),
		right: []string{"right\n"}, wrong: []string{secret, "TOKEN  "}, // in a table
	}
}

// An env file in the project asks for what the host's environment has.
func namesRace(t *testing.T) race {
	dir := project(t)
	right, wrong := evenly("A=right\n", "HOST_SECRET\n")
	return race{
		path: write(t, dir, "my.env", right), decoy: write(t, dir, "decoy", wrong),
		in:    call{dir: dir, env: []string{"HOST_SECRET=" + hostSecret}},
		args:  runArgs([]string{"--net", "none", "--env-file", "my.env"}, sh(`echo "$A$HOST_SECRET"`)...),
		right: []string{"right\n"}, wrong: []string{hostSecret, "HOST_SECRET  "}, // in a table
	}
}

// A file of the project, where an agent can put what it likes, is mounted once more. The
// link or the name in its place is of what lies outside.
func fileRace(t *testing.T) race {
	dir, secret := project(t), newCanary(t).mark
	target := write(t, project(t), "key", secret)
	return race{
		path: write(t, dir, "file", "right"), decoy: linked(t, target, dir+"/decoy"), target: target,
		in: call{dir: dir}, args: runArgs([]string{"--net", "none", "-v", "./file:/mnt/f:ro"}, "cat", "/mnt/f"),
		right: []string{"right"}, wrong: []string{secret}, bare: true,
	}
}

func dirRace(t *testing.T) race {
	dir, other, secret := project(t), project(t), newCanary(t).mark
	own(t, dir+"/d")
	write(t, dir+"/d", "file", "right")
	write(t, other, "file", secret)
	return race{
		path: dir + "/d", decoy: linked(t, other, dir+"/decoy"), target: other,
		in: call{dir: dir}, args: runArgs([]string{"--net", "none", "-v", "./d:/mnt/d"}, "cat", "/mnt/d/file"),
		right: []string{"right"}, wrong: []string{secret}, bare: true,
	}
}

// The directory itself that the user is in becomes another, or a link to one.
func projectRace(t *testing.T) race {
	r := dirRace(t)
	r.decoy = r.path + "2"
	own(t, r.decoy)
	write(t, r.decoy, "file", r.wrong[0])
	r.in = call{dir: agent.home, bin: "/bin/sh"}
	r.args = runArgs([]string{"--net", "none"}, "cat", "/project/file")
	r.finds = `until cd "$1" 2>/dev/null && grep -q right file 2>/dev/null; do :; done; shift; exec "$@"`
	return r
}

// wideFiles are a project's file that was approved, and one that opens more.
func wideFiles(t *testing.T) (dir, narrow, wide string) {
	t.Helper()
	narrow, wide = evenly("env = [\"LEVEL=right\"]\n", "env = [\"LEVEL=right\", \"HOST_SECRET\"]\nmounts = [\""+secretDir(t)+":/mnt/secret\"]\n")
	return project(t), narrow, wide
}

func settingsRace(t *testing.T) race {
	dir, narrow, wide := wideFiles(t)
	r := race{
		path: write(t, dir, ".aisb.toml", narrow), decoy: write(t, dir, "decoy", wide), target: write(t, project(t), "wide", wide),
		in:    call{dir: dir, env: []string{"HOST_SECRET=" + hostSecret}},
		args:  runArgs([]string{"--net", "none"}, sh(`echo "$LEVEL$HOST_SECRET"; cat /mnt/secret/marker 2>/dev/null; exit 0`)...),
		right: []string{"right\n", "\n"}, wrong: []string{hostSecret, "HOST_SECRET  ", "host file", "/mnt/secret  "},
	}
	r.in.do(t, "config", "trust", "--yes").wantStatus(t, 0)
	return r
}

// The record of another approval lies elsewhere, and a link leads to it.
func approvalRace(t *testing.T) race {
	r := settingsRace(t)
	wide, err := os.ReadFile(r.decoy)
	if err != nil {
		t.Fatal(err)
	}
	narrow, err := os.ReadFile(r.path)
	if err != nil {
		t.Fatal(err)
	}
	record := approvalOf(r.in.dir)
	write(t, r.in.dir, ".aisb.toml", string(wide))
	r.in.do(t, "config", "trust", "--yes").wantStatus(t, 0)
	forged, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	write(t, r.in.dir, ".aisb.toml", string(narrow))
	r.in.do(t, "config", "trust", "--yes").wantStatus(t, 0)
	write(t, r.in.dir, ".aisb.toml", string(wide))
	r.target = write(t, project(t), "forged", string(forged))
	if err := os.Chmod(r.target, 0o600); err != nil {
		t.Fatal(err)
	}
	r.path, r.decoy = record, linked(t, r.target, record+".decoy")
	t.Cleanup(func() { os.Remove(r.decoy) })
	return r
}

// aisb looks at what shells of a home will run, before and after.
func homeRace(t *testing.T) race {
	name := "aisb-e2e-race-" + random(4)
	t.Cleanup(func() {
		_ = call{dir: agent.home, bin: "/usr/bin/podman"}.command(context.Background(), "volume", "rm", "--force", name).Run()
	})
	homeRun(t, name, "echo right >~/.bashrc; mkfifo ~/.decoy")
	dir := strings.TrimSpace(asUser(t, "podman", "volume", "inspect", "--format", "{{.Mountpoint}}", name))
	secret := newCanary(t).mark
	return race{
		path: filepath.Join(dir, ".bashrc"), decoy: filepath.Join(dir, ".decoy"), target: write(t, project(t), "secret", secret),
		in: call{dir: project(t)}, args: []string{"run", "--image", testImage, "--net", "none", "--home", name, "--", "echo", "right"},
		right: []string{"right\n"}, wrong: []string{secret}, bare: true,
	}
}
