//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// otherVersion is what the other build calls itself (tests/e2e/run).
const otherVersion = "0.0.1-other"

// installed is the program in a directory of programs, which is replaced while it runs.
type installed struct{ path string }

// install puts a program there as a package manager does: beside it, and then renamed.
func (i *installed) install(t *testing.T, from string) {
	t.Helper()
	if i.path == "" {
		dir, err := os.MkdirTemp("", "aisb-bin-") //nolint:usetesting // t.TempDir lies where the user may not look
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		i.path = filepath.Join(dir, "aisb")
	}
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(i.path+".new", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(out, in)
	if err := errors.Join(err, out.Chmod(0o755), out.Close(), os.Rename(out.Name(), i.path)); err != nil {
		t.Fatal(err)
	}
}

// versionsOf are the versions that 'ps' tells, by the names of sandboxes.
func versionsOf(t *testing.T, c call) map[string]string {
	t.Helper()
	o := c.do(t, "ps", "--json")
	o.wantStatus(t, 0)
	var list []struct{ Name, State, Aisb string }
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		t.Fatal(err)
	}
	of := map[string]string{}
	for _, r := range list {
		of[r.Name] = r.State + " " + r.Aisb
	}
	return of
}

// versionOf is what a program calls itself.
func versionOf(t *testing.T, c call) string {
	t.Helper()
	o := c.do(t, "--version")
	o.wantStatus(t, 0)
	return strings.Fields(o.stdout)[1]
}

// asksAll asks for an allowed host and for one that isn't, in turns, until the file go
// appears.
const asksAll = `trap 'exit 5' TERM; echo ready; while [ ! -e go ]; do
	printf 'tick %s %s\n' "$(curl -s -o /dev/null -w '%{http_code}' http://allowed.test/)" "$(curl -s -o /dev/null -w '%{http_code}' http://evil.test/)"; sleep 0.1
done; exit 7`

// TestUpgrade: the program is replaced while sandboxes run. They go on as they were, the
// commands of the one that is there now find them, get into them and end them, whichever
// of the two is the newer, and all that is left of them can be read.
func TestUpgrade(t *testing.T) {
	for name, pair := range map[string][2]string{"to another": {binary, other}, "and back": {other, binary}} {
		t.Run(name, func(t *testing.T) { upgrade(t, pair[0], pair[1]) })
	}
}

func upgrade(t *testing.T, first, second string) {
	gone := wantNothingLeft(t)
	mark := internet.mark()
	var i installed
	i.install(t, first)
	c := call{dir: project(t), bin: i.path}
	was := versionOf(t, c)
	alone := detached(t, c, append([]string{"--name", "alone"}, allowed...), sh(asksAll)...)
	near := call{dir: project(t), bin: i.path}
	front := near.start(t, append([]string{"--name", "front"}, allowed...), sh("echo ready; read x; "+asksAll)...)
	front.waitOut("ready\n")
	waiter := c.startAny(t, "wait", alone)

	// cp over a program that runs isn't let through by the kernel (execve(2)).
	if f, err := os.OpenFile(i.path, os.O_WRONLY|os.O_TRUNC, 0); !errors.Is(err, unix.ETXTBSY) {
		t.Errorf("written over: %v, %v", f, err)
	}
	i.install(t, second)
	is := versionOf(t, c)
	if was == is || was != otherVersion && is != otherVersion {
		t.Fatalf("versions %q and %q", was, is)
	}
	// What the sandboxes mount is a copy of the old one, which nobody needs by its name.
	copies, err := filepath.Glob(filepath.Join(xdg, "cache/aisb/entry*"))
	if err != nil || len(copies) < 2 {
		t.Fatalf("copies %q, %v", copies, err)
	}
	for _, path := range copies {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	lookTwice()

	for name, text := range versionsOf(t, c) {
		if text != "running "+was {
			t.Errorf("%s is %q", name, text)
		}
	}
	wantIn(t, "table", c.do(t, "ps").stdout, " AISB ", " "+was+" ", "aisb-alone ", "aisb-front ")
	for _, name := range []string{"alone", "front"} {
		o := c.do(t, "exec", name, "--", "/bin/sh", "-c", "curl -s -o /dev/null -w '%{http_code}' http://allowed.test/; exit 3")
		o.wantStatus(t, 3)
		wantIn(t, "exec in "+name, o.stdout, "200")
		in := c
		in.stdin = "echo in $((1+1))\n"
		wantIn(t, "shell in "+name, in.do(t, "shell", name).stdout, "in 2\n")
	}
	attached := c.startAny(t, "attach", "alone")
	attached.waitOut("tick 200 403\n")
	x := c.anyOnTerminal(t, 30, 90, "exec", "-t", "front", "--", "/bin/sh", "-c", "stty size; read x; exit 4")
	x.waitScreen("30 90", 1)
	x.typed("\r")
	<-x.ended
	if status := x.cmd.ProcessState.ExitCode(); status != 4 {
		t.Errorf("exec on a terminal: status %d: %s", status, x.screen)
	}
	wantIn(t, "output", c.do(t, "output", "alone").stdout, "tick 200 403\n")

	// Both versions at once, and the name of one isn't the other's.
	o := near.aisb(t, append([]string{"--name", "alone"}, allowed...), "true")
	o.wantStatus(t, 2)
	wantIn(t, "a name that is taken", o.stderr, `a sandbox with the name "aisb-alone" is running`)
	o = c.aisb(t, []string{"--net", "none"}, "true") // the same project with other rights
	o.wantStatus(t, 2)
	wantIn(t, "a project that is in use", o.stderr, "in use by the running sandbox aisb-alone")
	call{dir: project(t), bin: i.path}.aisb(t, allowed, sh("curl -sf http://allowed.test/")...).wantStatus(t, 0)

	// The program is gone altogether when they end.
	if err := os.Remove(i.path); err != nil {
		t.Fatal(err)
	}
	front.say("")
	front.waitOut("tick 200 403\n")
	write(t, near.dir, "go", "")
	o = front.wait(runTimeout)
	o.wantStatus(t, 7)
	wantIn(t, "receipt", o.stderr, "ended after", "with status 7", "reached allowed.test:80", "refused evil.test")
	c.bin = second
	o = c.do(t, "stop", "-t", "60", "alone")
	o.wantStatus(t, 0)
	gone()
	for what, l := range map[string]*live{"wait": waiter, "attach": attached} {
		o := l.wait(runTimeout)
		o.wantStatus(t, 5)
		wantIn(t, what, o.stderr, "ended after", "reached allowed.test:80")
	}
	for _, bin := range []string{first, second} { // also the one that didn't write it
		c.bin = bin
		c.do(t, "wait", "alone").wantStatus(t, 5)
		wantIn(t, "output", c.do(t, "output", "alone").stdout, "tick 200 403\n")
		wantIn(t, "log", c.do(t, "logs", "alone").stdout, `"event":"allow"`, `"event":"exit"`)
	}
	for _, e := range internet.since(t, mark) {
		if e.Name == "evil.test" {
			t.Errorf("reached the internet: %+v", e)
		}
	}
}

// TestUpgradeKeepsTheFence: the watchdog of a detached sandbox whose program was replaced
// and removed still bites, and its end is told.
func TestUpgradeKeepsTheFence(t *testing.T) {
	gone := wantNothingLeft(t)
	var i installed
	i.install(t, other)
	c := call{dir: project(t), bin: i.path}
	name := detached(t, c, allowed, sh("sleep 1000")...)
	i.install(t, binary)
	if err := os.Remove(i.path); err != nil {
		t.Fatal(err)
	}
	c.bin = binary
	call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, "exec", name, "/usr/sbin/nft", "add", "rule", "inet", "aisb", "output", "accept")
	o := c.do(t, "wait", name)
	o.wantStatus(t, 78)
	wantIn(t, "report", o.stderr, "the sandbox was stopped: its fence was changed from outside")
	gone()
}

// TestUpgradeKeepsImages: another version of the program runs the images of the one before
// as they are. podman copies no layer for it.
func TestUpgradeKeepsImages(t *testing.T) {
	aisb(t, []string{"--net", "none"}, "true").wantStatus(t, 0) // what the first run of an image makes
	layers := func() []string {
		out := asUser(t, "podman", "info", "--format={{.Store.GraphRoot}}")
		dirs, err := os.ReadDir(filepath.Join(strings.TrimSpace(out), "overlay"))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, d := range dirs {
			names = append(names, d.Name())
		}
		return names
	}
	before := layers()
	o := call{dir: project(t), bin: other}.aisb(t, []string{"--net", "none"}, "true")
	o.wantStatus(t, 0)
	if after := layers(); !slices.Equal(before, after) {
		t.Errorf("layers before and after:\n%q\n%q", before, after)
	}
	images := strings.Fields(os.Getenv("AISB_E2E_IMAGES"))
	if len(images) == 0 {
		t.Log("no image was built here: the records of images are held by their own tests")
		return
	}
	harness, tag, _ := strings.Cut(images[0], "=")
	c := call{dir: project(t), bin: other, env: []string{"XDG_STATE_HOME=" + filepath.Join(agent.home, ".local/state")}}
	o = c.do(t, "run", "--dry-run", "--harness", harness, "--net", "none", "--", "true")
	o.wantStatus(t, 0)
	wantIn(t, "dry run", o.stdout, tag)
	o = c.do(t, "run", "--harness", harness, "--net", "none", "--ephemeral-home", "--", "true")
	o.wantStatus(t, 0)
	wantNot(t, "run", o.stderr, "building")
	if after := layers(); !slices.Equal(before, after) {
		t.Errorf("layers before and after a run of %s:\n%q\n%q", tag, before, after)
	}
}

// TestUpgradeOfTheCompletion: a script that another version has printed completes for the
// one that is there, which it calls.
func TestUpgradeOfTheCompletion(t *testing.T) {
	script := call{dir: project(t), bin: other}.do(t, "completion", "bash")
	script.wantStatus(t, 0)
	dir := project(t)
	path := write(t, dir, "completion", script.stdout)
	if err := os.Symlink(binary, filepath.Join(dir, "aisb")); err != nil {
		t.Fatal(err)
	}
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Fatal(err)
	}
	const ask = `PATH=$1:$PATH; _get_comp_words_by_ref() { words=(aisb run --net-b); cword=2 cur=--net-b prev=run; }; __ltrim_colon_completions() { :; }
		compopt() { :; }; source "$2"; COMP_WORDS=(aisb run --net-b) COMP_CWORD=2 COMP_LINE="aisb run --net-b" COMP_POINT=16 COMP_TYPE=9; __start_aisb; printf '%s\n' "${COMPREPLY[@]}"`
	o := call{dir: dir, bin: bash}.do(t, "-c", ask, "bash", dir, path)
	wantIn(t, "completions", o.stdout, "--net-backend")
}
