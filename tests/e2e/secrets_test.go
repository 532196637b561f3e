//go:build e2e

package e2e

import (
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// inProcesses are those that have it in their arguments, and those that have it in their
// environment but secretOf: aisb, which the test gave it, and the command's.
func (c canary) inProcesses(secretOf ...int) []string {
	var found []string
	for _, p := range processes() {
		if c.in([]byte(strings.Join(p.args, "\x00"))) {
			found = append(found, fmt.Sprintf("the arguments of %s: %q", p.comm, p.args))
		}
		if slices.Contains(secretOf, p.pid) {
			continue
		}
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid))
		if err == nil && c.in(env) {
			found = append(found, fmt.Sprintf("the environment of %s (%q)", p.comm, p.args))
		}
	}
	return found
}

func (c canary) wantInNoProcess(t *testing.T, secretOf ...int) {
	t.Helper()
	for _, where := range c.inProcesses(secretOf...) {
		t.Errorf("the secret is in %s", where)
	}
}

// inFiles reads every file that was written since the canary was made, in the places
// where a run may write.
func (c canary) inFiles(except string) (found []string, read int) {
	for _, top := range []string{agent.home, agent.runtime, "/tmp", "/var/tmp", "/dev/shm", "/run/lock", "/var/log"} {
		// What can't be read went meanwhile.
		_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil
			}
			if path == except {
				return fs.SkipDir
			}
			info, err := d.Info()
			if err != nil || !info.Mode().IsRegular() || info.ModTime().Before(c.begin) || info.Size() > 64<<20 {
				return nil
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return nil
			}
			read++
			if c.in(text) {
				found = append(found, path)
			}
			return nil
		})
	}
	return found, read
}

func (c canary) wantInNoFile(t *testing.T, except string) {
	t.Helper()
	found, read := c.inFiles(except)
	for _, path := range found {
		t.Errorf("the secret is in the file %s", path)
	}
	if read == 0 {
		t.Error("no file was read: the search is broken") // there is the run's log, at least
	}
}

// inSandbox are the processes of a run's command, as the host sees them: the
// descendants of pid 1 in there.
func inSandbox(t *testing.T) []int {
	t.Helper()
	one := child(t, "aisb-entry")
	list := processes()
	pids := []int{one}
	for grew := true; grew; {
		grew = false
		for _, p := range list {
			if slices.Contains(pids, p.ppid) && !slices.Contains(pids, p.pid) {
				pids, grew = append(pids, p.pid), true
			}
		}
	}
	return pids[1:]
}

// Point 6: a secret arrives byte for byte, and lies nowhere else: in no process,
// not in podman's account of the container, in no file; not while the run lives,
// nor after its end.
func TestPoint6SecretLiesNowhereElse(t *testing.T) {
	c := newCanary(t)
	dir := project(t)
	l := call{dir: dir, env: []string{"CANARY=" + c.value}}.start(t, append([]string{"--env", "CANARY"}, allowed...),
		sh(`printf %s "$CANARY" | od -An -v -tx1 | tr -d ' \n'; echo; echo ready; read x; exit 7`)...)
	l.waitOut("ready\n")
	hexed, _, _ := strings.Cut(l.stdout.String(), "\n")
	if got, err := hex.DecodeString(hexed); err != nil || string(got) != c.value {
		t.Errorf("inside it is %q, want %q (%v)", got, c.value, err)
	}
	inside := inSandbox(t)
	if len(inside) == 0 {
		t.Fatal("the command's process was not found, so the search below would pass it over")
	}
	c.wantInNoProcess(t, append(inside, l.cmd.Process.Pid)...)
	if c.in([]byte(asUser(t, "podman", "inspect", containerName(t)))) {
		t.Error("the secret is in podman inspect")
	}
	c.wantInNoFile(t, dir)
	l.say("")
	l.wait(runTimeout).wantStatus(t, 7)
	wantNot(t, "messages", l.stderr.String(), c.mark)
	c.wantInNoFile(t, dir)
	if c.in([]byte(asUser(t, "podman", "events", "--stream=false", "--since", "10m"))) {
		t.Error("the secret is in podman events")
	}
}

// Point 6: the same after a SIGKILL of aisb.
func TestPoint6SecretAfterKill(t *testing.T) {
	c := newCanary(t)
	gone := wantNothingLeft(t)
	dir := project(t)
	l := call{dir: dir, env: []string{"CANARY=" + c.value}}.start(t, append([]string{"-e", "CANARY"}, allowed...),
		sh(`test -n "$CANARY" && echo ready; sleep 1000`)...)
	l.waitOut("ready\n")
	l.signal(syscall.SIGKILL)
	<-l.ended
	gone()
	c.wantInNoProcess(t)
	c.wantInNoFile(t, dir)
}

// Point 6: an env file's values are as secret as others.
func TestPoint6EnvFile(t *testing.T) {
	c := newCanary(t)
	dir, keys := project(t), project(t)
	file := write(t, keys, "keys.env", "# a comment\nKEY="+c.mark+"=x\n")
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	l := call{dir: dir}.start(t, append([]string{"--env-file", file}, allowed...), sh(`echo "$KEY"; echo ready; read x`)...)
	l.waitOut("ready\n")
	if want := c.mark + "=x\nready\n"; l.stdout.String() != want {
		t.Errorf("got %q, want %q", l.stdout, want)
	}
	c.wantInNoProcess(t, inSandbox(t)...)
	c.wantInNoFile(t, keys)
	l.say("")
	l.wait(runTimeout).wantStatus(t, 0)
	o := call{dir: dir}.aisb(t, append([]string{"--env-file", file + ".missing"}, allowed...), "true")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, "keys.env.missing", "aisb: hint: ")
}

// containerName is the name of the only running container, as child has it.
func containerName(t *testing.T) string {
	t.Helper()
	var names map[string]bool
	waitUntil(t, goneLimit, "one container runs", func() bool {
		names = map[string]bool{}
		return podmanLists(t, "", names, "ps", "--format", "{{.Names}}") == nil && len(names) == 1
	})
	for name := range names {
		return strings.TrimSpace(name)
	}
	return ""
}

// TestNoCoreFilesAllowed: a hard limit of 0 can't be raised, and is as good as
// aisb's own unless the host pipes cores into a program.
func TestNoCoreFilesAllowed(t *testing.T) {
	pattern, err := os.ReadFile("/proc/sys/kernel/core_pattern")
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"-c", `ulimit -Hc 0; exec "$0" "$@"`, binary}, runArgs(allowed, sh("ulimit -c; kill -SEGV $$")...)...)
	o := call{dir: project(t), bin: "/bin/bash"}.do(t, args...)
	if strings.ContainsAny(string(pattern[:1]), "|@") {
		o.wantStatus(t, 125)
		wantIn(t, "error", o.stderr, "aisb: error: limit core files", "aisb: hint: ")
		return
	}
	o.wantStatus(t, 139)
	if o.stdout != "0\n" {
		t.Errorf("limit %q", o.stdout)
	}
}
