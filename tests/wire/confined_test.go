package wire

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/tests/fakes"
	"github.com/aisb-dev/aisb/tests/need"
)

// The gate is locked up on all threads, and its first line says by what. With
// --confine off it is not, which shows that this would be seen.
func TestConfined(t *testing.T) {
	_, target := echo(t)
	for mode, want := range map[string]bool{"auto": true, "require": true, "off": false} {
		s := startStandalone(t, "--allow", target+"+tcp", "--confine", mode)
		if _, _, status := s.connect(target); !strings.Contains(status, "200") {
			t.Errorf("%s: %s", mode, status)
		}
		all, is, err := fakes.LockedThreads(s.cmd.Process.Pid)
		if err != nil || is != map[bool]int{true: all, false: 0}[want] {
			t.Errorf("%s: %d of %d threads are locked up, %v", mode, is, all, err)
		}
		says := s.wait("listening", "")["confined"]
		if !matches(map[bool]string{true: `^landlock-\d+ seccomp$`, false: `^none$`}[want], fmt.Sprint(says)) {
			t.Errorf("%s: the log says %q", mode, says)
		}
		if mode == "off" {
			s.waitErr("warning: the gate is not locked up: a fault in it has all that you have")
		} else if text := s.errs.String(); text != "" {
			t.Errorf("%s: it says %q", mode, text)
		}
	}
}

// replace puts a file where another is, as editors do.
func replace(t *testing.T, name, text string) {
	t.Helper()
	writeFile(t, name+".new", text, 0o600)
	if err := os.Rename(name+".new", name); err != nil {
		t.Fatal(err)
	}
}

// Files that editors replace are read again, also where a link leads to them and
// where it comes to lead below the same directory. What has gone elsewhere isn't.
func TestConfinedReload(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"v1", "v2", "elsewhere"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	plain, linked := filepath.Join(dir, "plain"), filepath.Join(dir, "linked")
	other := t.TempDir() // beside dir, not below
	writeFile(t, plain, "one.test\n", 0o600)
	writeFile(t, filepath.Join(dir, "v1", "rules"), "a.test\n", 0o600)
	writeFile(t, filepath.Join(dir, "v2", "rules"), "b.test\n", 0o600)
	writeFile(t, filepath.Join(other, "rules"), "c.test\n", 0o600)
	if err := os.Symlink("v1/rules", linked); err != nil {
		t.Fatal(err)
	}
	lead := func(to string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, linked+".new"), os.Rename(linked+".new", linked)); err != nil {
			t.Fatal(err)
		}
	}
	s := startStandalone(t, "--allow-file", plain, "--deny-file", linked)
	reloaded := func(want string) {
		t.Helper()
		s.signal(syscall.SIGHUP)
		s.waitErr(regexp.QuoteMeta(want))
	}
	replace(t, plain, "two.test\n")
	reloaded("reloaded: -one.test, +two.test")
	replace(t, filepath.Join(dir, "v1", "rules"), "a2.test\n")
	reloaded("reloaded: -deny a.test, +deny a2.test")
	lead("v2/rules")
	reloaded("reloaded: -deny a2.test, +deny b.test")
	lead(filepath.Join(other, "rules"))
	reloaded("not reloaded, the old rules stay")
	s.waitErr("hint: the gate reads again only below the directories where its files were at its start; start it anew")
	lead("v1/rules")
	reloaded("reloaded: +deny a2.test, -deny b.test")
}

// Metrics have what only this process's own files in /proc tell.
func TestConfinedMetrics(t *testing.T) {
	s := startStandalone(t, "--allow", "allowed.test", "--metrics", "127.0.0.1:0")
	s.waitErr(`aisb: metrics at http://127\.0\.0\.1:\d+/metrics`)
	_, after, _ := strings.Cut(s.errs.String(), "aisb: metrics at ")
	client := http.Client{Timeout: limit, Transport: &http.Transport{}}
	resp, err := client.Get(strings.Fields(after)[0])
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"process_open_fds", "process_resident_memory_bytes", "process_max_fds", "process_cpu_seconds_total"} {
		if !matches(`(?m)^`+name+` [1-9]|^`+name+` 0\.0*[1-9]`, string(text)) {
			t.Errorf("%s is not told: %s", name, text)
		}
	}
}

// A file among all of the user's leaves them readable, which is said.
func TestConfinedHome(t *testing.T) {
	home := t.TempDir()
	rules := filepath.Join(home, "rules.txt")
	writeFile(t, rules, "allowed.test\n", 0o600)
	own := filepath.Join(home, "aisb", "rules.txt")
	if err := os.Mkdir(filepath.Dir(own), 0o700); err != nil {
		t.Fatal(err)
	}
	writeFile(t, own, "allowed.test\n", 0o600)
	build(t)
	for file, said := range map[string]bool{rules: true, own: false} {
		cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0", "--allow-file", file)
		cmd.Env = append(os.Environ(), "HOME="+home)
		s := startCommand(t, cmd)
		s.signal(syscall.SIGTERM)
		if _, err := s.end(); err != nil { // by then all of stderr has come, by whatever way
			t.Error(err)
		}
		got := strings.Contains(s.errs.String(), "all of "+home+" stays readable to the gate")
		if got != said {
			t.Errorf("%s: %q", file, s.errs.String())
		}
	}
}

// resolv.conf is read again when it has been replaced, a file by a link and one
// link by another.
func TestConfinedResolvConf(t *testing.T) {
	need.Root(t)
	ns, err := fakes.NewNetns()
	if err != nil {
		need.Missing(t, "root", err)
	}
	defer ns.Close()
	etc, run := t.TempDir(), t.TempDir()
	for _, dir := range []string{"systemd/resolve", "NetworkManager"} {
		if err := os.MkdirAll(filepath.Join(run, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	asked := map[string]*fakes.DNS{}
	for _, addr := range []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"} {
		if err := ns.Do(func() (err error) {
			asked[addr], err = fakes.StartDNS(addr+":53", nil, nil)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		defer asked[addr].Close()
	}
	conf := filepath.Join(etc, "resolv.conf")
	writeFile(t, conf, "nameserver 127.0.0.1\n", 0o644)
	writeFile(t, filepath.Join(run, "systemd/resolve/stub"), "nameserver 127.0.0.2\n", 0o644)
	writeFile(t, filepath.Join(run, "NetworkManager/resolv.conf"), "nameserver 127.0.0.3\n", 0o644)
	if err := errors.Join(ns.Bind(etc, "/etc"), ns.Bind(run, "/run")); err != nil {
		t.Fatal(err)
	}
	build(t)
	path, err := filepath.Abs(*binary)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "gate", "--listen", "127.0.0.1:0", "--allow", "*.test")
	cmd.Dir = "/"
	s := startWith(t, cmd, ns.Start)
	n := 0
	asks := func(server string) {
		t.Helper()
		// resolv.conf is looked at once in a second at most.
		for end := time.Now().Add(limit); ; {
			n++
			name := fmt.Sprintf("n%d.test", n)
			if err := ns.Do(func() error {
				c, err := net.Dial("tcp", s.addr)
				if err != nil {
					return err
				}
				defer c.Close()
				c.SetDeadline(time.Now().Add(limit))
				io.WriteString(c, "CONNECT "+name+":443 HTTP/1.1\r\nHost: x\r\n\r\n")
				_, err = io.ReadAll(c)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			for _, e := range asked[server].Log.Events() {
				if e.Name == name {
					return
				}
			}
			if time.Now().After(end) {
				t.Fatalf("%s is not asked; stderr %q, log %q", server, s.errs.String(), s.log())
			}
			time.Sleep(100 * time.Millisecond)
		}
	}
	link := func(to string) {
		t.Helper()
		if err := errors.Join(os.Symlink(to, conf+".new"), os.Rename(conf+".new", conf)); err != nil {
			t.Fatal(err)
		}
	}
	asks("127.0.0.1")
	replace(t, conf, "nameserver 127.0.0.2\n")
	asks("127.0.0.2")
	link("../run/NetworkManager/resolv.conf")
	asks("127.0.0.3")
	replace(t, filepath.Join(run, "NetworkManager/resolv.conf"), "nameserver 127.0.0.1\n")
	asks("127.0.0.1")
	link("/run/systemd/resolve/stub")
	asks("127.0.0.2")
}

// A resolver behind TLS is checked by the host's roots, wherever they are: they have
// been read by then.
func TestConfinedRoots(t *testing.T) {
	ca, err := fakes.NewCA()
	if err != nil {
		t.Fatal(err)
	}
	roots := filepath.Join(t.TempDir(), "roots.pem")
	writeFile(t, roots, string(ca.PEM()), 0o600)
	ln, err := tls.Listen("tcp", "127.0.0.1:0", ca.Config())
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	shaken := make(chan error, 16)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			shaken <- c.(*tls.Conn).Handshake()
			c.Close()
		}
	}()
	build(t)
	cmd := exec.Command(*binary, "gate", "--listen", "127.0.0.1:0", "--allow", "*.test", "--resolver", "tls://"+ln.Addr().String()+"#dns.test")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+roots, "SSL_CERT_DIR="+t.TempDir())
	s := startCommand(t, cmd)
	s.connect("n.test:443")
	select {
	case err := <-shaken:
		if err != nil {
			t.Errorf("the resolver's certificate: %v", err)
		}
	case <-time.After(limit):
		t.Error("nobody came to the resolver")
	}
}
