package confine

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Nothing of this can be undone, so whatever is locked up is a child: this test
// binary under another name.
var children = map[string]func(w world, confined bool) (any, error){
	"try": childTry, "landlock": childLandlock, "threads": childThreads, "work": childWork,
}

func TestMain(m *testing.M) {
	child, ok := children[os.Args[0]]
	if !ok {
		os.Exit(m.Run())
	}
	var w world
	err := json.Unmarshal([]byte(os.Args[1]), &w)
	if err == nil {
		var result any
		if result, err = child(w, os.Args[2] == "confined"); err == nil {
			err = json.NewEncoder(os.Stdout).Encode(result)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// makeWorld makes files, a socket and a process.
func makeWorld(t *testing.T) world {
	t.Helper()
	top := t.TempDir()
	w := world{Readable: top + "/readable", Secret: top + "/secret", Scratch: top + "/runs/scratch", Socket: top + "/socket"}
	for _, dir := range []string{w.Readable, w.Secret, w.Scratch + "/sub/sub"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{w.Readable + "/file", w.Secret + "/file", w.Secret + "/spare", w.Scratch + "/sub/file", w.Readable + "/temporary"} {
		if err := os.WriteFile(name, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Symlink(w.Secret+"/file", w.Readable+"/link"), os.Rename(w.Readable+"/temporary", w.Readable+"/replaced")); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("unix", w.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	victim := exec.Command("/bin/sleep", "600")
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { victim.Process.Kill(); victim.Wait() })
	w.Victim = victim.Process.Pid
	return w
}

// run runs a child and decodes what it says.
func run(t *testing.T, w world, name, how string, result any) {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{name, string(text), how}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s, %s: %v: %s", name, how, err, stderr.String())
	}
	if err := json.Unmarshal(out, result); err != nil {
		t.Fatalf("%s, %s: %v: %s", name, how, err, out)
	}
}

// since are the versions of Landlock before which the filter alone refuses something.
var since = map[string]int{"empty what it may read": 3, "bind a port": 4}

// TestAttempts holds that what this package takes away is gone. The control makes the
// same attempts, which work, or fail for another reason.
func TestAttempts(t *testing.T) {
	abi, err := Landlock()
	if err != nil {
		t.Logf("of Landlock nothing is tried: %v", err)
	}
	var bare, confined, restricted map[string]outcome
	run(t, makeWorld(t), "try", "bare", &bare)
	run(t, makeWorld(t), "try", "confined", &confined)
	if abi > 0 {
		run(t, makeWorld(t), "landlock", "alone", &restricted)
	}
	for _, a := range attempts {
		if o := bare[a.name]; o.Refused {
			t.Errorf("%s: refused without it too: %s", a.name, o.Error)
		}
		ofFiles := slices.Equal(a.refused, landlocked)
		if o := confined[a.name]; !o.Refused && (!ofFiles || abi > 0) {
			t.Errorf("%s: worked: %v, error: %q", a.name, o.Worked, o.Error)
		}
		if o := restricted[a.name]; !o.Refused && ofFiles && abi >= max(1, since[a.name]) {
			t.Errorf("%s, under Landlock alone: worked: %v, error: %q", a.name, o.Worked, o.Error)
		}
	}
	worked := 0
	for _, o := range bare {
		if o.Worked {
			worked++
		}
	}
	if worked < len(attempts)/2 {
		t.Errorf("only %d of %d attempts work without it: %v", worked, len(attempts), bare)
	}
}

// TestThreads holds that it is all threads, those before and those to come.
func TestThreads(t *testing.T) {
	var got []string
	run(t, makeWorld(t), "threads", "confined", &got)
	if len(got) != 4 || got[0] != "24" || got[1] != "0" || got[2] != "0" {
		t.Errorf("of threads tried, could, status says not: %q", got)
	}
}

// lockedUp reads proc_pid_status(5).
func lockedUp(status string) bool {
	return strings.Contains(status, "\nNoNewPrivs:\t1\n") && strings.Contains(status, "\nSeccomp:\t2\n")
}

// TestWork holds that a gate can go on with its work, and is locked up in no time: a
// machine that is busy elsewhere may hold that up, but not each time.
func TestWork(t *testing.T) {
	const bound, times = time.Second, 3
	for range times {
		took := playWork(t)
		t.Logf("Apply took %v", took)
		if took <= bound || t.Failed() {
			return
		}
	}
	t.Errorf("Apply took more than %v, %d times", bound, times)
}

// playWork has a child do a gate's work and returns how long it took to lock it up.
func playWork(t *testing.T) time.Duration {
	t.Helper()
	w := makeWorld(t)
	var got work
	run(t, w, "work", "confined", &got)
	for _, text := range got.Failed {
		t.Error(text)
	}
	if _, err := os.Stat(w.Scratch); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the scratch directory: %v", err)
	}
	if _, err := os.Stat(filepath.Dir(w.Scratch)); err != nil {
		t.Errorf("the directory above: %v", err)
	}
	return got.Took
}

// TestReadable: it is the directories on the way, wherever a link leads.
func TestReadable(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"etc", "run/resolve", "run/other", "releases/2"} {
		if err := os.MkdirAll(filepath.Join(top, dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"etc/resolv.conf": "../run/resolve/stub", "run/resolve/stub": top + "/run/other/conf",
		"etc/loop": "loop", "etc/gone": "nowhere/at/all", "current": "releases/2", "etc/up": "../current/../x",
	} {
		if err := os.Symlink(to, filepath.Join(top, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(top, "etc/rules"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(top, "etc"))
	for _, c := range []struct {
		files, dirs []string
		want        string
	}{
		{nil, nil, ""},
		{[]string{top + "/etc/rules"}, nil, "etc"},
		{[]string{"rules", "./rules", "../etc/rules", "not-yet"}, nil, "etc"},
		{[]string{"resolv.conf"}, []string{top + "/releases"}, "etc releases run/other run/resolve"},
		{[]string{top + "/current/rules"}, nil, "releases/2"},
		{[]string{"loop"}, nil, "etc"},
		{[]string{"gone", "nowhere/x"}, nil, "etc"},
		{[]string{"up"}, nil, "etc releases"}, // .. of a link's target, not of the link
	} {
		got, err := Needs{Files: c.files, Dirs: c.dirs}.Readable()
		if err != nil {
			t.Errorf("%q: %v", c.files, err)
		}
		for i, dir := range got {
			if got[i], err = filepath.Rel(top, dir); err != nil {
				t.Fatal(err)
			}
		}
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("%q: %q, want %q", c.files, text, c.want)
		}
	}
}

func TestState(t *testing.T) {
	for want, s := range map[string]State{
		"none": {}, "seccomp": {Filter: true}, "landlock-3": {Landlock: 3}, "landlock-7 seccomp": {Landlock: 7, Filter: true},
	} {
		if got := s.String(); got != want {
			t.Errorf("%+v: %q, want %q", s, got, want)
		}
	}
}
