//go:build e2e

package e2e

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestMounts adds directories of the host, to read and to write.
func TestMounts(t *testing.T) {
	rw, ro := project(t), project(t)
	write(t, ro, "data", "to read\n")
	o := aisb(t, append([]string{"--mount", rw + ":/mnt/rw", "-v", ro + ":/mnt/ro:ro"}, allowed...),
		sh("cat /mnt/ro/data; echo x >/mnt/ro/new && exit 1; echo written >/mnt/rw/new")...)
	o.wantStatus(t, 0)
	if o.stdout != "to read\n" {
		t.Errorf("got %q", o.stdout)
	}
	if text, err := os.ReadFile(filepath.Join(rw, "new")); err != nil || string(text) != "written\n" {
		t.Errorf("on the host: %q, %v", text, err)
	}
	for _, bad := range []string{
		"/nonexistent:/mnt/x", rw + ":relative", rw + ":/proc", rw, "/:/mnt/root",
		agent.runtime + ":/mnt/run", filepath.Join(agent.home, ".local/share/containers") + ":/mnt/storage",
	} {
		o := aisb(t, append([]string{"--mount", bad}, allowed...), "true")
		o.wantStatus(t, 2)
		wantIn(t, "error for "+bad, o.stderr, "aisb: error: ", "aisb: hint: ")
	}
}

// TestSubdirectory starts in a subdirectory, and in one of a repository sees the
// common git directory, and so does a worktree.
func TestSubdirectory(t *testing.T) {
	dir := project(t)
	for _, sub := range []string{"a", "a/b"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Join(dir, sub), agent.uid, agent.gid); err != nil {
			t.Fatal(err)
		}
	}
	o := call{dir: dir}.aisb(t, append([]string{"-w", "a/b"}, allowed...), "pwd")
	o.wantStatus(t, 0)
	if o.stdout != "/project/a/b\n" {
		t.Errorf("got %q", o.stdout)
	}
	o = call{dir: dir}.aisb(t, append([]string{"-w", "../.."}, allowed...), "pwd")
	o.wantStatus(t, 2)

	git := func(args ...string) string {
		return asUser(t, "git", append([]string{"-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.com"}, args...)...)
	}
	git("init", "-q")
	write(t, filepath.Join(dir, "a"), "file", "1\n")
	git("add", "a")
	git("commit", "-qm", "first")
	tree := filepath.Join(project(t), "tree")
	git("worktree", "add", "-q", tree)
	for _, where := range []string{filepath.Join(dir, "a"), tree} {
		o := call{dir: where}.aisb(t, allowed, "git", "log", "--format=%s")
		o.wantStatus(t, 0)
		if o.stdout != "first\n" {
			t.Errorf("in %s: %q", where, o.stdout)
		}
	}
}

// TestSocketsInTheProject: a listening socket in the project would be a way out,
// so it needs a flag.
func TestSocketsInTheProject(t *testing.T) {
	dir := project(t)
	path := filepath.Join(dir, "agent.sock")
	ln, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if err := os.Chown(path, agent.uid, agent.gid); err != nil {
		t.Fatal(err)
	}
	o := call{dir: dir}.aisb(t, allowed, "true")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, "agent.sock", "--allow-sockets")
	call{dir: dir}.aisb(t, append([]string{"--allow-sockets"}, allowed...), "true").wantStatus(t, 0)
}

// TestHatches: each way to run with less prints its warning.
func TestHatches(t *testing.T) {
	c := call{dir: project(t), env: []string{"AISB_EXTRA_ARGS=--ulimit 'nofile=333:333'"}}
	o := c.aisb(t, allowed, sh("ulimit -n")...)
	o.wantStatus(t, 0)
	if o.stdout != "333\n" {
		t.Errorf("got %q", o.stdout)
	}
	wantIn(t, "warning", o.stderr, "aisb: warning: AISB_EXTRA_ARGS", "nofile=333:333")

	// Root of the container is not the user: it enters what others may.
	c = call{dir: project(t)}
	if err := os.Chmod(c.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	o = c.aisb(t, append([]string{"--insecure-keep-root"}, allowed...), sh("id -u; grep Cap /proc/self/status; curl -sS -o /dev/null -w '%{http_code}\n' http://evil.test/")...)
	o.wantStatus(t, 0)
	if want := "0\nCapInh:\t" + zeroSet + "\nCapPrm:\t" + zeroSet + "\nCapEff:\t" + zeroSet + "\nCapBnd:\t" + zeroSet + "\nCapAmb:\t" + zeroSet + "\n403\n"; o.stdout != want {
		t.Errorf("got %q, want %q", o.stdout, want)
	}
	wantIn(t, "warning", o.stderr, "aisb: warning: --insecure-keep-root")
}

// TestRunAsRoot is refused: rootful podman is another product.
func TestRunAsRoot(t *testing.T) {
	cmd := call{dir: project(t)}.command(t.Context(), runArgs(allowed, "true")...)
	cmd.SysProcAttr.Credential = nil
	out, _ := cmd.CombinedOutput() // the status is looked at below
	o := outcome{status: cmd.ProcessState.ExitCode(), stderr: string(out)}
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "aisb: error: ", "can't run as root", "aisb: hint: ")
}

// TestWithoutRuntimeDir finds the user's directory as su and cron leave it.
func TestWithoutRuntimeDir(t *testing.T) {
	call{dir: project(t), env: []string{"XDG_RUNTIME_DIR="}}.aisb(t, allowed, "true").wantStatus(t, 0)
	o := call{dir: project(t), env: []string{"XDG_RUNTIME_DIR=/tmp"}}.aisb(t, allowed, "true")
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "XDG_RUNTIME_DIR", "aisb: hint: ")
}
