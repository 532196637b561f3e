//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// looks are what a widened run would give an agent: a host, a variable, files.
const looks = `curl -s -o /dev/null -w '%{http_code}\n' http://evil.test/; echo "variable $HOST_SECRET"; cat /mnt/secret/marker 2>/dev/null; exit 0`

// widen is a project's file that opens all of it.
func widen(dir string) string {
	return fmt.Sprintf("allow = [\"evil.test\", \"allowed.test\"]\ndeny = [\"denied.test\"]\nenv = [\"HOST_SECRET\"]\nmounts = [%q]\n", dir+":/mnt/secret")
}

// secretDir is a directory of the user's that no run is told of.
func secretDir(t *testing.T) string {
	t.Helper()
	dir := project(t)
	write(t, dir, "marker", "host file\n")
	return dir
}

func wantNarrow(t *testing.T, o outcome) {
	t.Helper()
	o.wantStatus(t, 0)
	wantNot(t, "output", o.stdout, "200", hostSecret, "host file")
	wantIn(t, "output", o.stdout, "403\n", "variable \n")
}

// An agent that writes the project's configuration gets
// nothing in the next run, whatever it writes, wherever it puts it.
func TestAgentWidens(t *testing.T) {
	secret := secretDir(t)
	fresh := func(t *testing.T) call { return call{dir: project(t), env: []string{"HOST_SECRET=" + hostSecret}} }
	// agent runs a script inside, with the file of its wishes at hand.
	agentDoes := func(t *testing.T, c call, script string) {
		t.Helper()
		write(t, c.dir, "wishes", widen(secret))
		c.aisb(t, allowed, sh(script)...).wantStatus(t, 0)
	}
	t.Run("control", func(t *testing.T) {
		c := fresh(t)
		write(t, c.dir, ".aisb.toml", widen(secret))
		c.do(t, "config", "trust", "--yes").wantStatus(t, 0)
		o := c.aisb(t, nil, sh(looks)...)
		o.wantStatus(t, 0)
		wantIn(t, "what an approved file opens", o.stdout, "200\nvariable "+hostSecret+"\nhost file\n")
	})
	t.Run("new file", func(t *testing.T) {
		c := fresh(t)
		agentDoes(t, c, "cp wishes .aisb.toml")
		o := c.aisb(t, allowed, sh(looks)...)
		wantNarrow(t, o)
		wantIn(t, "warning", o.stderr, "aisb: warning: .aisb.toml is not approved, so only its deny counts")
		c.aisb(t, nil, "true").wantStatus(t, 2) // its allow is no allowlist either
	})
	t.Run("changed file", func(t *testing.T) {
		c := fresh(t)
		write(t, c.dir, ".aisb.toml", "allow = [\"allowed.test\"]\n")
		c.do(t, "config", "trust", "--yes").wantStatus(t, 0)
		agentDoes(t, c, "cat wishes >>.aisb.toml; cp wishes .aisb.toml; mv wishes .aisb.toml; exit 0")
		// Where the file is read-only inside, it is changed as if it weren't.
		write(t, c.dir, ".aisb.toml", widen(secret))
		o := c.aisb(t, allowed, sh(looks)...)
		wantNarrow(t, o)
		wantIn(t, "warning", o.stderr, "aisb: warning: .aisb.toml has changed since you approved it")
		shown := c.do(t, "config", "trust", "--show")
		shown.wantStatus(t, 1)
		wantIn(t, "what is new", shown.stdout, "  + lets the sandbox reach evil.test\n", "  + passes your variable HOST_SECRET\n", "  + mounts "+secret)
	})
	t.Run("only denials count", func(t *testing.T) {
		c := fresh(t)
		agentDoes(t, c, "cp wishes .aisb.toml")
		o := c.aisb(t, []string{"--allow", "allowed.test,denied.test"}, sh(`curl -s -o /dev/null -w '%{http_code}\n' http://denied.test/`)...)
		o.wantStatus(t, 0)
		wantIn(t, "receipt", o.stderr, "refused denied.test:80 (denied-rule)")
	})
	t.Run("link", func(t *testing.T) {
		c := fresh(t)
		write(t, secret, "wide.toml", widen(secret))
		for _, target := range []string{"wishes", filepath.Join(secret, "wide.toml"), "/proc/self/environ"} {
			agentDoes(t, c, "rm -f .aisb.toml; ln -s "+target+" .aisb.toml")
			o := c.aisb(t, allowed, "touch", "ran")
			o.wantStatus(t, 78)
			wantIn(t, "error", o.stderr, `aisb: error: ".aisb.toml" is a symbolic link, which is not followed`)
			wantNothingRan(t, c.dir)
			c.do(t, "config", "trust", "--yes").wantStatus(t, 78)
			if err := os.Remove(filepath.Join(c.dir, ".aisb.toml")); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("parent", func(t *testing.T) {
		top := fresh(t)
		agentDoes(t, top, "mkdir below; cp wishes .aisb.toml; (cp wishes ../.aisb.toml; cp wishes /.aisb.toml) 2>/dev/null; exit 0")
		below := call{dir: filepath.Join(top.dir, "below"), env: top.env}
		o := below.aisb(t, allowed, sh(looks)...)
		wantNarrow(t, o)
		wantNot(t, "warning", o.stderr, ".aisb.toml")
	})
	t.Run("subdirectory", func(t *testing.T) {
		top := fresh(t)
		write(t, top.dir, ".aisb.toml", widen(secret))
		top.do(t, "config", "trust", "--yes").wantStatus(t, 0)
		agentDoes(t, top, "mkdir below; cp wishes below/.aisb.toml")
		below := call{dir: filepath.Join(top.dir, "below"), env: top.env}
		wantNarrow(t, below.aisb(t, allowed, sh(looks)...))
	})
	t.Run("approval", func(t *testing.T) {
		c := fresh(t)
		agentDoes(t, c, `cp wishes .aisb.toml
			for d in ~/.local/state ~/.config /home/agent /project; do
				mkdir -p $d/aisb/trust
				printf '{"sha256": "%s"}' $(sha256sum <.aisb.toml | cut -d' ' -f1) >$d/aisb/trust/$(printf %s "$0" | sha256sum | cut -d' ' -f1).json
			done; aisb config trust --yes || exit 0`)
		wantNarrow(t, c.aisb(t, allowed, sh(looks)...))
	})
	t.Run("user's file", func(t *testing.T) {
		c := fresh(t)
		agentDoes(t, c, "for d in ~ . .. /; do (mkdir -p $d/.config/aisb && cp wishes $d/.config/aisb/config.toml) 2>/dev/null; done; exit 0")
		wantNarrow(t, c.aisb(t, allowed, sh(looks)...))
	})
}

// The user's file gives a run what flags would, and flags add to it.
func TestUserConfig(t *testing.T) {
	conf, secret := project(t), secretDir(t)
	dir := filepath.Join(conf, "aisb")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(dir, agent.uid, agent.gid); err != nil {
		t.Fatal(err)
	}
	file := write(t, dir, "config.toml", widen(secret)+"net-backend = \""+backend+"\"\nresolver = \""+routerAddr+"\"\n")
	c := call{dir: project(t), env: []string{"XDG_CONFIG_HOME=" + conf, "HOST_SECRET=" + hostSecret}}
	if own := filepath.Join(agent.home, ".config/containers/storage.conf"); exists(own) {
		c.env = append(c.env, "CONTAINERS_STORAGE_CONF="+own)
	}
	o := c.do(t, append([]string{"run", "--image", testImage, "--ephemeral-home", "--allow", "denied.test", "--"}, sh(looks)...)...)
	o.wantStatus(t, 0)
	wantIn(t, "output", o.stdout, "200\nvariable "+hostSecret+"\nhost file\n")
	wantIn(t, "warning", o.stderr, `rule "denied.test" allows nothing: denied.test denies it (`+file+":2)")
	if err := os.Chmod(file, 0o664); err != nil {
		t.Fatal(err)
	}
	o = c.aisb(t, allowed, "touch", "ran")
	o.wantStatus(t, 78)
	wantIn(t, "error", o.stderr, "can be written by other users")
	wantNothingRan(t, c.dir)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	// The link leads into the project.
	write(t, c.dir, "aisb.toml", "allow = [\"allowed.test\"]\n")
	if err := os.Symlink(filepath.Join(c.dir, "aisb.toml"), file); err != nil {
		t.Fatal(err)
	}
	o = c.aisb(t, allowed, "touch", "ran")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, "lies where the sandbox can write")
	wantNothingRan(t, c.dir)
	o = c.aisb(t, []string{"--project-ro"}, sh("cat aisb.toml")...)
	o.wantStatus(t, 0)
	if !strings.Contains(o.stdout, "allowed.test") {
		t.Errorf("got %q", o.stdout)
	}
}
