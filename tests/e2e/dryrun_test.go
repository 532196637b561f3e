//go:build e2e

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A dry run prints the very command line that podman gets, and starts nothing.
func TestDryRun(t *testing.T) {
	c := call{dir: project(t), env: []string{"HOST_SECRET=" + hostSecret}}
	secret := secretDir(t)
	flags := []string{"--allow", "allowed.test", "-e", "HOST_SECRET", "-v", secret + ":/mnt/a b:ro"}
	args := runArgs(flags, "sh", "-c", "echo up; cat")
	before := podmans(t)
	runs, _ := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/*")) // the pattern is well formed
	o := c.do(t, slices.Insert(slices.Clone(args), 1, "--dry-run", "--json")...)
	o.wantStatus(t, 0)
	wantNot(t, "dry run", o.stdout+o.stderr, hostSecret)
	var dry struct {
		Name    string
		Ruleset string
		Podman  []string
		Image   struct {
			Ref   string
			Build bool
		}
	}
	if err := json.Unmarshal([]byte(o.stdout), &dry); err != nil {
		t.Fatal(err)
	}
	if dry.Image.Ref != testImage || dry.Image.Build || !strings.Contains(dry.Ruleset, "policy drop") {
		t.Errorf("got %+v", dry)
	}
	if after, _ := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/*")); !slices.Equal(after, runs) {
		t.Errorf("runs before %q, after %q", runs, after)
	}
	if _, err := os.Lstat(filepath.Join(agent.runtime, "aisb", dry.Name)); err == nil {
		t.Error("the dry run left a directory")
	}

	l := c.startAny(t, args...)
	l.waitOut("up")
	var got []string
	for pid, argv := range podmans(t) {
		if before[pid] == nil && slices.Contains(argv, "--preserve-fds=1") {
			got = argv
		}
	}
	// The name is another one each time.
	i := slices.Index(got, "--name")
	if i < 0 {
		t.Fatalf("no podman of the run: %q", got)
	}
	name := got[i+1]
	for j := range got {
		got[j] = strings.ReplaceAll(got[j], name, dry.Name)
	}
	if want := slices.Clone(dry.Podman); !slices.Equal(got[1:], want[1:]) {
		t.Errorf("podman runs with\n%q\nthe dry run said\n%q", got, want)
	}
}

// podmans are the argument vectors of podman's processes by pid.
func podmans(t *testing.T) map[int][]string {
	t.Helper()
	found := map[int][]string{}
	for _, p := range processes() {
		if p.comm == "podman" {
			found[p.pid] = p.args
		}
	}
	return found
}
