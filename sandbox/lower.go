package sandbox

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

// endpoints are what a started run adds to its Spec: where the gate and the
// canary listen, as seen from the container, and the key of the proof.
type endpoints struct {
	gate     netip.AddrPort   // the one that the container uses
	gate6    netip.AddrPort   // the one for a container without IPv4; none if the host has no ::1
	canaries []netip.AddrPort // of one family each
	key      []byte

	files []podman.Mount // of Spec.Files

	// Of a run without a gate.
	control       netip.AddrPort   // what answers the proof
	control6      netip.AddrPort   // as gate6
	peers         []netip.AddrPort // that are open
	hosts, resolv string           // files of its own; "" is that of all runs
}

// container lowers a Spec to podman's terms. binary is the copy of aisb that
// the container runs. It is pure.
func (s Spec) container(binary string, conf podman.Conf, at endpoints) podman.Container {
	c := podman.Container{
		Name:        s.Name,
		Image:       s.Image,
		Hostname:    podman.Hostname,
		Entrypoint:  entryPath,
		Descriptors: 1,
		CapAdd:      strings.Split(entryCapsAll, ","),
		Limits:      s.Limits,
		Extra:       s.ExtraArgs,
		Tmpfs: []podman.Tmpfs{
			{Target: "/tmp", Size: s.TmpfsSize, Mode: "1777", Exec: true},
			{Target: "/var/tmp", Size: s.TmpfsSize, Mode: "1777", Exec: true},
			{Target: "/run", Size: "64m", Mode: "0755"},
		},
		Mounts: []podman.Mount{
			{Source: binary, Target: entryPath, ReadOnly: true},
			{Source: binary, Target: binaryPath, ReadOnly: true},
			{Source: cmp.Or(at.hosts, conf.Hosts()), Target: "/etc/hosts", ReadOnly: true},
			{Source: cmp.Or(at.resolv, conf.Resolv()), Target: "/etc/resolv.conf", ReadOnly: true},
		},
	}
	switch {
	case s.Net == NetNone, s.Net == NetAllow && s.Backend == Inner:
		c.Network = "none"
	case s.Net == NetFull:
		c.Network = pastaNetwork(s.Net)
	default:
		c.Network = pastaNetwork(s.Net)
		c.Sysctls = []string{sendBuffer}
	}
	if s.Net == NetFull {
		// With an open network the resolver is podman's choice.
		c.Mounts = slices.DeleteFunc(c.Mounts, func(m podman.Mount) bool { return m.Target == "/etc/resolv.conf" })
	}
	if s.HomeVolume != "" {
		c.Mounts = append(c.Mounts, podman.Mount{Source: s.HomeVolume, Target: homeDir, Volume: true})
	} else {
		c.Tmpfs = append(c.Tmpfs, podman.Tmpfs{Target: homeDir, Size: s.TmpfsSize, Mode: "0777", Exec: true})
	}
	c.Mounts = append(c.Mounts, at.files...)
	for _, m := range slices.Concat(s.Mounts, s.Protected) {
		c.Mounts = append(c.Mounts, podman.Mount{Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly})
	}
	return c
}

// handshake lowers a Spec to what the entrypoint is told. It is pure.
func (s Spec) handshake(c podman.Container, at endpoints) (handshake.Config, error) {
	cfg := handshake.Config{
		Version: handshake.Version,
		Run:     s.Name,
		Argv:    slices.Concat(s.Prelude, s.Argv),
		Dir:     handshake.Bytes(s.Workdir),
		UID:     agentUID, GID: agentGID,
		UserMap: handshake.IDMap{Inside: agentUID}, GroupMap: handshake.IDMap{Inside: agentGID},
		TTY: s.TTY, Rows: s.Rows, Cols: s.Cols,
		AllowUserNS:      s.AllowUserNS,
		AllowUnenforced:  s.AllowUnenforced,
		InsecureKeepRoot: s.KeepRoot,
	}
	if s.KeepRoot {
		cfg.UID, cfg.GID = 0, 0
	}
	for _, m := range c.Mounts {
		cfg.Mounts = append(cfg.Mounts, handshake.Mount{Target: m.Target, ReadOnly: m.ReadOnly})
	}
	for _, t := range c.Tmpfs {
		cfg.Mounts = append(cfg.Mounts, handshake.Mount{Target: t.Target})
	}
	for _, m := range slices.Concat(s.Mounts, s.Protected) {
		i := slices.IndexFunc(cfg.Mounts, func(e handshake.Mount) bool { return e.Target == m.Target })
		cfg.Mounts[i].Dev, cfg.Mounts[i].Ino = m.Dev, m.Ino
	}
	if s.Net == NetFull {
		// podman's own, since container() leaves it to podman.
		cfg.Mounts = append(cfg.Mounts, handshake.Mount{Target: "/etc/resolv.conf"})
	}
	var err error
	if cfg.Fence, err = s.fence(at); err != nil {
		return handshake.Config{}, err
	}
	for _, m := range s.Nested {
		cfg.Mounts = append(cfg.Mounts, handshake.Mount{Target: m.Target, ReadOnly: m.ReadOnly})
	}
	// The proxy comes first, so that a variable which the user names wins:
	// dropping the proxy gains the command nothing.
	if cfg.Env, _, err = environ.Merge(s.proxy(at), s.Env, s.Named); err != nil {
		return handshake.Config{}, err
	}
	return cfg, nil
}

// fence is what the entrypoint puts up and proves, nil with an open network. It
// refuses a mode that it doesn't know.
func (s Spec) fence(at endpoints) (*handshake.Fence, error) {
	none := netip.AddrPort{}
	switch s.Net {
	case NetAllow:
		f := &handshake.Fence{Proof: handshake.Proof{Gate: at.gate.String(), Key: at.key}}
		switch s.Backend {
		case Pasta:
			f.Policy = fencePolicy(at.gate, at.canaries...)
		case Inner:
			f.Policy, f.Listen = fencePolicy(none), at.gate.String()
		default:
			return nil, fmt.Errorf("unknown backend %q", s.Backend)
		}
		return f, nil
	case NetNoGate:
		return &handshake.Fence{
			Policy: directPolicy(append(slices.Clone(at.peers), at.control), at.canaries, s.NoGate.DNS),
			Proof:  handshake.Proof{Control: at.control.String(), Key: at.key},
		}, nil
	case NetNone:
		return &handshake.Fence{Policy: fencePolicy(none)}, nil
	case NetFull:
		return nil, nil
	}
	return nil, fmt.Errorf("unknown network mode %q", s.Net)
}

// proxy are the variables that name the gate, if there is one.
func (s Spec) proxy(at endpoints) []environ.Var {
	if s.Net != NetAllow {
		return nil
	}
	return environ.Proxy(at.gate)
}
