//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

func statusClaims() []claim {
	return []claim{
		{"h1", "a missing image with --pull=never is 125", func(t *trial) error {
			return t.ends(125, "--pull=never", "localhost/aisb-spike-no-such-image:1")
		}},
		{"h2", "a missing entrypoint is 127, one that can't be executed 126, and the command's own status passes", func(t *trial) error {
			return errors.Join(
				t.ends(127, "--pull=never", "--network=none", "--entrypoint", `["/no/such"]`, t.env.image),
				t.ends(126, "--pull=never", "--network=none", "--entrypoint", `["/etc/passwd"]`, t.env.image),
				t.ends(77, "--pull=never", "--network=none", t.env.image, "sh", "-c", "exit 77"),
			)
		}},
		{"h3", "without pasta a run ends with 127: podman's 126 and 127 don't tell a missing command from a missing tool, only the absent hello does", claimNoPasta},
		{"h4", "a bind mount's missing source ends with 125", func(t *trial) error {
			return t.ends(125, "--pull=never", "--network=none", "--mount", "type=bind,source=/no/such,target=/x", t.env.image, "true")
		}},
	}
}

// ends runs podman and compares its status.
func (t *trial) ends(want int, args ...string) error {
	out, status, err := t.podman(append([]string{"run", "--rm"}, args...)...)
	t.saw("status %d: %s", status, out)
	if err == nil && status != want {
		err = fmt.Errorf("not %d", want)
	}
	return err
}

// claimNoPasta hides pasta from podman, which looks for it in its helpers'
// directories and in PATH.
func claimNoPasta(t *trial) error {
	bin := t.env.dir + "/bin"
	conf := t.env.dir + "/no-helpers.conf"
	err := errors.Join(
		os.MkdirAll(bin, 0o755),
		os.WriteFile(conf, fmt.Appendf(nil, "[engine]\nhelper_binaries_dir = [%q]\n", bin), 0o644),
	)
	if err != nil {
		return err
	}
	env, global := t.env.closed()
	env = slices.DeleteFunc(env, func(kv string) bool {
		return strings.HasPrefix(kv, "PATH=") || strings.HasPrefix(kv, "CONTAINERS_CONF=")
	})
	tools := []string{"podman", "crun", "runc", "conmon", "newuidmap", "newgidmap", "netavark", "aardvark-dns", "catatonit"}
	for _, tool := range tools {
		for _, dir := range []string{"/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/lib/podman/", "/usr/libexec/podman/"} {
			if _, err := os.Stat(dir + tool); err == nil {
				_ = os.Symlink(dir+tool, bin+"/"+tool) // the first one wins
			}
		}
	}
	env = append(env, "PATH="+bin, "CONTAINERS_CONF="+conf)
	argv := append(append([]string{bin + "/podman"}, global...), "run", "--rm", "--pull=never", "--network", pastaNet, t.env.image, "true")
	out, status, err := t.command(env, argv)
	t.saw("status %d: %s", status, out)
	if err == nil && status != 127 {
		err = errors.New("not 127")
	}
	return err
}
