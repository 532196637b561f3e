//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShare: a directory that a running sandbox with other rights uses is refused,
// for a socket or a file in it would join the two (T19).
func TestShare(t *testing.T) {
	gone := wantNothingLeft(t)
	dir := project(t)
	sub := filepath.Join(dir, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	other := []string{"--allow", "also.allowed.test"}
	first := call{dir: dir}.start(t, allowed, sh("echo ready; read x")...)
	first.waitOut("ready\n")
	name := containerName(t)

	call{dir: dir}.aisb(t, allowed, "true").wantStatus(t, 0)
	for what, c := range map[string]struct {
		dir   string
		flags []string
		part  string
	}{
		"other rules":           {dir, other, "other rules"},
		"no network":            {dir, []string{"--net", "none"}, "other rules"},
		"another environment":   {dir, append([]string{"-e", "KEY=1"}, allowed...), "another environment"},
		"a directory in it":     {sub, other, "shares files with"},
		"the same, by a mount":  {project(t), append([]string{"-v", dir + ":/mnt/x"}, other...), "in use"},
		"the same, to be read":  {dir, append([]string{"--project-ro"}, other...), "in use"},
		"a file in it, by -v":   {project(t), append([]string{"-v", write(t, dir, "file", "") + ":/mnt/x:ro"}, other...), "shares files with"},
		"by a hatch, otherwise": {dir, append([]string{"--allow-userns"}, allowed...), "other rules"},
	} {
		o := call{dir: c.dir}.aisb(t, c.flags, sh("touch /project/ran")...)
		o.wantStatus(t, 2)
		wantIn(t, what, o.stderr, "aisb: error: ", c.part, name, "aisb: hint: ", "--share")
		if _, err := os.Lstat(filepath.Join(c.dir, "ran")); err == nil {
			t.Errorf("%s: the command ran", what)
		}
	}
	call{dir: project(t)}.aisb(t, other, "true").wantStatus(t, 0)

	o := call{dir: dir}.aisb(t, append([]string{"--share"}, other...), "true")
	o.wantStatus(t, 0)
	wantIn(t, "with --share", o.stderr, "aisb: warning: --share: this sandbox and "+name, "it shared files with "+name)
	proofs, err := filepath.Glob(filepath.Join(xdg, "state/aisb/runs/*/fence.json"))
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, path := range proofs {
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), `"joined":["`+name+`"]`) {
			marked++
		}
	}
	if marked != 1 {
		t.Errorf("%d proofs are marked, want 1", marked)
	}

	// A killed aisb holds nothing.
	if err := first.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	first.wait(runTimeout)
	call{dir: dir}.aisb(t, other, "true").wantStatus(t, 0)
	gone()
}

// The home is kept apart in the same way. By default all runs have one, so the
// hint names every way out.
func TestShareHome(t *testing.T) {
	const home = "aisb-e2e-shared"
	defer asUser(t, "podman", "volume", "rm", "--force", home)
	start := func(flags ...string) *live {
		args := append([]string{"run", "--image", testImage, "--net", "none"}, flags...)
		return call{dir: project(t)}.startAny(t, append(args, "--", "/bin/sh", "-c", "echo ready; read x")...)
	}
	first := start("--home", home)
	first.waitOut("ready\n")
	o := start("--home", home, "-e", "KEY=1").wait(runTimeout)
	o.wantStatus(t, 2)
	wantIn(t, "refusal", o.stderr, `the home volume "`+home+`" is in use by the running sandbox aisb-`, "another environment",
		"--home NAME", "--ephemeral-home", "--share")
	for _, flags := range [][]string{
		{"--home", home}, {"--ephemeral-home", "-e", "KEY=1"}, {"--home", home, "-e", "KEY=1", "--share"},
	} {
		l := start(flags...)
		l.waitOut("ready\n")
		l.say("")
		l.wait(runTimeout).wantStatus(t, 0)
	}
	first.say("")
	first.wait(runTimeout).wantStatus(t, 0)
}
