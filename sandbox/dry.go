package sandbox

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/aisb-dev/aisb/netpolicy"
)

// Dry is what Start would do, as far as it is known before anything is started.
type Dry struct {
	Podman  []string // podman's argument vector, its own path first
	Environ []string // podman's environment: nothing of the command's
	Ruleset string   // nft(8) text, "" without a fence
	Proxy   []string // names of the variables that lead to the gate
	Notes   []string // what only the start will tell
}

// DryRun lowers a run to podman's command line and the fence by the functions that
// Start goes through, and makes and starts nothing.
func DryRun(host Host, spec Spec) (Dry, error) {
	binary, err := plannedBinary(host.Paths.Cache, host.Self)
	if err != nil {
		return Dry{}, err
	}
	state := filepath.Join(host.Paths.State, "runs", spec.Name)
	at, notes := spec.expected(state)
	at.files = spec.fileMounts(state)
	cmd := host.Podman.Command(context.Background(), spec.container(binary, host.Conf, at).RunArgs()...)
	d := Dry{Podman: cmd.Args, Environ: cmd.Env, Notes: notes}
	fence, err := spec.fence(at)
	if err != nil {
		return Dry{}, err
	}
	if fence != nil {
		rules, err := netpolicy.Render(fence.Policy)
		if err != nil {
			return Dry{}, err
		}
		d.Ruleset = rules.String()
	}
	for _, v := range spec.proxy(at) {
		d.Proxy = append(d.Proxy, v.Name)
	}
	return d, nil
}

// expected are the endpoints of a run that isn't started, and what of them differs
// when it is. state is the run's directory.
func (s Spec) expected(state string) (endpoints, []string) {
	var notes []string
	if s.Net == NetAllow && s.Backend == Inner {
		return endpoints{gate: innerGate}, notes
	}
	on := func(addr netip.Addr, port uint16) netip.AddrPort { return netip.AddrPortFrom(addr, port) }
	at := endpoints{
		gate: on(HostLoopback, 3128), control: on(HostLoopback, 3128),
		canaries: []netip.AddrPort{on(HostLoopback, 3129), on(HostLoopback6, 3129)},
	}
	switch s.Net {
	case NetAllow:
		notes = append(notes, "the ports 3128 and 3129 stand for those that the host gives the gate and its canary; on a host without IPv4 they are at "+HostLoopback6.String())
	case NetNoGate:
		at.hosts = filepath.Join(state, hostsName)
		if s.NoGate.DNS {
			at.resolv = filepath.Join(state, resolvName)
		}
		notes = append(notes, "the addresses of the names are looked up when the run starts, and opened in the ruleset then",
			"the ports 3128 and 3129 stand for those that the host gives for the proof")
	case NetNone, NetFull:
	}
	return at, notes
}

// plannedBinary is the path that EntryBinary would return. It makes nothing.
func plannedBinary(cache string, self *os.File) (string, error) {
	now, err := stateOf(self.Stat())
	if err == nil {
		if path, ok := remembered(cache, now); ok {
			return path, nil
		}
	}
	sum, err := hashFile(self)
	if err != nil {
		return "", fmt.Errorf("hash own binary: %w", err)
	}
	return copyPath(cache, sum), nil
}

// copyPath is where the copy of a binary with a hash lies.
func copyPath(cache string, sum []byte) string {
	return filepath.Join(cache, "entry-"+hex.EncodeToString(sum))
}
