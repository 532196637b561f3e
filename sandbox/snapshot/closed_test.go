package snapshot

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/protect"
)

// A directory that its owner may not read, which an agent can open and close as it
// likes, counts: it isn't told by a number alone, and one can't take another's place.
func TestClosed(t *testing.T) {
	if os.Getuid() == 0 { // who reads everything
		asNobody(t)
		return
	}
	dir := t.TempDir()
	for _, name := range []string{"one/.git/config", "two/x", "repo/.git/config", ".vscode/in/x"} {
		write(t, dir+"/"+name, "")
	}
	modes := func(mode os.FileMode, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.Chmod(dir+"/"+name, mode); err != nil {
				t.Fatal(err)
			}
		}
	}
	closed := []string{"one", "two", "repo/.git", ".vscode/in"}
	defer modes(0o755, closed...)
	modes(0, "one", "repo/.git")
	w := watch(t, dir)
	for name, rule := range map[string]*protect.Rule{"one": protect.ClosedRule, "repo/.git": protect.ClosedRule} {
		if e := w.Before.Entries[name]; e.Rule != rule || e.Kind != protect.Directory {
			t.Errorf("%s: %+v", name, e)
		}
	}
	modes(0o755, "one", "repo/.git")
	modes(0o300, "two") // to go through, as a shell does
	modes(0, ".vscode/in")
	var got []string
	for _, c := range w.After(plenty).Changes {
		got = append(got, c.Path)
	}
	if text := strings.Join(got, " "); text != ".vscode/in one/.git repo/.git/config two" {
		t.Errorf("told: %s", text)
	}
}

// asNobody runs the test again, as another user.
func asNobody(t *testing.T) {
	dir, err := os.MkdirTemp("", "closed") //nolint:usetesting // that of TempDir has parents that are closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v:\n%s", err, out)
	}
}
