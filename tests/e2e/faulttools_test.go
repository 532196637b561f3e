//go:build e2e

package e2e

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// standIn puts a shell script in the place of a program that podman or aisb starts, and
// returns the environment that finds it.
func standIn(t *testing.T, name, script string) []string {
	t.Helper()
	dir := project(t)
	if err := os.Chmod(write(t, dir, name, "#!/bin/bash\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + dir + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
}

// TestOddPodman: a podman that does something else than to start the container is a
// refusal with podman's status, whatever it says. One that never ends is
// TestPodmanHangsWhileStarting's.
func TestOddPodman(t *testing.T) {
	hello := func(text string) string { // as pid 1 says it, see gate/fdmsg
		return `say() { printf "\\x$(printf %x $((${#1} / 16777216)))\\x$(printf %x $((${#1} / 65536 % 256)))\\x$(printf %x $((${#1} / 256 % 256)))\\x$(printf %x $((${#1} % 256)))%s" "$1" >&3; }
		say '` + text + `'; cat <&3 >/dev/null`
	}
	for _, tt := range []struct {
		name, script string
		status       int
		part         string
	}{
		{"does nothing", "exit 0", 125, "container did not start"},
		{"does nothing, and says it was the command", "exit 7", 125, "container did not start"},
		{"writes garbage", "head -c 100000 /dev/urandom; printf '\\n\\033]0;title\\007garbage\\n'; exit 0", 125, `\u001b]0;title\u0007garbage`},
		{"writes without an end", "yes podman | head -c 100000000; exit 0", 125, "podman"},
		{"writes one endless line", "yes podman | tr -d '\\n' | head -c 1000000; exit 0", 125, "podman"},
		{"writes garbage to pid 1's channel", "head -c 1000 /dev/urandom >&3; exit 0", 125, ""},
		{"lets a child live on that has pid 1's channel", "sleep 1000 & exit 0", 125, "container did not start"},
		{"is killed", "kill -9 $$", 125, "container did not start"},
		{"says hello itself", hello(`{"stage":"hello"}`), 78, "shares the host's"},
		{"says something else first", hello(`{"stage":"start"}`), 125, `entrypoint said "start" first`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNoTrace(t, false)
			c := call{dir: project(t), env: standIn(t, "podman", "case \" $* \" in *' run --rm '*) ;; *) exec /usr/bin/podman \"$@\" ;; esac\n"+tt.script+"\n")}
			o := c.aisb(t, allowed, sh("touch ran")...)
			killChildren(t, "sleep", "1000")
			wantRefusedStart(t, c.dir, o, tt.status, tt.part)
			wantNot(t, "error", o.stderr, "\x1b", "\x07")
			if len(o.stderr) > 4096 {
				t.Errorf("%d bytes of error", len(o.stderr))
			}
			t.Logf("%v: %.1000q", o.took.Round(time.Millisecond), o.stderr)
			gone()
		})
	}
}

// killChildren ends what a stand-in has left behind on purpose.
func killChildren(t *testing.T, args ...string) {
	t.Helper()
	for _, p := range processes() {
		if len(p.args) == len(args) && p.args[0] == args[0] && p.args[1] == args[1] {
			if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestOddPasta: a pasta that ends at once, with an error or without, is a refusal.
func TestOddPasta(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		status       int
		part         string
	}{
		{"fails", "echo 'pasta: no luck today' >&2; exit 1", 125, "no luck today"},
		{"does nothing", "exit 0", 78, "no pasta process serves"},
		{"is killed", "kill -9 $$", 125, "pasta"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNoTrace(t, false)
			c := call{dir: project(t), env: standIn(t, "pasta", "case \" $* \" in *' --version '*) exec /usr/bin/pasta \"$@\" ;; esac\n"+tt.script+"\n")}
			o := c.aisb(t, append([]string{"--net-backend", "pasta"}, allowed...), sh("touch ran")...)
			wantRefusedStart(t, c.dir, o, tt.status, tt.part)
			gone()
		})
	}
}
