package clients

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
)

func curl(t *testing.T, b *bench) {
	same(t, "http", b.sh(t, "curl -sS "+plain), string(pattern(1_000_000)))
	same(t, "https", b.sh(t, "curl -sS --http1.1 "+secure), string(pattern(1_000_000)))
	same(t, "HTTP/2", b.sh(t, "curl -sS --http2 -o h2 -w '%{http_version}' "+secure), "2")
	same(t, "HTTP/2", b.read(t, "h2"), string(pattern(1_000_000)))
	check(t, os.WriteFile(filepath.Join(b.dir, "up"), pattern(5_000_000), 0o600))
	for _, url := range []string{"http://site.test/upload", "https://site.test/upload"} {
		var got struct {
			Bytes  int64
			SHA256 string
		}
		check(t, json.Unmarshal([]byte(b.sh(t, "curl -sS -T up "+url)), &got))
		if want := fmt.Sprintf("%x", sha256.Sum256(pattern(5_000_000))); got.SHA256 != want {
			t.Errorf("%s: %d bytes of hash %s arrived", url, got.Bytes, got.SHA256)
		}
	}
}

// git pushes and clones a pack that does not get smaller.
func git(t *testing.T, b *bench) {
	const size = 100_000_000
	check(t, os.MkdirAll(b.repo, 0o700))
	for _, args := range [][]string{{"init", "-q", "--bare", "-b", "main"}, {"config", "http.receivepack", "true"}, {"config", "core.compression", "0"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = b.repo
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v: %s", args, err, out)
		}
	}
	b.sh(t, "git init -q -b main work && git -C work config core.compression 0")
	f, err := os.OpenFile(filepath.Join(b.dir, "work", "big"), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	check(t, err)
	want := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, want), fakes.Pattern(size))
	check(t, err)
	check(t, f.Close())
	b.sh(t, "cd work && git add big && git commit -q -m big")
	// By HTTP/1.1: of some ten pushes over HTTP/2 by curl 7.88.1 one arrived
	// with a damaged pack inside an intact TLS stream, on a busy machine.
	b.sh(t, "git -C work -c http.version=HTTP/1.1 push -q https://git.test/big.git main")
	b.sh(t, "git clone -q https://git.test/big.git clone")
	f, err = os.Open(filepath.Join(b.dir, "clone", "big"))
	check(t, err)
	defer f.Close()
	got := sha256.New()
	n, err := io.Copy(got, f)
	check(t, err)
	if n != size || string(got.Sum(nil)) != string(want.Sum(nil)) {
		t.Errorf("the clone's file has %d bytes of hash %x, want %d of %x", n, got.Sum(nil), size, want.Sum(nil))
	}
	// git has ended before the gate's line of that comes.
	of := func(ok func(fakes.Line) bool) bool {
		_, found := b.gate.Wait(10*time.Second, 0, func(l fakes.Line) bool {
			return l.Host == "git.test" && l.Event == "close" && ok(l)
		})
		return found
	}
	pushed, cloned := of(func(l fakes.Line) bool { return l.Up > size }), of(func(l fakes.Line) bool { return l.Down > size })
	if !pushed || !cloned {
		t.Errorf("the gate did not see the pack: pushed %v, cloned %v", pushed, cloned)
	}
}

// apt has directories of its own, since the host's are not the test's; which
// proxy it uses is left to the environment.
func apt(t *testing.T, b *bench) {
	for _, dir := range []string{"lists/partial", "cache/archives/partial"} {
		check(t, os.MkdirAll(filepath.Join(b.dir, dir), 0o755))
	}
	check(t, os.WriteFile(filepath.Join(b.dir, "status"), nil, 0o644))
	check(t, os.WriteFile(filepath.Join(b.dir, "apt.conf"), []byte(strings.ReplaceAll(`
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "DIR/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "DIR/lists";
Dir::State::status "DIR/status";
Dir::Cache "DIR/cache";
APT::Sandbox::User "root";
Acquire::Languages "none";
`, "DIR", b.dir)), 0o644))
	for _, scheme := range []string{"https", "http"} {
		check(t, os.WriteFile(filepath.Join(b.dir, "sources.list"), []byte("deb [trusted=yes] "+scheme+"://apt.test stable main\n"), 0o644))
		b.sh(t, "apt-get -q update && apt-get -q download aisb-probe")
		same(t, scheme, b.read(t, "aisb-probe_1.0_all.deb"), string(b.deb))
		// The archive is a real one, or apt proved less than it seems.
		if got := b.sh(t, "dpkg -c *.deb"); !strings.Contains(got, "aisb_probe/__init__.py") {
			t.Errorf("%s: the package holds %s", scheme, got)
		}
		b.sh(t, "rm -r *.deb lists/*_*")
	}
}

// sockets holds conversations over wss:// and ws://, each ended by either side.
func sockets(script string) func(*testing.T, *bench) {
	return func(t *testing.T, b *bench) {
		for _, url := range []string{"wss://socket.test/", "ws://socket.test/"} {
			for _, end := range []string{"", " server-ends"} {
				same(t, url+end, b.sh(t, "node "+script+" "+url+end), "10 messages\n")
			}
		}
	}
}

func openssl(t *testing.T, b *bench) {
	out := b.sh(t, "printf 'GET /bytes/1000000 HTTP/1.0\\r\\nHost: site.test\\r\\n\\r\\n' |"+
		" openssl s_client -quiet -verify_return_error -proxy ${https_proxy#*//} -connect site.test:443 -servername site.test")
	_, got, _ := strings.Cut(out, "\r\n\r\n")
	same(t, "https", got, string(pattern(1_000_000)))
}

func grpcAllowed(t *testing.T, b *bench) {
	var ten []byte
	for range 10 {
		ten = append(ten, pattern(1000)...)
	}
	want := fmt.Sprintf("%x\n%x\n", sha256.Sum256(pattern(1_000_000)), sha256.Sum256(ten))
	same(t, "calls", b.sh(t, grpcName+" grpc.test:50051"), want)
}

const sshCommand = `ssh -F none -i key -o IdentitiesOnly=yes -o UserKnownHostsFile=hosts -o StrictHostKeyChecking=accept-new -o ConnectTimeout=5 ` +
	`-o ProxyCommand='nc -X connect -x '${https_proxy#*//}' %h %p'`

// ssh goes to a real server, which takes one connection a process.
func ssh(t *testing.T, b *bench) {
	home := t.TempDir()
	check(t, os.MkdirAll(filepath.Join(home, ".ssh"), 0o700))
	b.sh(t, "ssh-keygen -q -t ed25519 -N '' -f key")
	key, err := os.ReadFile(filepath.Join(b.dir, "key.pub"))
	check(t, err)
	check(t, os.WriteFile(filepath.Join(home, ".ssh", "authorized_keys"), key, 0o600))
	b.sh(t, "dropbearkey -t ed25519 -f host-key")
	// In the world's namespace root's home is the test's.
	passwd := filepath.Join(home, "passwd")
	check(t, os.WriteFile(passwd, []byte("root:x:0:0::"+home+":/bin/sh\n"), 0o644))
	check(t, b.world.Bind(passwd, "/etc/passwd"))
	check(t, os.Chmod(home, 0o700)) // the server wants it, and what is above, to be the owner's alone

	serve := func(c *net.TCPConn) int64 {
		f, err := c.File()
		if err != nil {
			return 0
		}
		defer f.Close()
		cmd := exec.Command("dropbear", "-i", "-r", filepath.Join(b.dir, "host-key"))
		cmd.Stdin, cmd.Stdout = f, f
		if b.world.Start(cmd) == nil {
			cmd.Wait()
		}
		return 0
	}
	check(t, b.world.Do(func() error {
		server, err := fakes.StartTCP("198.20.0.22:22", serve, b.log)
		if err == nil {
			t.Cleanup(func() { server.Close() })
		}
		return err
	}))
	check(t, os.WriteFile(filepath.Join(b.dir, "up"), pattern(1_000_000), 0o600))
	same(t, "cat", b.sh(t, sshCommand+" root@ssh.test cat <up"), string(pattern(1_000_000)))
}
