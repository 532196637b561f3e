// Package netpolicy describes the packet filter of a sandbox as plain data and
// as nft(8) text. It is pure: package nft installs it and reads it back.
package netpolicy

import "net/netip"

// Spec says what may pass. The zero value lets nothing out but loopback.
type Spec struct {
	Gates   []netip.AddrPort // TCP out to these, and only their answers in
	Publish []uint16         // TCP ports open to the inside (-p), answers out
	Direct  *Direct          // TCP out to what its sets hold; nil makes none
	Probes  []Probe          // what the proof will try; each gets a counted rule of its own
}

// Proto is a transport protocol that a probe uses.
type Proto string

// Protocols of probes.
const (
	TCP Proto = "tcp"
	UDP Proto = "udp"
)

// Probe is one attempt of the proof.
type Probe struct {
	Name  string // short and unique, lower case with hyphens: "tcp-public"
	Proto Proto
	To    netip.AddrPort
}

// Rule is the name of the rule that refuses the probe and counts it.
func (p Probe) Rule() string { return "probe " + p.Name }
