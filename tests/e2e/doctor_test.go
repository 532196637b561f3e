//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/need"
)

// health is what "aisb doctor --json" prints.
type health struct {
	Verdict  string
	Problems int
	Checks   []struct{ ID, State, Detail, Hint string }
}

func (h health) state(id string) (state, text string) {
	for _, c := range h.Checks {
		if c.ID == id {
			return c.State, c.Detail + " -> " + c.Hint
		}
	}
	return "", "no such check"
}

func (c call) doctor(t *testing.T) (health, outcome) {
	t.Helper()
	o := c.do(t, "doctor", "--json")
	return parseHealth(t, o.stdout), o
}

func parseHealth(t *testing.T, text string) health {
	t.Helper()
	var h health
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return h
}

// Doctor finds all well where a run works: here, in every other test.
func TestDoctorAllWell(t *testing.T) {
	dir := project(t)
	h, o := call{dir: dir}.doctor(t)
	o.wantStatus(t, 0)
	for _, c := range h.Checks {
		known := c.State == "ok" || c.State == "note"
		// These are of the machine, which may have what aisb isn't tested with.
		ofMachine := slices.Contains([]string{"kernel.selinux", "podman.here", "disk.home"}, c.ID)
		if !known && (c.State == "fail" || !ofMachine) {
			t.Errorf("%s: %s: %s (%s)", c.ID, c.State, c.Detail, c.Hint)
		}
	}
	for _, id := range []string{
		"user.subuid", "user.newuidmap", "podman.version", "podman.works", "kernel.userns", "kernel.nftables",
		"kernel.cgroup", "network.tun", "network.pasta", "network.backend", "disk.cache", "run.binary",
	} {
		if state, text := h.state(id); state != "ok" {
			t.Errorf("%s is %s: %s", id, state, text)
		}
	}
	o = call{dir: dir}.do(t, "doctor")
	o.wantStatus(t, 0)
	if !strings.Contains(o.stdout, "\na run ") || strings.Contains(o.stdout, "would fail") || o.stderr != "" {
		t.Errorf("%s%s", o.stdout, o.stderr)
	}
	aisb(t, []string{"--net", "none"}, "true").wantStatus(t, 0)
}

// programs makes a directory for PATH with what aisb and podman start, without
// some of it.
func programs(t *testing.T, without ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"podman", "pasta", "newuidmap", "newgidmap", "crun", "conmon", "git", "sh", "cat", "nsenter"} {
		path, err := exec.LookPath(name)
		if errors.Is(err, exec.ErrNotFound) || slices.Contains(without, name) {
			continue
		}
		if err := errors.Join(err, os.Symlink(path, filepath.Join(dir, name))); err != nil {
			t.Fatal(err)
		}
	}
	letIn(t, dir)
	return dir
}

// letIn lets the user into a directory of the test's.
func letIn(t *testing.T, dir string) {
	t.Helper()
	for d := dir; d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// script puts a program of the test's own into a directory of programs.
func script(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorBroken breaks one thing after the other: doctor says which and what
// to do, and a run does fail.
func TestDoctorBroken(t *testing.T) {
	hungPodman := programs(t, "podman")
	script(t, hungPodman, "podman", "exec /bin/sleep 600\n")
	for _, r := range []struct {
		name, env, id string
		parts         []string
		hangs         bool
	}{
		{name: "no podman", env: "PATH=" + programs(t, "podman"), id: "podman.version", parts: []string{"no podman in PATH", "install podman"}},
		{name: "hung podman", env: "PATH=" + hungPodman, id: "podman.works", parts: []string{"did not end within 15s", "lock"}, hangs: true},
		{name: "no private runtime directory", env: "XDG_RUNTIME_DIR=/tmp", id: "user.runtime-dir", parts: []string{"/tmp", "loginctl enable-linger"}},
		{name: "no HOME", env: "HOME=", id: "disk.home", parts: []string{"HOME"}},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := call{dir: project(t), env: []string{r.env}}
			h, o := c.doctor(t)
			o.wantStatus(t, 1)
			if h.Verdict != "fails" || h.Problems == 0 {
				t.Errorf("verdict %s, %d problems", h.Verdict, h.Problems)
			}
			state, text := h.state(r.id)
			if state != "fail" {
				t.Errorf("%s is %s: %s", r.id, state, text)
			}
			wantIn(t, r.id, text, r.parts...)
			if o.took > 30*time.Second {
				t.Errorf("took %v", o.took)
			}
			if r.hangs {
				return
			}
			if o := c.aisb(t, []string{"--net", "allow", "--allow", "allowed.test"}, "true"); o.status != 125 && o.status != 2 {
				t.Errorf("a run ends with status %d all the same: %s", o.status, o.stderr)
			}
		})
	}
}

// TestDoctorMounts has /etc/subuid and the like changed for doctor alone. podman
// gets directories of its own, since it would go on with what it has from before.
func TestDoctorMounts(t *testing.T) {
	need.Root(t)
	made := t.TempDir()
	letIn(t, made)
	empty, closed := filepath.Join(made, "empty"), filepath.Join(made, "closed")
	if err := errors.Join(os.WriteFile(empty, nil, 0o644), os.WriteFile(closed, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	cache := filepath.Join(xdg, "cache")
	for _, r := range []struct {
		name, mount, id string
		parts           []string
		state           string
	}{
		{"no subuid", "mount --bind " + empty + " /etc/subuid", "user.subuid", []string{"no range for you", "usermod --add-subuids"}, "fail"},
		{"no subgid", "mount --bind " + empty + " /etc/subgid", "user.subgid", []string{"no range for you", "usermod --add-subuids"}, "fail"},
		{"no tun", "mount --bind " + closed + " /dev/net/tun", "network.tun", []string{"permission denied", "modprobe tun"}, "note"},
		{"noexec cache", "mkdir -p " + cache + "; mount -t tmpfs -o noexec,mode=777 none " + cache, "disk.cache", []string{"noexec", "XDG_CACHE_HOME"}, "fail"},
	} {
		t.Run(r.name, func(t *testing.T) {
			dir := project(t)
			runtime, err := agent.makeDir("e2e-runtime-")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(runtime) })
			c := call{dir: dir, env: []string{"XDG_RUNTIME_DIR=" + runtime, "XDG_DATA_HOME=" + dir, "CONTAINERS_STORAGE_CONF=" + empty}}
			as := c.command(t.Context(), "doctor", "--json")
			cmd := exec.CommandContext(t.Context(), "unshare", "--mount", "sh", "-euc",
				r.mount+`; exec setpriv --reuid "$0" --regid "$1" --clear-groups -- "$2" doctor --json`,
				fmt.Sprint(agent.uid), fmt.Sprint(agent.gid), binary)
			cmd.Env, cmd.Dir, cmd.WaitDelay = as.Env, as.Dir, 5*time.Second
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			want := map[string]int{"fail": 1, "note": 0}[r.state]
			if err := cmd.Run(); cmd.ProcessState.ExitCode() != want {
				t.Fatalf("%v: %s%s", err, out.String(), errs.String())
			}
			if state, text := parseHealth(t, out.String()).state(r.id); state != r.state {
				t.Errorf("%s is %s: %s", r.id, state, text)
			} else {
				wantIn(t, r.id, text, r.parts...)
			}
		})
	}
}

// As root all is told that doesn't need rootless podman.
func TestDoctorAsRoot(t *testing.T) {
	need.Root(t)
	cmd := exec.CommandContext(t.Context(), binary, "doctor", "--json")
	cmd.Dir = "/"
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	h := parseHealth(t, string(out))
	for id, want := range map[string]string{
		"user.ordinary": "fail", "podman.version": "ok", "podman.works": "unknown", "kernel.nftables": "ok", "network.pasta": "ok",
	} {
		if state, text := h.state(id); state != want {
			t.Errorf("%s is %s: %s", id, state, text)
		}
	}
}

// Where AppArmor leaves namespaces to podman, the packet filter is tried by a
// child of podman's.
func TestDoctorInPodman(t *testing.T) {
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Fatal(err)
	}
	dir := project(t)
	link := filepath.Join(dir, "aisb-doctor")
	if err := os.Symlink(binary, link); err != nil {
		t.Fatal(err)
	}
	o := call{dir: dir, bin: podman}.do(t, "unshare", link, "in-podman")
	o.wantStatus(t, 0)
	if o.stdout != `{"step":"done"}`+"\n" {
		t.Errorf("%q, %q", o.stdout, o.stderr)
	}
}

// Doctor runs on the host, in a directory that an agent may have written in.
func TestDoctorGit(t *testing.T) {
	dir := project(t)
	run := func(args ...string) {
		t.Helper()
		path, err := exec.LookPath("git")
		if err != nil {
			t.Fatal(err)
		}
		args = append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)
		call{dir: dir, bin: path}.do(t, args...).wantStatus(t, 0)
	}
	run("init", "-q")
	write(t, dir, "a", "a\n")
	run("add", "a")
	run("commit", "-q", "-m", "first")
	h, _ := call{dir: dir}.doctor(t)
	if state, text := h.state("run.git"); state != "ok" {
		t.Errorf("clean: %s: %s", state, text)
	}
	run("config", "core.fsmonitor", "touch "+dir+"/ran; false")
	write(t, dir, "a", "b\n")
	h, o := call{dir: dir}.doctor(t)
	o.wantStatus(t, 0)
	if state, text := h.state("run.git"); state != "note" || !strings.Contains(text, "1 file changed, 0 new files") {
		t.Errorf("dirty: %s: %s", state, text)
	}
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
		t.Error("doctor ran what the repository's configuration names")
	}
}
