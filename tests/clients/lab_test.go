package clients

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/websocket"

	"github.com/aisb-dev/aisb/image"
	"github.com/aisb-dev/aisb/sandbox"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/podman"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// limit bounds what a client does. All is local: it is reached by a hang alone.
const limit = 90 * time.Second

// unlisted is a name that leads to an origin which would answer, if a rule let
// anyone there.
const unlisted = "unlisted.test"

// gateAddr is where a sandbox sees its gate.
var gateAddr = netip.AddrPortFrom(sandbox.HostLoopback, 3128)

// lab is three namespaces in a row: the clients', the gate's, and the world,
// which takes every address for its own.
type lab struct {
	dir   string
	box   *fakes.Netns
	inner *fakes.Netns
	world *fakes.Netns
	log   *fakes.Log // of what reached the world
	gate  *fakes.Gate
	env   []string // of every client
	deb   []byte   // the package that apt gets
	repo  string   // the bare repository that git gets
}

// probe is the content of every package.
var probe = map[string][]byte{"aisb_probe/__init__.py": pattern(200_000), "index.js": []byte("module.exports = 42\n")}

func pattern(n int64) []byte {
	b, _ := io.ReadAll(fakes.Pattern(n)) // a reader that has no errors
	return b
}

func startLab(t *testing.T) *lab {
	t.Helper()
	l := &lab{log: &fakes.Log{}, dir: t.TempDir()}
	for _, n := range []**fakes.Netns{&l.box, &l.inner, &l.world} {
		var err error
		if *n, err = fakes.NewNetns(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*n).Close() })
	}
	check(t, l.inner.Join("in0", gateAddr.Addr().String()+"/24", l.box, "out0", "169.254.1.9/24"))
	check(t, l.inner.Join("gate0", "10.99.0.1/30", l.world, "world0", "10.99.0.2/30"))
	check(t, l.inner.IP("route add default via 10.99.0.2"))
	check(t, l.world.IP("route add local 0.0.0.0/0 dev lo table main"))
	ca, err := fakes.NewCA()
	check(t, err)
	l.startWorld(t, ca)
	l.furnish(t, ca)
	l.startGate(t)
	return l
}

// check is for what the tests need and don't test.
func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// startGate runs aisb as the clients' gate.
func (l *lab) startGate(t *testing.T) {
	bin, err := fakes.Build(l.dir)
	check(t, err)
	cmd := exec.Command(bin, "gate", "--listen", gateAddr.String(), "--allow-client", "169.254.1.9/32", "--resolver", "198.20.0.53")
	for name := range l.sites(t) {
		cmd.Args = append(cmd.Args, "--allow", name)
	}
	cmd.Args = append(cmd.Args, "--allow", "grpc.test:50051", "--allow", "ssh.test:22+tcp")
	cmd.Env = []string{}
	l.gate, err = fakes.StartGate(cmd, l.inner.Start)
	check(t, err)
	t.Cleanup(func() { check(t, l.gate.Stop()) })
}

// sites are the web sites of the world, by name.
func (l *lab) sites(t *testing.T) map[string]http.Handler {
	t.Helper()
	npm, err := fakes.NPM(fakes.Package{Name: "aisb-probe", Version: "1.0.0", Files: probe})
	check(t, err)
	pip, err := fakes.PyIndex(fakes.Package{Name: "aisb_probe", Version: "1.0", Files: probe})
	check(t, err)
	modules, err := fakes.GoModules(fakes.Package{Name: "example.com/probe", Version: "v1.0.0", Files: probe})
	check(t, err)
	apt, deb, err := fakes.Debian(fakes.Package{Name: "aisb-probe", Version: "1.0", Files: probe})
	check(t, err)
	l.deb, l.repo = deb, filepath.Join(l.dir, "repositories", "big.git")
	git, err := fakes.Git(filepath.Dir(l.repo))
	check(t, err)
	return map[string]http.Handler{
		"site.test": fakes.Site(), "npm.test": npm, "pip.test": pip, "modules.test": modules, "apt.test": apt, "git.test": git,
		"socket.test": websocket.Server{Handler: talk},
	}
}

// talk sends back each message. Upon "bye" it is the server that ends.
func talk(c *websocket.Conn) {
	defer c.Close() // which sends the closing frame
	for {
		var m []byte
		if websocket.Message.Receive(c, &m) != nil || string(m) == "bye" || websocket.Message.Send(c, m) != nil {
			return
		}
	}
}

// startWorld starts everything that listens outside.
func (l *lab) startWorld(t *testing.T, ca *fakes.CA) {
	t.Helper()
	sites := l.sites(t)
	hosts := map[string][]string{unlisted: {"198.20.0.66"}, "ssh.test": {"198.20.0.22"}, "grpc.test": {"198.20.0.50"}}
	for name := range sites {
		hosts[name] = []string{"198.20.0.10"}
	}
	web := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name, _, _ := strings.Cut(r.Host, ":")
		if h, ok := sites[name]; ok {
			h.ServeHTTP(w, r)
			return
		}
		fmt.Fprintln(w, "this origin is not for you")
	})
	check(t, l.world.Do(func() error {
		dns, err := fakes.StartDNS("198.20.0.53:53", fakes.Hosts(hosts), l.log)
		if err != nil {
			return err
		}
		t.Cleanup(func() { dns.Close() })
		http, err := fakes.StartHTTP("0.0.0.0:80", web, l.log)
		if err != nil {
			return err
		}
		t.Cleanup(func() { http.Close() })
		https, err := fakes.StartHTTPS("0.0.0.0:443", ca, web, l.log)
		if err != nil {
			return err
		}
		t.Cleanup(func() { https.Close() })
		grpc, err := net.Listen("tcp", "198.20.0.50:50051")
		if err != nil {
			return err
		}
		serveGRPC(t, grpc, ca)
		return nil
	}))
}

// furnish makes the clients' files and environment what they are in a sandbox:
// no name server, the hosts file, the image's git and npm configuration, the
// proxy variables. What the tests add is the authority, and caches of their own.
func (l *lab) furnish(t *testing.T, ca *fakes.CA) {
	t.Helper()
	conf, err := podman.EnsureConf(l.dir, false)
	check(t, err)
	check(t, l.box.Bind(conf.Resolv(), "/etc/resolv.conf"))
	check(t, l.box.Bind(conf.Hosts(), "/etc/hosts"))

	certs := filepath.Join(l.dir, "certs")
	check(t, os.Mkdir(certs, 0o755))
	bundle := "/etc/ssl/certs/ca-certificates.crt"
	check(t, os.WriteFile(filepath.Join(certs, filepath.Base(bundle)), ca.PEM(), 0o644))
	check(t, os.WriteFile(filepath.Join(certs, "test.pem"), ca.PEM(), 0o644))
	// Programs with OpenSSL find it by the hash of its name.
	if out, err := exec.Command("openssl", "rehash", certs).CombinedOutput(); err != nil {
		t.Fatalf("openssl rehash: %v: %s", err, out)
	}
	check(t, l.box.Bind(certs, "/etc/ssl/certs"))

	built := filepath.Join(l.dir, "image")
	check(t, os.Mkdir(built, 0o755))
	harness, err := image.FindHarness("pi")
	check(t, err)
	check(t, image.Spec{Harness: harness}.WriteContext(built))

	goTool, err := exec.LookPath("go")
	check(t, err)
	self, err := os.Executable()
	check(t, err)
	check(t, os.Mkdir(filepath.Join(l.dir, "bin"), 0o755))
	check(t, os.Symlink(self, filepath.Join(l.dir, "bin", grpcName)))

	base := environ.Base(func(string) (string, bool) { return "", false }, "HOME", "agent")
	env, _, err := environ.Merge(base, environ.Proxy(gateAddr))
	check(t, err)
	for _, v := range env {
		l.env = append(l.env, string(v))
	}
	l.env = append(l.env,
		"PATH="+filepath.Join(l.dir, "bin")+":"+nodePath()+filepath.Dir(goTool)+":"+environ.Path,
		"GIT_CONFIG_SYSTEM="+filepath.Join(built, "gitconfig"),
		"npm_config_globalconfig="+filepath.Join(built, "npmrc"),
		"NODE_EXTRA_CA_CERTS="+bundle, // Node brings a list of its own
		"PIP_CONFIG_FILE=/dev/null",
	)
}

// result is how a client ended.
type result struct {
	out  string // stdout, and stderr where it was asked for
	errs string // stderr otherwise
	exit int
}

// run runs a client by the shell, in dir, which is its home too.
func (l *lab) run(t *testing.T, dir, command string, both bool, env ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	return l.exec(t, cmd, dir, both, env...)
}

func (l *lab) exec(t *testing.T, cmd *exec.Cmd, dir string, both bool, env ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &out, &errs
	if both {
		cmd.Stderr = &out
	}
	cmd.Env = append(append(append([]string{}, l.env...), "HOME="+dir), env...)
	// A client's children end with it, and hold no pipe open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	check(t, l.box.Start(cmd))
	cmd.Wait() // the status says it
	return result{out: out.String(), errs: errs.String(), exit: cmd.ProcessState.ExitCode()}
}
