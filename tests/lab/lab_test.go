//go:build linux

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aisb-dev/aisb/tests/need"
)

func TestParseRun(t *testing.T) {
	for _, r := range []struct {
		args string
		want options
		err  string
	}{
		{"-- id -u", options{net: "host", argv: []string{"id", "-u"}}, ""},
		{"--root --scratch --net private --dir / --env A=1 --env B=2 -- sh -c x", options{
			root: true, scratch: true, net: "private", dir: "/",
			env: list{"A=1", "B=2"}, argv: []string{"sh", "-c", "x"}}, ""},
		{"--go id --root", options{withGo: true, net: "host", argv: []string{"id", "--root"}}, ""},
		{"--root", options{}, "no command"},
		{"--net none -- id", options{}, `"none"`},
		{"--bogus -- id", options{}, "bogus"},
	} {
		got, err := parseRun(strings.Fields(r.args))
		if r.err != "" {
			if err == nil || !strings.Contains(err.Error(), r.err) {
				t.Errorf("%s: got error %v, want one with %q", r.args, err, r.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, r.want) {
			t.Errorf("%s: got %+v, %v, want %+v", r.args, got, err, r.want)
		}
	}
}

func TestParseBind(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]bind{
		dir + ":/x":          {From: dir, To: "/x"},
		dir + ":/x/../y/:ro": {From: dir, To: "/y", ReadOnly: true},
	} {
		if got, err := parseBind(text); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"", dir, dir + ":x", dir + ":ro", dir + "/none:/x"} {
		if got, err := parseBind(text); err == nil {
			t.Errorf("%q: got %+v, want an error", text, got)
		}
	}
}

// inLab runs a command in a scratch entry and returns its output and status.
func inLab(t *testing.T, l *lab, stdin string, args ...string) (string, int) {
	t.Helper()
	cmd := labCommand(l, args...)
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Env = append(cmd.Env, "LAB_TEST_CANARY=1")
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out)), cmd.ProcessState.ExitCode()
}

// labCommand calls the program that the script has built, without building it
// each time.
func labCommand(l *lab, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(l.cache, "lab"), append([]string{"run", "--scratch"}, args...)...)
	cmd.Env = append(os.Environ(), "AISB_LAB_CACHE="+l.cache)
	cmd.Stderr = os.Stderr
	return cmd
}

// needLab needs the lab, and makes it where this machine can.
func needLab(t *testing.T) *lab {
	t.Helper()
	need.Root(t)
	if out, err := exec.Command("./lab", "make").CombinedOutput(); err != nil {
		need.Missing(t, "lab", errors.New(string(out)))
	}
	path, err := exec.Command("./lab", "path").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := strings.TrimSpace(string(path))
	return &lab{cache: filepath.Dir(dir), dir: dir}
}

func TestEntry(t *testing.T) {
	l := needLab(t)
	work := t.TempDir()
	for _, r := range []struct {
		name, stdin string
		args        []string
		want        string
		status      int
	}{
		{"user", "", []string{"--", "sh", "-c", "id -un; pwd; stat -c %U:%a $XDG_RUNTIME_DIR; exit 7"}, "dev\n/home/dev\ndev:700", 7},
		{"root", "", []string{"--root", "--dir", "/", "--", "sh", "-c", "id -un; pwd"}, "root\n/", 0},
		{"stdin", "through", []string{"--", "cat"}, "through", 0},
		{"killed", "", []string{"--", "sh", "-c", "kill -9 $$"}, "", 137},
		{"no command", "", []string{"--", "no-such-command"}, "", 127},
		{"environment", "", []string{"--env", "A=b c", "--", "sh", "-c", `echo "$A$LAB_TEST_CANARY$AISB_LAB"`}, "b c1", 0},
		{"read-only bind", "", []string{"--root", "--bind", work + ":/w:ro", "--", "sh", "-c", "touch /w/x 2>/dev/null || echo refused"}, "refused", 0},
		{"bind", "", []string{"--root", "--bind", work + ":/new/w", "--", "touch", "/new/w/made"}, "", 0},
		{"tun for all", "", []string{"--", "sh", "-c", "exec 3<>/dev/net/tun && echo open"}, "open", 0},
		{"own network", "", []string{"--net", "private", "--", "sh", "-c", "ip -4 route show default; ip -6 route show default | wc -l"},
			"default via 10.76.0.1 dev net0 \n1", 0},
		{"rootless podman", "", []string{"--", "podman", "info", "--format", "{{.Host.Security.Rootless}} {{.Host.CgroupsVersion}}"}, "true v2", 0},
		{"pasta", "", []string{"--net", "private", "--", "pasta", "--config-net", "--", "sh", "-c", "ip -4 route show default | wc -l"}, "1", 0},
		{"only its own processes", "", []string{"--", "sh", "-c", "set -- /proc/[0-9]*; echo $#"}, "2", 0}, // first, sh
	} {
		got, status := inLab(t, l, r.stdin, r.args...)
		if got != r.want || status != r.status {
			t.Errorf("%s: got %q, status %d, want %q, %d", r.name, got, status, r.want, r.status)
		}
	}
	if !exists(work + "/made") {
		t.Error("a bind mount was not writable")
	}
}

func TestNothingIsLeft(t *testing.T) {
	l := needLab(t)
	before := mounts(t)
	// A number that no other process here sleeps for.
	sleep := "sleep " + strconv.Itoa(100000+os.Getpid())
	_, status := inLab(t, l, "", "--root", "--", "sh", "-c", "echo x >/etc/lab-test; (setsid "+sleep+" &); exit 3")
	if status != 3 {
		t.Fatalf("got status %d, want 3", status)
	}
	if running(t, sleep) {
		t.Error("a process outlives its entry")
	}
	if exists(l.root() + "/etc/lab-test") {
		t.Error("an entry wrote to the cached root")
	}
	if after := mounts(t); after != before {
		t.Errorf("mounts of the machine changed:\n%s\nbefore:\n%s", after, before)
	}
}

func TestDeathEndsTheEntry(t *testing.T) {
	l := needLab(t)
	for _, s := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		sleep := "sleep " + strconv.Itoa(200000+os.Getpid()) + "." + strconv.Itoa(int(s))
		cmd := labCommand(l, "--", "sh", "-c", "echo ready; exec "+sleep)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := out.Read(make([]byte, 6)); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		want := -1 // by SIGKILL
		if s == syscall.SIGTERM {
			want = 128 + int(s)
		}
		if got := cmd.ProcessState.ExitCode(); got != want {
			t.Errorf("%v: got status %d, want %d", s, got, want)
		}
		until(t, s.String()+": the command ends with the lab", func() bool { return !running(t, sleep) })
	}
}

// running tells whether a process with this command line exists.
func running(t *testing.T, command string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		text, err := os.ReadFile(name)
		if err == nil && strings.TrimRight(strings.ReplaceAll(string(text), "\x00", " "), " ") == command {
			return true
		}
	}
	return false
}

// mounts are those of this process's namespace that lie in the lab's places.
func mounts(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	var own []string
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, "aisb-lab") {
			own = append(own, line)
		}
	}
	return strings.Join(own, "")
}
