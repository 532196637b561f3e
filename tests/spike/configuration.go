//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func configurationClaims() []claim {
	return []claim{
		{"c1", "what a user's containers.conf and mounts.conf put into a plain podman run: environment, volumes, mounts, seccomp, pasta's options, hooks (this is what must be shut out)", claimOpenConfiguration},
		{"c2", "CONTAINERS_CONF alone leaves mounts.conf in", claimConfAlone},
		{"c3", "CONTAINERS_CONF, --default-mounts-file and --hooks-dir together shut all of it out, the user's storage stays, and podman's clean-up works", claimClosedConfiguration},
		{"c4", "CONTAINER_HOST makes plain podman a remote one; --remote=false doesn't listen to it", claimRemote},
		{"c5", "the proxy variables of podman's environment reach a plain run, and none with --http-proxy=false", claimProxyVariables},
	}
}

// hostile writes a user's configuration that adds something of every kind, and
// returns the environment that has it.
func (t *trial) hostile() ([]string, error) {
	dir := t.env.dir + "/hostile"
	conf := dir + "/.config/containers"
	text := fmt.Sprintf(`[containers]
env = ["SPIKE_CANARY=1"]
volumes = ["%[1]s/canary:/canary-volume"]
seccomp_profile = "unconfined"
[network]
pasta_options = ["-T", "auto"]
[engine]
hooks_dir = ["%[1]s/hooks"]
`, dir)
	hook := fmt.Sprintf(`{"version":"1.0.0","hook":{"path":"/usr/bin/touch","args":["touch","%s/hook-ran"]},
"when":{"always":true},"stages":["createRuntime"]}`, dir)
	err := errors.Join(
		os.MkdirAll(conf, 0o755), os.MkdirAll(dir+"/canary", 0o755), os.MkdirAll(dir+"/hooks", 0o755),
		os.WriteFile(conf+"/containers.conf", []byte(text), 0o644),
		os.WriteFile(conf+"/mounts.conf", []byte(dir+"/canary:/canary-mount\n"), 0o644),
		os.WriteFile(dir+"/hooks/canary.json", []byte(hook), 0o644),
		os.RemoveAll(dir+"/hook-ran"),
	)
	if err != nil {
		return nil, err
	}
	// The images are where the user's storage.conf says.
	own := filepath.Join(configHome(), "containers/storage.conf")
	if storage, err := os.ReadFile(own); err == nil {
		if err := os.WriteFile(conf+"/storage.conf", storage, 0o644); err != nil {
			return nil, err
		}
	}
	return hostileHome(os.Environ(), dir), nil
}

// hostileHome is the environment with another home; the images stay.
func hostileHome(env []string, dir string) []string {
	data := os.Getenv("XDG_DATA_HOME")
	if data == "" {
		data = os.Getenv("HOME") + "/.local/share"
	}
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		return slices.Contains([]string{"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"}, name)
	})
	return append(env, "HOME="+dir, "XDG_DATA_HOME="+data) // mounts.conf is sought below HOME alone
}

func configHome() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); dir != "" {
		return dir
	}
	return os.Getenv("HOME") + "/.config"
}

// canaries starts a container under podman's environment and tells which of the
// hostile configuration's parts are in it.
func (t *trial) canaries(p plan) ([]string, error) {
	b, err := t.start(p)
	if err != nil {
		return nil, err
	}
	a, err := t.sh(b, "env | grep CANARY; ls -d /canary*; grep Seccomp: /proc/self/status")
	if err != nil {
		return nil, err
	}
	var in []string
	for part, text := range map[string]string{
		"environment": "SPIKE_CANARY", "volume": "/canary-volume\n", "mount": "/canary-mount\n", "seccomp": "Seccomp:\t0",
	} {
		if strings.Contains(a.Out+"\n", text) && !strings.Contains(a.Out, "'"+strings.TrimSpace(text)+"'") {
			in = append(in, part)
		}
	}
	if _, argv := findPasta(b.pid); strings.Contains(strings.Join(argv, " "), "-T auto") {
		in = append(in, "pasta")
	}
	if _, err := os.Stat(t.env.dir + "/hostile/hook-ran"); err == nil {
		in = append(in, "hook")
	}
	t.saw("in the container: %v", sorted(in))
	return in, nil
}

func claimOpenConfiguration(t *trial) error {
	env, err := t.hostile()
	if err != nil {
		return err
	}
	in, err := t.canaries(plan{env: env, flags: []string{"--pull=never"}, network: "pasta"})
	if err != nil {
		return err
	}
	want := []string{"environment", "hook", "mount", "pasta", "seccomp", "volume"}
	if !slices.Equal(in, want) {
		return fmt.Errorf("expected %v: the trial of c3 would show less than it should", want)
	}
	return nil
}

func claimConfAlone(t *trial) error {
	env, err := t.hostile()
	if err != nil {
		return err
	}
	in, err := t.canaries(plan{
		env: append(env, "CONTAINERS_CONF="+t.env.conf+"/containers.conf"), flags: []string{"--pull=never"}, network: "pasta",
	})
	if err == nil && !slices.Equal(in, []string{"mount"}) {
		err = errors.New("expected the mount and nothing else")
	}
	return err
}

func claimClosedConfiguration(t *trial) error {
	if _, err := t.hostile(); err != nil {
		return err
	}
	closed, global := t.env.closed()
	in, err := t.canaries(plan{env: hostileHome(closed, t.env.dir+"/hostile"), global: global})
	if err == nil && len(in) > 0 {
		err = errors.New("something came in")
	}
	if err != nil {
		return err
	}
	b := t.boxes[len(t.boxes)-1]
	_ = b.stop() // ends with the agent's status
	out, _, err := t.podman("ps", "--all", "--format", "{{.Names}}")
	if err == nil && slices.Contains(strings.Fields(out), b.name) {
		err = errors.New("podman still lists the container")
	}
	return err
}

func claimRemote(t *trial) error {
	env := append(os.Environ(), "CONTAINER_HOST=tcp://127.0.0.1:1")
	out, status, err := t.command(env, []string{"podman", "ps", "--quiet"})
	if err != nil {
		return err
	}
	t.saw("status %d: %s", status, out)
	if status == 0 {
		return errors.New("the variable has no effect: nothing to shut out")
	}
	out, status, err = t.command(env, []string{"podman", "--remote=false", "ps", "--quiet"})
	t.saw("status %d: %s", status, out)
	if err == nil && status != 0 {
		err = errors.New("--remote=false doesn't help")
	}
	return err
}

func claimProxyVariables(t *trial) error {
	closed, global := t.env.closed()
	env := append(closed, "https_proxy=http://proxy.example.com:3128", "NO_PROXY=example.com")
	for _, flags := range [][]string{nil, {"--http-proxy=false"}} {
		argv := append(append([]string{"podman"}, global...), "run", "--rm", "--pull=never", "--network=none")
		argv = append(append(argv, flags...), t.env.image, "env")
		out, _, err := t.command(env, argv)
		if err != nil {
			return err
		}
		in := strings.Contains(strings.ToLower(out), "proxy")
		t.saw("proxy variables in the container: %v", in)
		if in != (flags == nil) {
			return errors.New("not as expected")
		}
	}
	return nil
}
