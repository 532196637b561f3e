//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/image"
)

// tenant is the user with a home, a runtime directory and a podman of his own, where
// nothing of other tests is.
type tenant struct {
	hostUser
	c call // aisb there
}

// newTenant gives it the test image, as the user's own.
func newTenant(t *testing.T) *tenant {
	t.Helper()
	w := &tenant{hostUser: *agent}
	var err error
	if w.home, err = agent.makeDir("e2e-tenant-"); err != nil {
		t.Fatal(err)
	}
	// A short path: podman's sockets lie below it, and its runroot may have 50 bytes.
	if w.runtime, err = os.MkdirTemp(agent.runtime, "t"); err != nil { //nolint:usetesting // see above
		t.Fatal(err)
	}
	w.c = call{as: &w.hostUser, dir: filepath.Join(w.home, "project"), env: []string{
		"XDG_STATE_HOME=" + w.home + "/.local/state", "XDG_CACHE_HOME=" + w.home + "/.cache", "TMPDIR=" + w.home + "/tmp",
	}}
	for _, dir := range []string{w.runtime, w.c.dir, w.home + "/tmp", w.home + "/.config/aisb"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	w.own(t)
	t.Cleanup(func() { w.end(t) })
	saved := filepath.Join(w.home, "image.tar")
	asUser(t, "podman", "save", "--quiet", "--output", saved, testImage)
	w.podman(t, "load", "--quiet", "--input", saved)
	if err := os.Remove(saved); err != nil {
		t.Fatal(err)
	}
	return w
}

// own gives the user what root has made in his directories.
func (w *tenant) own(t *testing.T) {
	t.Helper()
	for _, top := range []string{w.home, w.runtime} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Name() == "containers" {
				return fs.SkipDir // podman's
			}
			if err == nil {
				err = os.Lchown(path, w.uid, w.gid)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// end removes all. What holds podman's user namespace goes too.
func (w *tenant) end(t *testing.T) {
	// The test's own context is over by now.
	_ = call{as: &w.hostUser, dir: w.home, bin: "/usr/bin/podman"}.command(context.Background(), "rm", "--all", "--force", "--time=0").Run() // what stays, goes below
	if text, err := os.ReadFile(filepath.Join(w.runtime, "libpod/tmp/pause.pid")); err == nil {
		if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // an error means that it has ended
		}
	}
	for _, dir := range []string{w.home, w.runtime} {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	}
}

// podman runs the tenant's own.
func (w *tenant) podman(t *testing.T, args ...string) string {
	t.Helper()
	o := call{as: &w.hostUser, dir: w.home, bin: "/usr/bin/podman"}.do(t, args...)
	o.wantStatus(t, 0)
	return o.stdout
}

// snapshot is all that the tenant has: what podman lists, layers, and files.
func (w *tenant) snapshot(t *testing.T) []string {
	t.Helper()
	var all []string
	for what, args := range map[string][]string{
		"container": {"ps", "--all", "--external", "--format={{.ID}} {{.Names}}"}, "image": {"images", "--all", "--no-trunc", "--format={{.ID}} {{.Repository}}:{{.Tag}}"},
		"volume": {"volume", "ls", "--format={{.Name}}"}, "secret": {"secret", "ls", "--format={{.Name}}"}, "network": {"network", "ls", "--format={{.Name}}"},
	} {
		for line := range strings.Lines(w.podman(t, args...)) {
			all = append(all, what+" "+strings.TrimSpace(line))
		}
	}
	layers, err := os.ReadDir(filepath.Join(w.home, ".local/share/containers/storage/overlay"))
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		if l.Name() != "l" { // a directory of short names
			all = append(all, "layer "+l.Name())
		}
	}
	for _, top := range []string{w.home, w.runtime} {
		err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			// podman's: its store, its run-time files and what it knows of blobs.
			if err == nil && d.IsDir() && slices.Contains([]string{"containers", "libpod", "crun", "netns", "networks", "overlay-layers"}, d.Name()) {
				return fs.SkipDir
			}
			all = append(all, "file "+path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	slices.Sort(all)
	return all
}

// differ tells what of two snapshots isn't in both.
func differ(before, after []string) (gone, more []string) {
	without := func(list, other []string) []string {
		return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return slices.Contains(other, s) })
	}
	return without(before, after), without(after, before)
}

// build makes an image as a build of aisb does, but for what would need a network: labels,
// layers, names, and the record.
func (w *tenant) build(t *testing.T) (tag string) {
	t.Helper()
	h, err := image.FindHarness("shell")
	if err != nil {
		t.Fatal(err)
	}
	s := image.Spec{Base: testImage, Harness: h}
	if s.BaseID, err = image.ParseID([]byte(w.podman(t, image.IDArgs(testImage)...))); err != nil {
		t.Fatal(err)
	}
	write(t, w.home+"/tmp", "Containerfile", "FROM "+testImage+"\nLABEL "+image.LabelFormat+"=1\nRUN echo one >/one\nRUN echo two >/two\nLABEL "+
		image.LabelHarness+"=shell "+image.LabelBase+"="+testImage+"\n")
	w.podman(t, "build", "--quiet", "--network=none", "--layers", "--tag", s.Tag(), "--file", w.home+"/tmp/Containerfile", w.c.dir)
	if err := os.Remove(w.home + "/tmp/Containerfile"); err != nil {
		t.Fatal(err)
	}
	if err := (image.Records{Dir: w.home + "/.local/state/aisb/images"}).Save(s, nil, time.Now()); err != nil {
		t.Fatal(err)
	}
	w.own(t)
	return s.Tag()
}

// live fills it with all that aisb keeps.
func (w *tenant) live(t *testing.T) {
	t.Helper()
	tag := w.build(t)
	run := func(args ...string) {
		t.Helper()
		w.c.do(t, append([]string{"run", "--net", "none"}, args...)...).wantStatus(t, 0)
	}
	run("--harness", "shell", "--base-image", testImage, "--", "/bin/sh", "-c", "cat /one /two; echo login >~/.netrc; umask 777; mkdir ~/closed")
	run("--image", testImage, "--home", "second", "--", "/bin/sh", "-c", "echo >~/x")
	run("--image", testImage, "--ephemeral-home", "--on-new-exec-config", "quarantine", "--", "/bin/sh", "-c", "echo x >.envrc")
	name := detached(t, w.c, []string{"--net", "none"}, sh("echo out; sleep 1000")...)
	w.c.do(t, "stop", name).wantStatus(t, 0)
	write(t, w.c.dir, ".aisb.toml", "allow = [\"example.com\"]\n")
	w.c.do(t, "config", "trust", "--yes").wantStatus(t, 0)
	for _, name := range []string{".aisb.toml", ".envrc"} {
		if err := os.RemoveAll(filepath.Join(w.c.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	// What runs and builds leave that were killed together with their podman.
	w.podman(t, "create", "--name", "aisb-dead", "--label", "dev.aisb.container=aisb-dead", testImage, "true")
	w.podman(t, "create", "--label", "dev.aisb.container=build", tag, "true")
	w.podman(t, "tag", testImage, "localhost/aisb-from:0123")
	if err := os.MkdirAll(w.home+"/tmp/aisb-build-1/x", 0o700); err != nil {
		t.Fatal(err)
	}
	w.own(t)
}

// uninstall runs it and returns what became of what.
func (w *tenant) uninstall(t *testing.T, status int, args ...string) map[string]string {
	t.Helper()
	o := w.c.do(t, append([]string{"uninstall", "--json"}, args...)...)
	o.wantStatus(t, status)
	var list []struct{ Kind, Name, Fate, Why string }
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	fates := map[string]string{}
	for _, b := range list {
		fates[b.Kind+" "+strings.Replace(b.Name, w.home, "~", 1)] = b.Fate + " " + b.Why
	}
	return fates
}

// TestUninstall: it refuses while a sandbox runs, keeps what it is told to, says what it
// can't remove, and then leaves what was there before aisb, and nothing else. Nothing of
// the user's own is touched.
func TestUninstall(t *testing.T) {
	w := newTenant(t)
	// The user's own, some of which looks like aisb's.
	w.podman(t, "create", "--name", "aisb-mine", testImage, "true")
	w.podman(t, "create", "--name", "aisb-copy", "--label", "dev.aisb.container=aisb-dead", testImage, "true")
	w.podman(t, "volume", "create", "aisb-volume")
	w.podman(t, "tag", testImage, "localhost/mine:1")
	w.podman(t, "network", "create", "aisb-net")
	write(t, w.home+"/.config/aisb", "config.toml", "")
	write(t, w.home+"/tmp", "aisb-build-notes", "")
	w.podman(t, "rm", strings.TrimSpace(w.podman(t, "create", "--userns=keep-id:uid=1000,gid=1000", testImage, "true"))) // podman's copy for the user's ids
	before := w.snapshot(t)
	w.live(t)
	tag := "image " + w.image(t)

	front := w.c.start(t, []string{"--net", "none"}, sh("echo ready; sleep 1000")...)
	front.waitOut("ready\n")
	full := w.snapshot(t)
	o := w.c.do(t, "uninstall", "--yes")
	o.wantStatus(t, 1)
	wantIn(t, "refusal", o.stderr, "aisb: error: a sandbox is running: aisb-project-", "aisb: hint: end them: aisb stop --all", "aisb uninstall --stop")
	w.uninstall(t, 0, "--dry-run")
	if gone, more := differ(full, w.snapshot(t)); len(gone)+len(more) > 0 {
		t.Errorf("a refusal and a dry run: gone %q, new %q", gone, more)
	}

	got := w.uninstall(t, 0, "--stop", "--yes", "--keep", "homes,logs")
	front.wait(runTimeout).wantStatus(t, 143)
	for name, want := range map[string]string{
		"home aisb-home": "kept as --keep says", "home second": "kept as --keep says", "logs ~/.local/state/aisb/runs": "kept as --keep says",
		tag: "removed ", "image layers without a name": "removed ", "container aisb-dead": "removed ", "image name localhost/aisb-from:0123": "removed ",
		"approvals ~/.local/state/aisb/trust": "removed ", "quarantine ~/.local/state/aisb/quarantine": "removed ", "cache ~/.cache/aisb": "removed ",
		"left-over ~/tmp/aisb-build-1": "removed ", "base image " + testImage: "kept other images may stand on it: podman rmi " + testImage,
		"configuration ~/.config/aisb": "kept you have written it; --config removes it",
	} {
		if got[name] != want {
			t.Errorf("%s is %q, not %q", name, got[name], want)
		}
	}
	if len(got) < 15 {
		t.Errorf("it lists %q", got)
	}
	// Directories that aisb has made on the way to its own are nobody's, as XDG has them.
	before = append(before, "file "+w.home+"/.cache", "file "+w.home+"/.local/state")
	gone, more := differ(before, w.snapshot(t))
	more = slices.DeleteFunc(more, func(s string) bool { return strings.HasPrefix(s, "file "+w.home+"/.local/state/aisb/") })
	if len(gone) > 0 || !slices.Equal(more, []string{"file " + w.home + "/.local/state/aisb", "volume aisb-home", "volume second"}) {
		t.Errorf("what is kept: gone %q, new %q", gone, more)
	}
	o = w.c.do(t, "run", "--net", "none", "--image", testImage, "--", "cat", "/home/agent/.netrc")
	o.wantStatus(t, 0)
	wantIn(t, "the home that was kept", o.stdout, "login")
	wantIn(t, "the logs that were kept", w.c.do(t, "prune", "--logs", "--older", "0", "--dry-run").stdout, "aisb-project-")

	// A container of the user's needs a home: the rest goes, and what is left is said.
	w.podman(t, "create", "--name", "user", "--volume", "aisb-home:/x", testImage, "true")
	got = w.uninstall(t, 1, "--yes")
	if why := got["home aisb-home"]; !strings.HasPrefix(why, "failed ") || !strings.Contains(why, "being used") || got["home second"] != "removed " {
		t.Errorf("%q", got)
	}
	w.podman(t, "rm", "user")
	got = w.uninstall(t, 0, "--yes")
	if got["home aisb-home"] != "removed " {
		t.Errorf("%q", got)
	}
	if gone, more := differ(before, w.snapshot(t)); len(gone)+len(more) > 0 {
		t.Errorf("in the end: gone %q, new %q", gone, more)
	}
	o = w.c.do(t, "uninstall", "--yes")
	o.wantStatus(t, 0)
	wantIn(t, "once more", o.stderr, "aisb: nothing to remove", "aisb: kept: program ")
	w.uninstall(t, 0, "--yes", "--config")
	if _, err := os.Lstat(w.home + "/.config/aisb"); err == nil {
		t.Error("the configuration is still there")
	}
}

// image is the name of the one that was built.
func (w *tenant) image(t *testing.T) string {
	t.Helper()
	o := w.c.do(t, "image", "ls", "--json")
	o.wantStatus(t, 0)
	var list []image.Listed
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil || len(list) != 1 {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	return list[0].Ref
}
