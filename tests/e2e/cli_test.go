//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Point 5: an empty allowlist is an error that names the three ways out, and
// starts nothing.
func TestPoint5EmptyAllowlist(t *testing.T) {
	c := call{dir: project(t)}
	rules := write(t, c.dir, "rules", "# none\n\n")
	for _, flags := range [][]string{nil, {"--allow-file", rules}, {"--deny", "evil.test"}} {
		o := c.aisb(t, flags, "touch", "ran")
		o.wantStatus(t, 2)
		wantIn(t, "error", o.stderr, "aisb: error: the allowlist is empty", "--allow HOST", "--net none", "--net full")
		if n := strings.Count(o.stderr, "aisb: hint: "); n != 3 {
			t.Errorf("%d hints, want 3:\n%s", n, o.stderr)
		}
	}
	if _, err := os.Lstat(filepath.Join(c.dir, "ran")); err == nil {
		t.Error("the command ran")
	}
}

// Point 5: check answers on the host, from flags, and inside, from the gate.
func TestPoint5Check(t *testing.T) {
	resolver := []string{"--resolver", routerAddr}
	for _, tt := range []struct {
		target string
		status int
		parts  []string
	}{
		{"allowed.test", 0, []string{"allowed.test:443 allowed: listed", "rule:", "addresses: " + originAddr}},
		{"allowed.test:80", 0, []string{"allowed.test:80 allowed: listed"}},
		{"allowed.test:22", 1, []string{"allowed.test:22 refused: port-not-listed", "--allow allowed.test:22"}},
		{"evil.test", 1, []string{"evil.test:443 refused: not-listed", "--allow evil.test"}},
		{"inside.test", 1, []string{"inside.test:443 refused: special-address"}},
		{"own.test", 1, []string{"own.test:443 refused: own-address"}},
		{"nobody.test", 1, []string{"nobody.test:443 allowed, but can't be reached: nxdomain"}},
	} {
		t.Run("host "+tt.target, func(t *testing.T) {
			args := append([]string{"check", "--allow", "allowed.test,inside.test,own.test,nobody.test"}, resolver...)
			o := call{dir: agent.home}.do(t, append(args, tt.target)...)
			o.wantStatus(t, tt.status)
			wantIn(t, "answer", o.stdout, tt.parts...)
		})
	}
	t.Run("inside", func(t *testing.T) {
		mark := internet.mark()
		o := aisb(t, allowed, sh(`for h in allowed.test allowed.test:22 evil.test; do aisb check $h; echo "status $?"; done
			aisb check --json evil.test`)...)
		o.wantStatus(t, 1)
		wantIn(t, "answers", o.stdout, "allowed.test:443 allowed: listed", "status 0\n",
			"allowed.test:22 refused: port-not-listed", "evil.test:443 refused: not-listed", "status 1\n")
		wantNot(t, "answers", o.stdout, originAddr)
		lines := strings.Split(strings.TrimSpace(o.stdout), "\n")
		var got struct {
			Host   string
			Allow  bool
			Reason string
		}
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &got); err != nil || got.Host != "evil.test" || got.Allow || got.Reason != "not-listed" {
			t.Errorf("%+v, %v", got, err)
		}
		internet.wantSilence(t, mark)
		wantNot(t, "receipt", o.stderr, "refused") // a question is no traffic
	})
}

// Point 5: a receipt ends each run: duration, status, proof, hosts with bytes,
// refusals with the flag that would allow them, and where to look.
func TestPoint5Receipt(t *testing.T) {
	o := aisb(t, allowed, sh(`curl -sS -o /dev/null http://allowed.test/bytes/100000
		for i in 1 2 3; do curl -s -o /dev/null http://evil.test/; done; curl -s -o /dev/null http://nobody.allowed.test:99/; exit 3`)...)
	o.wantStatus(t, 3)
	wantIn(t, "receipt", o.stderr, "aisb: ended after ", " with status 3; ", "reached allowed.test:80 (", "KiB down)",
		"refused evil.test:80 3 times (not-listed); to allow it: --allow evil.test",
		"refused nobody.allowed.test:99 (not-listed); to allow it: --allow nobody.allowed.test:99")
	if o.stdout != "" {
		t.Errorf("stdout holds more than the command's output: %q", o.stdout)
	}
	_, path, ok := strings.Cut(o.stderr, "aisb: log: ")
	if !ok {
		t.Fatalf("no log is named:\n%s", o.stderr)
	}
	path = strings.TrimSpace(path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("the log's mode is %v", info.Mode())
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	events := map[string]int{}
	for line := range strings.Lines(string(text)) {
		var e struct{ Event, Host, Reason string }
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		events[e.Event+" "+e.Host+" "+e.Reason]++
	}
	if events["allow allowed.test listed"] != 1 || events["deny evil.test not-listed"] != 3 {
		t.Errorf("logged %v", events)
	}
	wantNot(t, "log", string(text), "/bytes/100000")
}

// TestStatus passes the command's own status on, tells 77 and 78 of the command
// from the fence's, and knows what can't be run.
func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		command []string
		status  int
		part    string
	}{
		{sh("exit 0"), 0, "status 0"},
		{sh("exit 42"), 42, "status 42"},
		{sh("exit 77"), 77, "(the command's own, not the fence's)"},
		{sh("exit 78"), 78, "(the command's own, not the fence's)"},
		{sh("kill -9 $$"), 137, "status 137"},
		{[]string{"no-such-command"}, 127, `command "no-such-command"`},
		{[]string{"/etc/passwd"}, 126, `command "/etc/passwd"`},
	} {
		t.Run(fmt.Sprint(tt.command), func(t *testing.T) {
			gone := wantNothingLeft(t)
			o := aisb(t, []string{"--net", "none"}, tt.command...)
			o.wantStatus(t, tt.status)
			wantIn(t, "message", o.stderr, tt.part)
			gone()
		})
	}
}

// TestMissingPodmanOrImage is podman's status, with a reason and a hint.
func TestMissingPodmanOrImage(t *testing.T) {
	empty := project(t)
	o := call{dir: project(t), env: []string{"PATH=" + empty}}.aisb(t, allowed, "true")
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "aisb: error: podman is not installed", "aisb: hint: ")

	o = call{dir: project(t)}.do(t, "run", "--image", "localhost/no-such-image:1", "--net", "none", "--ephemeral-home", "--", "true")
	o.wantStatus(t, 125)
	wantIn(t, "error", o.stderr, "aisb: error: ", "no such image", "localhost/no-such-image:1", "aisb: hint: get it by 'podman pull'")
}

// TestPodmansOwnFailure is 125, although podman has 126 and 127 for some of it:
// no command was even looked for.
func TestPodmansOwnFailure(t *testing.T) {
	noPasta := project(t)
	for _, dir := range []string{"/usr/bin", "/usr/sbin"} {
		programs, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range programs {
			if strings.HasPrefix(p.Name(), "pasta") || strings.HasPrefix(p.Name(), "passt") {
				continue
			}
			// Both directories may be one, and have the same programs.
			if err := os.Symlink(filepath.Join(dir, p.Name()), filepath.Join(noPasta, p.Name())); err != nil && !errors.Is(err, fs.ErrExist) {
				t.Fatal(err)
			}
		}
	}
	for _, tt := range []struct{ name, flag, env, part, hint string }{
		{"no pasta", "--net-backend=pasta", "PATH=" + noPasta, "pasta(1) is not installed", "--net-backend inner"},
		{"no such runtime option", "--net=allow", "AISB_EXTRA_ARGS=--ulimit=nofile=2000000000:2000000000", "podman: ", "ulimit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			o := call{dir: project(t), env: []string{tt.env}}.aisb(t, append([]string{tt.flag}, allowed...), "true")
			o.wantStatus(t, 125)
			wantIn(t, "error", o.stderr, "aisb: error: "+tt.part, "aisb: hint: ", tt.hint)
			gone()
		})
	}
	// The default needs none.
	for name, env := range map[string][]string{"with a pasta": nil, "without": {"PATH=" + noPasta}} {
		t.Run(name, func(t *testing.T) {
			o := call{dir: project(t), env: env}.aisb(t, append([]string{"--net-backend=auto"}, allowed...), sh("echo $http_proxy; ls /sys/class/net")...)
			o.wantStatus(t, 0)
			if want := "http://127.0.0.1:3128\nlo\n"; o.stdout != want {
				t.Errorf("got %q, want %q", o.stdout, want)
			}
		})
	}
}
