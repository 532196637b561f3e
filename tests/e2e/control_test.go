//go:build e2e

package e2e

import (
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The tests here switch a mechanism off and see the attack succeed that other tests see
// fail: these fail for no reason of their own. docs/threat-model.md names them.

// TestSecretSearchFinds: what looks for secrets finds them, in arguments, in an
// environment and in a file, also encoded.
func TestSecretSearchFinds(t *testing.T) {
	c := newCanary(t)
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	cmd.Args[0] = "sleep " + c.mark
	cmd.Env = []string{"KEY=" + c.mark}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(agent.uid), Gid: uint32(agent.gid)}}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	// Start returns when exec closes what it closes, and arguments and environment are to
	// be seen a moment later.
	waitUntil(t, 10*time.Second, "the search finds arguments and environment", func() bool { return len(c.inProcesses()) == 2 })
	plain := write(t, project(t), "plain", "a line\n"+c.value)
	encoded := write(t, project(t), "encoded", base64.StdEncoding.EncodeToString([]byte("user:"+c.mark)))
	found, _ := c.inFiles("")
	if want := []string{plain, encoded}; !slices.Equal(slices.Sorted(slices.Values(found)), slices.Sorted(slices.Values(want))) {
		t.Errorf("in files: %q, want %q", found, want)
	}
}

// TestPivotsUnprotected: what the protection stops works where it is switched off: the
// host's git runs what the agent has written.
func TestPivotsUnprotected(t *testing.T) {
	dir := executables(t)
	attack := sh(`echo 'echo planted >hooked' >.githooks/pre-commit; chmod 755 .githooks/pre-commit; echo evil >.envrc; exit 0`)
	commit := func() {
		asUser(t, "git", "-C", dir, "-c", "filter.f.clean=", "commit", "-q", "--allow-empty", "-m", "by the host")
	}
	hooked := filepath.Join(dir, "hooked")
	call{dir: dir}.aisb(t, allowed, attack...).wantStatus(t, 0)
	commit()
	if exists(hooked) {
		t.Error("with protection it ran on the host")
	}
	off := []string{"--no-protect", ".envrc", "--no-protect", ".githooks"}
	o := call{dir: dir}.aisb(t, append(off, allowed...), attack...)
	o.wantStatus(t, 0)
	commit()
	text, err := os.ReadFile(filepath.Join(dir, ".envrc"))
	if !exists(hooked) || err != nil || string(text) != "evil\n" {
		t.Errorf("the attack fails without protection, too: %q, %v\n%s", text, err, o.stderr)
	}
	wantIn(t, "receipt", o.stderr, "changed: .envrc", ".githooks/pre-commit")
}

// TestShareJoins: two sandboxes with other rights that share a directory are joined, as
// the refusal says: one relays for the other by a socket there.
func TestShareJoins(t *testing.T) {
	dir := project(t)
	relay := call{dir: dir}.start(t, allowed, "python3", "-c", `import socket, subprocess
s = socket.socket(socket.AF_UNIX); s.bind("relay"); s.listen(); print("ready", flush=True)
while True:
    c = s.accept()[0]
    if c.recv(100): break # a start tries whether somebody listens
c.sendall(subprocess.check_output(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "http://allowed.test/"])); c.close()`)
	relay.waitOut("ready\n")
	o := call{dir: dir}.aisb(t, []string{"--share", "--allow-sockets", "--net", "none"}, "python3", "-c", `import socket
c = socket.socket(socket.AF_UNIX); c.connect("relay"); c.sendall(b"get"); print(c.recv(100).decode())`)
	o.wantStatus(t, 0)
	if o.stdout != "200\n" {
		t.Errorf("%q\n%s", o.stdout, o.stderr)
	}
	relay.wait(runTimeout).wantStatus(t, 0)
}

// TestSwapWithoutChecks: podman alone mounts what was put in the project's place.
func TestSwapWithoutChecks(t *testing.T) {
	base := project(t)
	asUser(t, "sh", "-c", `cd "$1" && mkdir p secret && echo secret >secret/key && touch swapped`, "sh", base)
	env := wrapped(t, `[ "$a" = run ] && ( cd '`+base+`' && mv p away && ln -s secret p ) >&2`)
	bin := strings.TrimPrefix(strings.Split(env[0], ":")[0], "PATH=") + "/podman"
	o := call{dir: base, bin: bin}.do(t, "run", "--rm", "--network=none", "--volume", base+"/p:/project", testImage, "/bin/cat", "/project/key")
	o.wantStatus(t, 0)
	if o.stdout != "secret\n" {
		t.Errorf("%q\n%s", o.stdout, o.stderr)
	}
}

// TestProcessLimit: a limit of processes stops a fork bomb where the host lets aisb set
// one. Where it doesn't, which a warning says, the bomb goes on.
func TestProcessLimit(t *testing.T) {
	const limit, bomb = 100, 150
	forks := func(limit int) (int, outcome) {
		t.Helper()
		o := aisb(t, append([]string{"--pids-limit", strconv.Itoa(limit)}, allowed...), "python3", "-c", fmt.Sprintf(`import os, time
n = 0
try:
    while n < %d:
        if os.fork() == 0: time.sleep(60)
        n += 1
except OSError: pass
print(n)`, bomb))
		o.wantStatus(t, 0)
		n, err := strconv.Atoi(strings.TrimSpace(o.stdout))
		if err != nil {
			t.Fatal(err)
		}
		return n, o
	}
	held, o := forks(limit)
	if strings.Contains(o.stderr, "can't enforce --pids-limit") {
		if held != bomb {
			t.Errorf("%d processes without a limit, want %d: something else stops them", held, bomb)
		}
		return
	}
	if held >= limit {
		t.Errorf("%d processes beside a limit of %d", held, limit)
	}
	if free, _ := forks(10 * bomb); free != bomb {
		t.Errorf("%d processes below the limit, want %d", free, bomb)
	}
}
