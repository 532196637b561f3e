//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"testing"
)

// TestHostileImage: nothing of the image's configuration runs or is passed on,
// before the fence or after.
func TestHostileImage(t *testing.T) {
	const tag = "localhost/aisb-e2e-hostile:1"
	dir := project(t)
	write(t, dir, "Containerfile", "FROM "+testImage+`
ENTRYPOINT ["/bin/sh", "-c", "touch /project/ran; exec \"$@\"", "x"]
CMD ["touch", "/project/ran"]
ENV LD_PRELOAD=/nonexistent.so EVIL=1 http_proxy=http://192.0.2.1:1 BASH_ENV=/evil PATH=/evil:/usr/bin:/bin
HEALTHCHECK --interval=1s CMD touch /project/ran
VOLUME ["/vol"]
WORKDIR /etc
USER 1234
`)
	asUser(t, "podman", "build", "--layers=false", "--network=none", "--pull=never", "--format=docker", "--tag", tag, dir)
	defer asUser(t, "podman", "rmi", "--force", tag)
	c := call{dir: project(t)}
	o := c.do(t, "run", "--image", tag, "--ephemeral-home", "--resolver", routerAddr, "--allow", "allowed.test", "--",
		"/bin/sh", "-c", "pwd; id -u; env; grep ' /vol ' /proc/self/mountinfo; sleep 2; curl -sS http://allowed.test/")
	o.wantStatus(t, 0)
	wantIn(t, "output", o.stdout, "/project\n1000\n", "origin GET allowed.test /")
	wantNot(t, "output", o.stdout, "LD_PRELOAD", "EVIL", "192.0.2.1", "BASH_ENV", "/evil", "/vol")
	if _, err := os.Lstat(filepath.Join(c.dir, "ran")); err == nil {
		t.Error("something of the image's ran")
	}
}

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
