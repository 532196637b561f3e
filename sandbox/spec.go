// Package sandbox runs a command in a fenced container, as an object without a
// terminal: Start, then Stdio, Signal, Wait. The command line is its client;
// so will be a supervisor of detached runs.
package sandbox

import (
	"net/netip"
	"slices"

	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/mounts"
	"github.com/aisb-dev/aisb/sandbox/podman"
	"github.com/aisb-dev/aisb/sandbox/snapshot"
)

// NetMode is how a sandbox reaches the network (--net).
type NetMode string

// The network modes. There is no zero value that opens anything: Start refuses
// an unknown mode.
const (
	NetAllow NetMode = "allow" // through the gate alone
	NetNone  NetMode = "none"  // nothing but its own loopback
	NetFull  NetMode = "full"  // no fence, no gate; never the host's loopback

	NetNoGate NetMode = "no-gate" // to the addresses of the allowlist's names, without a gate
)

// Backend is how a fenced sandbox reaches its gate (--net-backend).
type Backend string

// The backends.
const (
	// Pasta maps one address of the container to the host's loopback, where the
	// gate listens. The fence leaves that address alone open.
	Pasta Backend = "pasta"
	// Inner gives the container no network. The gate's listener is made inside
	// and handed out: there is no way for a packet to anywhere.
	Inner Backend = "inner"
)

// GatePort is the gate's port inside with Inner.
const GatePort = 3128

// innerGate is where the gate listens inside with Inner.
var innerGate = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), GatePort)

// Spec is a run as the user asked for it, checked and complete.
type Spec struct {
	Name  string // RUN: container, directories, log
	Image string

	Prelude []string // put before Argv: prepares what the command finds
	Argv    []string
	Env     []environ.Var // of all commands, beside the proxy variables
	Named   []environ.Var // what the user has named: of this command alone, over Env
	Workdir string        // in the container

	Mounts     []mounts.Mount
	Nested     []mounts.Mount // brought along by Mounts: expected, not asked for
	Protected  []mounts.Mount // over those, read-only and the directories on the way
	Files      []File         // of aisb's own, put in read-only
	HomeVolume string         // named volume at /home/agent; "" is a tmpfs

	Net     NetMode
	Backend Backend     // with NetAllow
	Gate    proc.Config // rules and resolver; Start fills in the rest
	NoGate  NoGate      // with NetNoGate
	Publish []Publish   // ports of the host's loopback that lead in

	Watch      *snapshot.Watch // what the host would execute of the mounts; nil for nothing
	Quarantine bool            // move aside what is new of that

	Limits    podman.Limits
	TmpfsSize string
	MinFree   uint64 // bytes that must stay free on the host's disks; 0 is no floor

	TTY        bool
	Rows, Cols uint16

	Detached bool // no user is at its terminal: others may attach

	Share           bool // files with running sandboxes that have other rights
	AllowUserNS     bool
	AllowUnenforced bool
	KeepRoot        bool
	ExtraArgs       []string // for podman
}

// Paths in the container.
const (
	homeDir      = "/home/agent"
	entryPath    = "/usr/libexec/aisb-entry"
	binaryPath   = "/usr/local/bin/aisb"
	agentUID     = 1000
	agentGID     = 1000
	entryCapsAll = "NET_ADMIN,SETUID,SETGID,SETPCAP"
)

// sendBuffer bounds what a socket in the container queues. Without it uploads
// through pasta to the host's loopback collapse whenever the receiver is
// slower: pasta drops what its own socket can't take, and the guest waits for a
// retransmission timer. Measured with reno and bbr, see docs/networking.md.
const sendBuffer = "net.ipv4.tcp_wmem=4096 16384 131072"

// fencePolicy is what the entrypoint installs: the gate open, and a counted
// rule for each probe. The zero gate opens nothing. Canaries are of one family
// each.
func fencePolicy(gate netip.AddrPort, canaries ...netip.AddrPort) netpolicy.Spec {
	// Addresses reserved for documentation (RFC 5737, RFC 3849): the fence
	// treats them like any public address, and if it leaked, nobody would be
	// bothered.
	public4 := netip.MustParseAddr("203.0.113.1")
	public6 := netip.MustParseAddr("2001:db8::1")
	spec := netpolicy.Spec{
		Probes: []netpolicy.Probe{
			{Name: "tcp-public", Proto: netpolicy.TCP, To: netip.AddrPortFrom(public4, 443)},
			{Name: "tcp-public-ipv6", Proto: netpolicy.TCP, To: netip.AddrPortFrom(public6, 443)},
			{Name: "udp-dns", Proto: netpolicy.UDP, To: netip.AddrPortFrom(public4, 53)},
			{Name: "udp-dns-ipv6", Proto: netpolicy.UDP, To: netip.AddrPortFrom(public6, 53)},
			{Name: "podman-dns", Proto: netpolicy.UDP, To: netip.AddrPortFrom(DNSForward, 53)},
			{Name: "podman-dns-tcp", Proto: netpolicy.TCP, To: netip.AddrPortFrom(DNSForward, 53)},
		},
	}
	if gate.IsValid() {
		spec.Gates = []netip.AddrPort{gate}
	}
	for _, c := range canaries {
		name := "host-loopback"
		if c.Addr().Is6() {
			name += "-ipv6"
		}
		spec.Probes = append(spec.Probes, netpolicy.Probe{Name: name, Proto: netpolicy.TCP, To: c})
	}
	return spec
}

// directPolicy is what the entrypoint installs without a gate: peers open, and a
// counted rule for each probe.
func directPolicy(peers, canaries []netip.AddrPort, dns bool) netpolicy.Spec {
	spec := fencePolicy(netip.AddrPort{}, canaries...)
	spec.Direct = &netpolicy.Direct{Peers: peers}
	if dns {
		spec.Direct.Resolver = netip.AddrPortFrom(DNSForward, 53)
		spec.Probes = slices.DeleteFunc(spec.Probes, func(p netpolicy.Probe) bool { return p.To == spec.Direct.Resolver })
	}
	return spec
}

// DirectRulesetText is the fence of a sandbox without a gate as nft(8) text.
func DirectRulesetText(peers, canaries []netip.AddrPort, dns bool) (string, error) {
	rs, err := netpolicy.Render(directPolicy(peers, canaries, dns))
	if err != nil {
		return "", err
	}
	return rs.String(), nil
}

// RulesetText is the fence of a sandbox as nft(8) text.
func RulesetText(gate netip.AddrPort, canaries ...netip.AddrPort) (string, error) {
	rs, err := netpolicy.Render(fencePolicy(gate, canaries...))
	if err != nil {
		return "", err
	}
	return rs.String(), nil
}
