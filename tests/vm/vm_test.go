//go:build linux

package main

import (
	"archive/tar"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/tests/need"
)

func TestParseRun(t *testing.T) {
	const usual = 10 * time.Minute
	for _, r := range []struct {
		args string
		want options
		err  string
	}{
		{"-- id -u", options{limit: usual, argv: []string{"id", "-u"}}, ""},
		{"--root --limit 90s --console c --file a:/b/../c id --root", options{
			root: true, limit: 90 * time.Second, console: "c",
			files: []file{{From: "a", To: "/c"}}, argv: []string{"id", "--root"}}, ""},
		{"--root --reboot -- id", options{root: true, reboot: true, limit: usual, argv: []string{"id"}}, ""},
		{"--root", options{}, "no command"},
		{"--file a:b -- id", options{}, `"a:b"`},
		{"--file :/b -- id", options{}, `":/b"`},
		{"--limit 0s -- id", options{}, "--limit 0s"},
		{"--limit soon -- id", options{}, `"soon"`},
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

func TestVirtualizes(t *testing.T) {
	for _, c := range []struct {
		cpuinfo string
		want    bool
	}{
		{"processor\t: 0\nflags\t\t: fpu vme svm sse\n", true},
		{"flags\t\t: fpu vmx\nvmx flags\t: vnmi\n", true},
		{"flags\t\t: fpu hypervisor svm_lock\nbugs\t\t: vmx\n", false},
		{"", false},
	} {
		if got := virtualizes(c.cpuinfo); got != c.want {
			t.Errorf("%q: got %v", c.cpuinfo, got)
		}
	}
}

// A machine that ends by a signal of its own says so; one that is ended doesn't.
func TestMachineThatAborts(t *testing.T) {
	for _, c := range []struct {
		script string
		want   string
	}{
		{"echo no such register >&2; kill -ABRT $$", "no such register"},
		{"echo no such disk >&2; exit 1", "no such disk"},
		{"exec sleep 60", ""},
	} {
		cmd := exec.Command("/bin/sh", "-c", c.script)
		var said strings.Builder
		cmd.Stderr = &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if c.want != "" {
			waitGone(t, cmd.Process.Pid)
		}
		err := (&machine{cmd: cmd}).end()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.script, err)
		}
	}
}

// waitGone waits until a child has ended; it is not reaped.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	var info unix.Siginfo
	if err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
}

// The command line passes through a shell, which must read the same words.
func TestQuote(t *testing.T) {
	words := []string{"printf", `%s\n`, "", "a b", "it's", `$HOME "x" \`, "two\nlines", ";", "--"}
	out, err := exec.Command("/bin/sh", "-c", quote(words)).Output()
	if want := strings.Join(words[2:], "\n") + "\n"; err != nil || string(out) != want {
		t.Errorf("got %q, %v, want %q", out, err, want)
	}
}

func TestJob(t *testing.T) {
	from := t.TempDir()
	for name, text := range map[string]string{"one": "1", "sub/two": "22"} {
		path := filepath.Join(from, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Join(t.TempDir(), "job")
	o := options{files: []file{{From: from, To: "/in"}, {From: from + "/one", To: "/else/uno"}}, argv: []string{"a", "b'c"}}
	if err := writeJob(name, o); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got := map[string]string{}
	for r := tar.NewReader(f); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		text, rerr := io.ReadAll(r)
		if err := errors.Join(err, rerr); err != nil {
			t.Fatal(err)
		}
		if head.Typeflag == tar.TypeReg {
			got[head.Name] = strconv.Itoa(head.Uid) + " " + string(text)
		}
	}
	want := map[string]string{
		"run/aisb-vm/start": "0 " + starter, "run/aisb-vm/user": "0 dev\n", "run/aisb-vm/command": "0 exec 'a' 'b'\\''c'\n",
		"in/one": "1000 1", "in/sub/two": "1000 22", "else/uno": "1000 1",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	o.files[0].From += "/none"
	if err := writeJob(name+"2", o); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("a missing file: got error %v", err)
	}
}

func TestFollow(t *testing.T) {
	for _, r := range []struct {
		text    string
		code    int
		started bool
		err     string
	}{
		{"started\nended 0\n", 0, true, ""},
		{"started\r\nended 77\r\nended 0\n", 77, true, ""},
		{"started\n", 0, true, errEnded.Error()},
		{"", 0, false, errEnded.Error()},
		{"started\nended 300\n", 0, true, `"300"`},
		{"ended\n", 0, false, `""`},
		{"started\nrebooting\nstarted\nended 3\n", 3, true, ""},
		{"started\nstarted\nended 0\n", 0, true, errAgain.Error()},
		{"started\nrebooting\n", 0, true, errEnded.Error()},
	} {
		started := false
		code, err := follow(strings.NewReader(r.text), func() { started = true })
		if code != r.code || started != r.started {
			t.Errorf("%q: got %d, started %v", r.text, code, started)
		}
		if r.err == "" && err != nil || r.err != "" && (err == nil || !strings.Contains(err.Error(), r.err)) {
			t.Errorf("%q: got error %v, want %q", r.text, err, r.err)
		}
	}
}

// bare is a machine that has nothing to boot and so does nothing, until it is
// ended. The marker finds its process.
func bare(marker string) []string {
	return []string{"-nodefaults", "-no-user-config", "-display", "none", "-accel", "tcg", "-m", "16", "-name", marker}
}

// running tells whether a process has this word in its command line.
func running(t *testing.T, word string) bool {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range lines {
		text, err := os.ReadFile(name)
		if err == nil && strings.Contains(string(text), "\x00"+word+"\x00") {
			return true
		}
	}
	return false
}

func TestTheMachineEndsWithItsTime(t *testing.T) {
	need.VM(t)
	marker := "aisb-test-" + strconv.Itoa(os.Getpid())
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for !running(t, marker) {
			time.Sleep(10 * time.Millisecond)
		}
		cancel()
	}()
	code, err := runMachine(ctx, bare(marker), io.Discard)
	if code != statusFailed || !errors.Is(err, errEnded) {
		t.Errorf("got %d, %v, want %d, %v", code, err, statusFailed, errEnded)
	}
	if running(t, marker) {
		t.Error("the emulator outlives its time")
	}
}

func TestTheMachineTellsWhyItFailed(t *testing.T) {
	need.VM(t)
	code, err := runMachine(t.Context(), []string{"-no-such-option"}, io.Discard)
	if code != statusFailed || err == nil || !strings.Contains(err.Error(), "no-such-option") {
		t.Errorf("got %d, %v, want what the emulator says", code, err)
	}
}

// Killed, the program leaves no machine behind: the kernel ends it.
func TestDeathEndsTheMachine(t *testing.T) {
	need.VM(t)
	marker := "aisb-test-death-" + strconv.Itoa(os.Getpid())
	if os.Getenv("AISB_VM_TEST_MACHINE") != "" {
		_, err := runMachine(t.Context(), bare(os.Getenv("AISB_VM_TEST_MACHINE")), io.Discard)
		t.Fatal("the machine ended:", err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestDeathEndsTheMachine$")
	cmd.Env = append(os.Environ(), "AISB_VM_TEST_MACHINE="+marker)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	until(t, "the machine runs", func() bool { return running(t, marker) })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	until(t, "the machine ends", func() bool { return !running(t, marker) })
}

// until waits for what happens in another process's time.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}
