//go:build e2e

package e2e

import "testing"

// TestHomeVolume: a home is kept from run to run, belongs to uid 1000, and the
// ephemeral one is not kept.
func TestHomeVolume(t *testing.T) {
	const name = "aisb-e2e-home"
	defer asUser(t, "podman", "volume", "rm", "--force", name)
	run := func(script string, flags ...string) outcome {
		args := append([]string{"run", "--image", testImage, "--net", "none"}, flags...)
		return call{dir: project(t)}.do(t, append(append(args, "--"), sh(script)...)...)
	}
	o := run("stat -c %u:%g ~; echo kept >~/login; pwd >&2; cd && pwd", "--home", name)
	o.wantStatus(t, 0)
	if o.stdout != "1000:1000\n/home/agent\n" {
		t.Errorf("got %q", o.stdout)
	}
	o = run("cat ~/login", "--home", name)
	o.wantStatus(t, 0)
	if o.stdout != "kept\n" {
		t.Errorf("got %q", o.stdout)
	}
	o = run("ls ~/login", "--ephemeral-home")
	o.wantStatus(t, 2) // ls: no such file
}
