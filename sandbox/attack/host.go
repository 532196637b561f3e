//go:build linux

package attack

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// SecretName is the variable of the host's environment that must not get in,
// PassedName one that is passed on purpose.
const (
	SecretName = "AISB_ATTACK_HOST_SECRET" //nolint:gosec // a name, and the secret a canary
	PassedName = "AISB_ATTACK_PASSED_SECRET"
)

// Visit is something that came to a canary.
type Visit struct {
	Where string
	ID    string // of the attack that sent it; something else when nobody owns up
}

// Canaries are what the part on the host lays out: services that nobody may
// reach, files that nobody may read, and the one service that is allowed.
type Canaries struct {
	Plan Plan
	Dir  string // all of its files; Project is in it, and the canaries are beside

	mu     sync.Mutex
	visits []Visit
	closer []io.Closer
	wg     sync.WaitGroup
	local  []netip.Addr
	names  string // address of the canary name server
}

// Lay makes the canaries in dir, an empty directory of the user's.
func Lay(dir string) (*Canaries, error) {
	c := &Canaries{Dir: dir}
	for _, step := range []func() error{c.files, c.weaken, c.addresses, c.services, c.sockets, c.allowed, c.nameServer} {
		if err := step(); err != nil {
			c.Close()
			return nil, fmt.Errorf("lay canaries: %w", err)
		}
	}
	return c, nil
}

// Project is the directory to mount.
func (c *Canaries) Project() string { return filepath.Join(c.Dir, "project") }

// Home is a made-up home directory of the host.
func (c *Canaries) Home() string { return filepath.Join(c.Dir, "home") }

// Resolver is the canary name server, for the session's gate.
func (c *Canaries) Resolver() string { return c.names }

// Rules are what the session allows: one service of the host's, and names that
// resolve to what no name may lead to.
func (c *Canaries) Rules() []string {
	rules := append(c.spoil([]string{c.Plan.Allowed}), rebindName("may-resolve-listed")+":80")
	for _, r := range rebindings {
		rules = append(rules, fmt.Sprintf("%s:%d", rebindName(r.id), c.Plan.LoopPort))
	}
	return rules
}

// Close ends the services. The files are the caller's to remove.
func (c *Canaries) Close() {
	for _, l := range c.closer {
		l.Close()
	}
	c.wg.Wait()
}

// Visits are what came to the canaries.
func (c *Canaries) Visits() []Visit {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.visits)
}

func (c *Canaries) visit(where string, said []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.visits = append(c.visits, Visit{where, ownedBy(said)})
}

// ownedBy finds an attack's token in what it said.
func ownedBy(said []byte) string {
	_, rest, ok := bytes.Cut(bytes.ToLower(said), []byte(token("")))
	if !ok {
		return string(said[:min(len(said), 40)])
	}
	end := bytes.IndexFunc(rest, func(r rune) bool { return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' })
	if end < 0 {
		end = len(rest)
	}
	return string(rest[:end])
}

// files are a project with what the host might run later, a secret beside it and
// one in a home.
func (c *Canaries) files() error {
	mark := make([]byte, 16)
	rand.Read(mark) // never fails (crypto/rand)
	c.Plan.Mark, c.Plan.Passed = "mark-"+hex.EncodeToString(mark[:8]), "pass-"+hex.EncodeToString(mark[8:])
	secrets := []string{filepath.Join(c.Dir, "beside-secret"), filepath.Join(c.Home(), ".ssh/id_ed25519"), filepath.Join(c.Home(), ".aws/credentials")}
	c.Plan.Files = secrets
	all := map[string]string{}
	for _, s := range secrets {
		all[s] = c.Plan.Mark + "\n"
	}
	for name, text := range map[string]string{
		".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\trepositoryformatversion = 0\n\tbare = false\n",
		".git/hooks/pre-commit": "#!/bin/sh\n", ".git/objects/info/x": "", ".git/refs/heads/x": "", ".git/commondir": ".\n", ".git/modules/x/config": "",
		".vscode/tasks.json": "{}\n", ".envrc": "", ".npmrc": "", ".claude/settings.json": "{}\n", ".mcp.json": "{}\n",
		".github/workflows/x.yml": "", ".venv/bin/python": "", ".aisb.toml": "",
	} {
		all[filepath.Join(c.Project(), name)] = text
	}
	for path, text := range all {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	// Root of the container, where a hatch keeps it, is another user without
	// rights over files. Dir itself is closed to all others.
	return os.Chmod(c.Project(), 0o755)
}

// addresses are the host's own, a few of each family.
func (c *Canaries) addresses() error {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return err
	}
	n := map[bool]int{}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		c.local = append(c.local, p.Addr())
		if ip := p.Addr(); !ip.IsLoopback() && !ip.IsLinkLocalUnicast() && n[ip.Is6()] < 4 {
			n[ip.Is6()]++
			c.Plan.HostIPs = append(c.Plan.HostIPs, ip.String())
		}
	}
	return nil
}

// services listen where the sandbox must not get: TCP and UDP at the same port,
// on loopback and on all addresses.
func (c *Canaries) services() error {
	for _, s := range []struct {
		name, addr string
		port       *int
	}{{"the canary on the host's loopback", "127.0.0.1:0", &c.Plan.LoopPort}, {"the canary on the host's addresses", ":0", &c.Plan.AnyPort}} {
		l, u, err := pair(s.addr)
		if err != nil {
			return err
		}
		*s.port = l.Addr().(*net.TCPAddr).Port
		c.closer = append(c.closer, l, u)
		c.accept(l, s.name)
		c.receive(u, s.name)
	}
	return nil
}

// pair listens by TCP and UDP at one port.
func pair(addr string) (net.Listener, net.PacketConn, error) {
	var last error
	for range 20 { // another may have the second
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return nil, nil, err
		}
		host, _, _ := net.SplitHostPort(addr)
		u, err := net.ListenPacket("udp", net.JoinHostPort(host, fmt.Sprint(l.Addr().(*net.TCPAddr).Port)))
		if err == nil {
			return l, u, nil
		}
		l.Close()
		last = err
	}
	return nil, nil, last
}

// accept notes each connection of this machine's. One from another machine is
// none of the sandbox's.
func (c *Canaries) accept(l net.Listener, name string) {
	c.wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if !c.ours(conn.RemoteAddr()) {
				conn.Close()
				continue
			}
			c.wg.Go(func() {
				defer conn.Close()
				conn.SetDeadline(time.Now().Add(2 * time.Second)) // to say who it is, on a busy machine too
				b := make([]byte, 4096)
				n, _ := conn.Read(b)
				c.visit(name, b[:n])
				_, _ = io.WriteString(conn, "canary\n")
			})
		}
	})
}

func (c *Canaries) receive(u net.PacketConn, name string) {
	c.wg.Go(func() {
		b := make([]byte, 4096)
		for {
			n, from, err := u.ReadFrom(b)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err == nil && c.ours(from) {
				c.visit(name+" (UDP)", b[:n])
			}
		}
	})
}

func (c *Canaries) ours(addr net.Addr) bool {
	ap, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return true // a unix socket
	}
	ip := ap.Addr().Unmap().WithZone("")
	return ip.IsLoopback() || slices.Contains(c.local, ip)
}

// sockets are abstract ones of the host, one by a name of ours and those that
// others have, and paths of known services.
func (c *Canaries) sockets() error {
	c.Plan.Abstract = token("") + c.Plan.Mark
	l, err := net.Listen("unix", "@"+c.Plan.Abstract)
	if err != nil {
		return err
	}
	c.closer = append(c.closer, l)
	c.accept(l, "the host's abstract canary")
	run := os.Getenv("XDG_RUNTIME_DIR")
	c.Plan.Sockets = []string{
		run + "/podman/podman.sock", "/run/podman/podman.sock", "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
		run + "/bus", "/run/dbus/system_bus_socket", "/run/systemd/private", run + "/systemd/private", "/run/systemd/notify", "/run/systemd/journal/socket",
		os.Getenv("SSH_AUTH_SOCK"), run + "/gnupg/S.gpg-agent", "/tmp/.X11-unix/X0", "@/tmp/.X11-unix/X0", run + "/wayland-0", run + "/pipewire-0", "/run/pcscd/pcscd.comm",
	}
	return nil
}
