package mounts

import (
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// socketKind is what a socket opens.
type socketKind int

const (
	plainSocket  socketKind = iota
	agentSocket             // signs, decrypts or acts for the user
	engineSocket            // starts containers, which is the whole host
)

// socketNames tells sockets by the last part of their name (path.Match).
var socketNames = []struct {
	pattern string
	kind    socketKind
	what    string
}{
	{"docker.sock", engineSocket, "docker"},
	{"docker-*.sock", engineSocket, "docker"},
	{"podman.sock", engineSocket, "podman"},
	{"containerd.sock*", engineSocket, "containerd"},
	{"crio.sock", engineSocket, "CRI-O"},
	{"cri-dockerd.sock", engineSocket, "docker"},
	{"buildkitd.sock", engineSocket, "BuildKit"},
	{"libvirt-sock*", engineSocket, "libvirt"},
	{"virt*-sock", engineSocket, "libvirt"},
	{"lxd.socket", engineSocket, "LXD"},
	{"incus.socket", engineSocket, "Incus"},
	{"unix.socket", engineSocket, "LXD or Incus"},
	{"kubelet.sock", engineSocket, "the kubelet"},
	{"S.gpg-agent*", agentSocket, "the gpg agent"},
	{"S.scdaemon", agentSocket, "the smart card daemon"},
	{"S.dirmngr", agentSocket, "gpg's directory manager"},
	{"agent.[0-9]*", agentSocket, "an ssh agent"},
	{"ssh-agent*", agentSocket, "an ssh agent"},
	{"gcr-ssh-agent*", agentSocket, "an ssh agent"},
	{"bus", agentSocket, "the message bus"},
	{"system_bus_socket", agentSocket, "the message bus"},
	{"notify", agentSocket, "systemd"},
	{"wayland-[0-9]*", agentSocket, "the desktop"},
	{"X[0-9]*", agentSocket, "the desktop"},
}

func kindOf(name string) (socketKind, string) {
	base := path.Base(name)
	for _, s := range socketNames {
		if ok, _ := path.Match(s.pattern, base); ok { // the patterns are constant and valid
			return s.kind, s.what
		}
	}
	if strings.HasSuffix(path.Dir(name), "/systemd") && base == "private" {
		return agentSocket, "systemd"
	}
	return plainSocket, ""
}

// engineSockets are where engines listen; a hard link or bind mount of one has
// the same device and inode under any name.
func (h Host) engineSockets() []string {
	sockets := []string{
		"/run/docker.sock", "/run/podman/podman.sock", "/run/containerd/containerd.sock",
		"/run/crio/crio.sock", "/run/buildkit/buildkitd.sock", "/run/libvirt/libvirt-sock",
		"/var/lib/lxd/unix.socket", "/var/lib/incus/unix.socket",
	}
	if h.RuntimeDir != "" {
		for _, name := range []string{"docker.sock", "podman/podman.sock", "buildkit/buildkitd.sock", "containerd/containerd.sock"} {
			sockets = append(sockets, filepath.Join(h.RuntimeDir, name))
		}
	}
	return sockets
}

type inode struct{ dev, ino uint64 }

// knownSockets are the host's sockets by inode.
func (h Host) knownSockets() map[inode]socketKind {
	known := make(map[inode]socketKind)
	add := func(name string, kind socketKind) {
		var st unix.Stat_t
		if unix.Stat(name, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFSOCK {
			known[inode{st.Dev, st.Ino}] = kind
		}
	}
	for _, name := range h.Sockets {
		kind, _ := kindOf(name)
		add(name, max(kind, agentSocket))
	}
	for _, name := range h.engineSockets() {
		add(name, engineSocket)
	}
	return known
}

// checkSockets looks through the sources for sockets and FIFOs.
func (p *Plan) checkSockets(h Host, o Options) error {
	known := h.knownSockets()
	bound, err := listeningPaths()
	if err != nil {
		return fmt.Errorf("list listening sockets: %w", err)
	}
	seen := make(map[string]bool)
	for _, m := range p.Mounts {
		if seen[m.Source] {
			continue
		}
		seen[m.Source] = true
		s, err := p.openReal(m.Source)
		if err != nil {
			return err
		}
		r := socketReport{o: o, known: known, top: s, readOnly: !slices.ContainsFunc(p.Mounts, func(o Mount) bool { return o.Source == m.Source && !o.ReadOnly })}
		if err := r.check(newScan(), bound); err != nil {
			return err
		}
		p.Warnings = append(p.Warnings, r.warnings()...)
		for i := range p.Mounts {
			p.Mounts[i].Pipes = p.Mounts[i].Pipes || p.Mounts[i].Source == m.Source && (r.pipes || r.capped)
		}
	}
	return nil
}

// socketReport is what was found in one source.
type socketReport struct {
	o     Options
	known map[inode]socketKind
	top   *source

	readOnly bool
	capped   bool
	pipes    bool
	idle     []string // sockets nobody listens on, FIFOs
	open     []string // listening sockets, allowed
	linked   []string // files with other names
}

// check walks the tree with s, and takes the sockets that the kernel lists where
// the walk doesn't come to its end.
func (r *socketReport) check(s *scan, bound []string) error {
	if !r.top.dir {
		if r.top.socket {
			return r.judge(special{socket: true, dev: r.top.dev, ino: r.top.ino})
		}
		r.pipes = r.top.fifo
		return nil
	}
	s.walk(r.top.file, "", 0)
	r.capped = s.capped
	for _, rel := range s.linked {
		r.linked = append(r.linked, filepath.Join(r.top.path, rel))
	}
	for _, found := range s.found {
		if err := r.judge(found); err != nil {
			return err
		}
	}
	if !s.capped {
		return nil
	}
	for _, name := range bound {
		if !within(name, r.top.path) {
			continue
		}
		rel, err := filepath.Rel(r.top.path, name)
		if err != nil {
			return err
		}
		if err := r.judgeBound(rel); err != nil {
			return err
		}
	}
	return nil
}

// judgeBound judges a socket that the kernel lists, if it is still there.
func (r *socketReport) judgeBound(rel string) error {
	f, err := openBeneath(r.top.file, rel, noLinks)
	if err != nil {
		return nil
	}
	defer f.Close()
	s, err := newSource(f, filepath.Join(r.top.path, rel))
	if err != nil || !s.socket {
		return err
	}
	return r.judge(special{rel: rel, socket: true, dev: s.dev, ino: s.ino})
}

func (r *socketReport) judge(found special) error {
	name := filepath.Join(r.top.path, found.rel)
	if !found.socket {
		r.pipes = true
		r.idle = append(r.idle, name)
		return nil
	}
	kind, what := kindOf(name)
	if k, ok := r.known[inode{found.dev, found.ino}]; ok && k > kind {
		kind, what = k, "a service of the host"
	}
	if kind == engineSocket {
		return refuse("move it out of the way: no flag lets a sandbox have it",
			"%q is the socket of a container engine (%s): whoever can connect to it owns the host", name, what)
	}
	if !r.listening(found.rel) {
		r.idle = append(r.idle, name)
		return nil
	}
	if r.o.AllowSockets {
		r.open = append(r.open, name)
		return nil
	}
	if kind == agentSocket {
		return refuse("move it out of the way, or pass --allow-sockets if the agent may use it", "%q is a socket of %s", name, what)
	}
	return refuse("stop what listens there, or pass --allow-sockets if the agent may talk to it",
		"a process on the host listens on the socket %q", name)
}

// listening tries to connect, and hangs up at once: only that tells for a
// listener in another network namespace, such as another sandbox. Any doubt
// counts as listening.
func (r *socketReport) listening(rel string) bool {
	f, err := openBeneath(r.top.file, rel, noLinks)
	if err != nil {
		return true
	}
	defer f.Close()
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	// Through the descriptor: a path can be longer than sun_path.
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/fd/" + strconv.Itoa(int(f.Fd()))})
	return !errors.Is(err, unix.ECONNREFUSED)
}

func (r *socketReport) warnings() []string {
	var ws []string
	if len(r.open) > 0 {
		ws = append(ws, "the agent can talk to the host through "+list(r.open))
	}
	if len(r.idle) > 0 {
		ws = append(ws, "a process on the host and the agent could meet at "+list(r.idle))
	}
	if len(r.linked) > 0 && !r.readOnly {
		ws = append(ws, "these are hard links, and what the agent writes to them shows under their other names too, which may lie elsewhere: "+list(r.linked))
	}
	if r.capped {
		ws = append(ws, fmt.Sprintf("%s was not looked through to its end for sockets (more than %d files, or slow, or deep)", r.top.path, scanEntries))
	}
	return ws
}

// list names the first few.
func list(names []string) string {
	const most = 3
	quoted := make([]string, 0, most)
	for _, n := range names[:min(len(names), most)] {
		quoted = append(quoted, quote(n))
	}
	text := strings.Join(quoted, ", ")
	if n := len(names) - most; n > 0 {
		text += fmt.Sprintf(" and %d more", n)
	}
	return text
}

func quote(s string) string { return strconv.Quote(s) }
