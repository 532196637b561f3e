//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileConfig makes a home and an environment in which podman's configuration
// adds volumes, variables, another seccomp profile and options of pasta. The
// images stay the user's.
func hostileConfig(t *testing.T) (env []string) {
	t.Helper()
	home, secret := project(t), project(t)
	write(t, secret, "marker", "from the host\n")
	conf := filepath.Join(home, ".config/containers")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, conf, "containers.conf", fmt.Sprintf(`[containers]
volumes = [%q]
seccomp_profile = "unconfined"
default_capabilities = ["CHOWN", "DAC_OVERRIDE", "SYS_ADMIN"]
annotations = ["from.conf=1"]
http_proxy = true
[network]
pasta_options = ["--map-guest-addr", "169.254.1.9", "-T", "auto", "-U", "auto"]
[engine]
env = ["FROM_ENGINE=1"]
`, secret+":/from-conf"))
	write(t, conf, "mounts.conf", secret+":/from-mounts-conf\n")
	for _, dir := range []string{filepath.Join(home, ".config"), conf} {
		if err := os.Chown(dir, agent.uid, agent.gid); err != nil {
			t.Fatal(err)
		}
	}
	override := write(t, home, "override.conf", "[containers]\nenv = [\"FROM_OVERRIDE=1\"]\n")
	env = []string{
		"HOME=" + home, "XDG_DATA_HOME=" + filepath.Join(agent.home, ".local/share"),
		"CONTAINERS_CONF_OVERRIDE=" + override,
		"http_proxy=http://10.9.9.9:1", "HTTPS_PROXY=http://10.9.9.9:1", "FROM_HOST=1",
	}
	if own := filepath.Join(agent.home, ".config/containers/storage.conf"); exists(own) {
		env = append(env, "CONTAINERS_STORAGE_CONF="+own)
	}
	return env
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const showConfig = `env; ls -d /from-conf /from-mounts-conf /run/secrets/* 2>/dev/null; cat /proc/self/mountinfo; grep Seccomp: /proc/self/status`

var configMarks = []string{"/from-conf", "/from-mounts-conf", "FROM_OVERRIDE", "FROM_ENGINE", "FROM_HOST", "10.9.9.9"}

// Point 4: a containers.conf and a mounts.conf that add things change nothing.
func TestPoint4ConfigurationOfPodmanIsShutOut(t *testing.T) {
	env := hostileConfig(t)
	t.Run("control", func(t *testing.T) {
		// podman alone takes all of it.
		o := call{dir: agent.home, env: env, bin: "/usr/bin/podman"}.do(t, "run", "--rm", "--network=none", testImage, "/bin/sh", "-c", showConfig)
		o.wantStatus(t, 0)
		wantIn(t, "podman's container", o.stdout, "/from-conf", "/from-mounts-conf", "FROM_OVERRIDE=1", "10.9.9.9", "Seccomp:\t0")
	})
	t.Run("aisb", func(t *testing.T) {
		o := call{dir: project(t), env: env}.aisb(t, allowed, sh(showConfig+"; curl -sS http://allowed.test/")...)
		o.wantStatus(t, 0)
		wantNot(t, "sandbox", o.stdout, configMarks...)
		wantIn(t, "sandbox", o.stdout, "Seccomp:\t2", "origin GET allowed.test /")
	})
	t.Run("own CONTAINERS_CONF", func(t *testing.T) {
		c := call{dir: project(t), env: append(env, "CONTAINERS_CONF="+strings.TrimPrefix(env[0], "HOME=")+"/.config/containers/containers.conf",
			"CONTAINER_HOST=unix:///nonexistent.sock")}
		o := c.aisb(t, allowed, sh(showConfig)...)
		o.wantStatus(t, 0)
		wantNot(t, "sandbox", o.stdout, configMarks...)
	})
}

// TestEnvironmentInside is the whole of it: what aisb gives, what the user names,
// and nothing of the host or the image.
func TestEnvironmentInside(t *testing.T) {
	c := call{dir: project(t), env: []string{"SECRET_OF_HOST=1", "NAMED=by name", "TERM=xterm", "LC_ALL=C"}}
	o := c.aisb(t, append([]string{"--env", "NAMED", "-e", "GIVEN=x=y z"}, allowed...), "env")
	o.wantStatus(t, 0)
	wantIn(t, "environment", o.stdout, "NAMED=by name\n", "GIVEN=x=y z\n", "HOME=/home/agent\n", "http_proxy=http://"+gateAddr()+":", "HTTPS_PROXY=http://"+gateAddr()+":")
	wantNot(t, "environment", o.stdout, "SECRET_OF_HOST", "LC_ALL", "XDG_", "container=", "HOSTNAME=", agent.home)
	o = c.aisb(t, append([]string{"--env", "UNSET_NAME"}, allowed...), "env")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, `"UNSET_NAME"`, "aisb: hint: ")
}

// TestPodmanOfTheProject: what an agent left where PATH leads is not run on the
// host, neither as podman nor as one of its helpers.
func TestPodmanOfTheProject(t *testing.T) {
	dir := project(t)
	if err := os.Mkdir(dir+"/bin", 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"podman", "newuidmap", "newgidmap", "conmon", "crun", "pasta", "nsenter"} {
		path := write(t, dir, "bin/"+name, "#!/bin/sh\necho \"$0\" >>"+dir+"/ran-on-the-host\nexit 1\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=" + dir + "/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	call{dir: dir, env: env}.aisb(t, allowed, "true").wantStatus(t, 0)
	call{dir: dir, env: env}.aisb(t, append([]string{"--project-ro"}, allowed...), "true").wantStatus(t, 0) // what an earlier run left is there
	call{dir: dir, env: env}.do(t, "image", "ls").wantStatus(t, 0)
	if ran, err := os.ReadFile(dir + "/ran-on-the-host"); err == nil {
		t.Errorf("these ran on the host:\n%s", ran)
	}
}
