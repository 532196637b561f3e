//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestOddPlaces: a project is mounted wherever it lies and whatever it is called, and
// what is written there is the user's.
func TestOddPlaces(t *testing.T) {
	long := strings.Repeat("long-enough/", 20)
	for name, sub := range map[string]string{
		"characters of a mount's syntax": `a:b,c=d;"e"\f`,
		"spaces and unicode":             " lead and trail ünïcödé ☃ ",
		"a dash first":                   "-rf",
		"over 200 characters":            long,
		"a line break":                   "one\ntwo",
	} {
		t.Run(name, func(t *testing.T) {
			top := project(t)
			dir := filepath.Join(top, sub)
			ownDirs(t, top, dir)
			writesInside(t, dir, dir)
		})
	}
	t.Run("through a link", func(t *testing.T) {
		dir, link := project(t), filepath.Join(project(t), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		writesInside(t, link, dir)
	})
	t.Run("a directory that can't be written to", func(t *testing.T) {
		dir := project(t)
		write(t, dir, "there", "text\n")
		if err := os.Chmod(dir, 0o555); err != nil {
			t.Fatal(err)
		}
		o := call{dir: dir}.aisb(t, allowed, sh(`cat there; touch made 2>/dev/null || echo no`)...)
		o.wantStatus(t, 0)
		if o.stdout != "text\nno\n" {
			t.Errorf("got %q\n%s", o.stdout, o.stderr)
		}
	})
}

// ownDirs makes dir and those above it, up to top, the user's.
func ownDirs(t *testing.T, top, dir string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for ; dir != top; dir = filepath.Dir(dir) {
		if err := os.Chown(dir, agent.uid, agent.gid); err != nil {
			t.Fatal(err)
		}
	}
}

// writesInside runs in dir, and looks at its real place.
func writesInside(t *testing.T, dir, real string) {
	t.Helper()
	o := call{dir: dir}.aisb(t, allowed, sh(`pwd; echo text >made`)...)
	o.wantStatus(t, 0)
	info, err := os.Stat(filepath.Join(real, "made"))
	if err != nil || o.stdout != "/project\n" {
		t.Fatalf("%q, %v\n%s", o.stdout, err, o.stderr)
	}
	if st := info.Sys().(*syscall.Stat_t); int(st.Uid) != agent.uid {
		t.Errorf("it belongs to %d", st.Uid)
	}
}

// TestOrphans: a thousand processes that lost their parent end as pid 1's children and
// are reaped, while a command goes on.
func TestOrphans(t *testing.T) {
	// Each inner shell leaves one behind. Ended ones that nobody reaps are in state Z.
	o := aisb(t, allowed, sh(`i=0; while [ $i -lt 1000 ]; do (sleep 0.2 &); i=$((i+1)); done
		until [ "$(ps -eo comm= | grep -c sleep)" = 0 ]; do sleep 0.1; done
		ps -eo stat= | grep -c Z`)...)
	if o.status != 1 || o.stdout != "0\n" { // grep's, that found none
		t.Errorf("status %d, %q\n%s", o.status, o.stdout, o.stderr)
	}
}

// TestAnotherUser: a user with a high uid has sandboxes of his own beside the first's,
// at the same time, and neither gets at the other's gate or sees the other's runs.
func TestAnotherUser(t *testing.T) {
	other := newUser(t, 30000)
	first := call{dir: project(t)}.start(t, append([]string{"--name", "first"}, allowed...), sh(`echo "$http_proxy"; cat`)...)
	first.waitOut("\n")
	proxy := strings.TrimSpace(first.stdout.String())

	at := other("")
	dir := filepath.Join(at.as.home, "project")
	o := at.do(t, "/bin/sh", "-c", `umask 022; mkdir "$0" && echo theirs >"$0/theirs"`, dir)
	o.wantStatus(t, 0)
	c := other(dir)
	c.bin = binary
	o = c.aisb(t, []string{"--name", "second", "--allow", "allowed.test"}, sh(fmt.Sprintf(`cat theirs; id -u; echo text >made; aisb check allowed.test
		curl -sS -o /dev/null -w '%%{http_code}\n' http://allowed.test/
		p=%s; [ "$p" = "$http_proxy" ] || curl -s -o /dev/null -w '%%{http_code}\n' --max-time 5 --proxy "$p" http://allowed.test/ || echo held`, proxy))...)
	o.wantStatus(t, 0)
	wantIn(t, "output", o.stdout, "theirs\n1000\n", "\n200\n")
	if !strings.HasSuffix(o.stdout, "held\n") && backend != "inner" {
		t.Errorf("the first user's gate: %q", o.stdout)
	}
	out := at.do(t, "/usr/bin/stat", "-c", "%u", filepath.Join(dir, "made"))
	if out.stdout != "30000\n" {
		t.Errorf("what was written belongs to %q", out.stdout)
	}
	o = c.do(t, "ps", "--json")
	o.wantStatus(t, 0)
	wantNot(t, "the other's list", o.stdout, "first")
	wantIn(t, "the first's list", call{dir: agent.home}.do(t, "ps").stdout, "first")
	first.stdin.Close()
	first.wait(runTimeout).wantStatus(t, 0)
}

// newUser makes an ordinary user with rootless podman and the test image, known in the
// mount namespaces of its calls alone: the host's own files stay as they are. It returns
// what makes a call in a directory of theirs.
func newUser(t *testing.T, uid int) func(dir string) call {
	t.Helper()
	base, err := os.MkdirTemp("", "aisb-e2e-user-") //nolint:usetesting // that is within a directory of root alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	store := project(t) // on a file system that podman can keep images on
	who := &hostUser{name: "another", uid: uid, gid: uid, home: base + "/home", runtime: base + "/run"}
	script := `chmod 755 "$1" && mkdir "$1/home" "$1/etc" && install -d -m 700 -o "$3" -g "$3" "$1/run" && chown "$3:$3" "$2" &&
		cd "$1/etc" && cp /etc/passwd /etc/group /etc/subuid /etc/subgid . &&
		echo "another:x:$3:$3::$1/home:/bin/sh" >>passwd && echo "another:x:$3:" >>group &&
		echo "another:$4:65536" >>subuid && echo "another:$4:65536" >>subgid`
	run(t, "/bin/sh", "-c", script, "sh", base, store, fmt.Sprint(uid), "20000000")
	in := func(dir string) call {
		return call{dir: "/", as: who, bin: "/usr/bin/env", env: []string{"XDG_STATE_HOME=" + who.home + "/state", "XDG_CACHE_HOME=" + who.home + "/cache"},
			enter: []string{"/usr/bin/unshare", "--mount", "/bin/sh", "-c", `for f in passwd group subuid subgid; do mount --bind "$1/etc/$f" "/etc/$f" || exit 125; done
			mount --bind "$2" "$1/home" && cd "$1/home/$3" && shift 3 && exec "$@"`, "sh", base, store, strings.TrimPrefix(dir, who.home)}}
	}
	image := filepath.Join(base, "image.tar")
	run(t, "/bin/sh", "-c", `: >"$1" && chown "$2" "$1"`, "sh", image, fmt.Sprintf("%d:%d", agent.uid, agent.gid))
	asUser(t, "podman", "save", "--quiet", "--output", image, testImage)
	in("").do(t, "podman", "load", "--quiet", "--input", image).wantStatus(t, 0)
	t.Cleanup(func() {
		text, err := os.ReadFile(filepath.Join(who.runtime, "libpod/tmp/pause.pid")) // keeps the user's namespace
		pid, bad := strconv.Atoi(strings.TrimSpace(string(text)))
		if err := errors.Join(err, bad); err != nil {
			t.Error(err)
			return
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Error(err)
		}
	})
	return in
}

// run runs a program as root.
func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}
