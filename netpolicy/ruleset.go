package netpolicy

import "net/netip"

// Table is the name of the one table, in family inet: a table of family ip
// would leave IPv6 open.
const Table = "aisb"

// Ruleset is the whole content of table inet aisb: base chains of type filter
// at priority 0 with policy drop. Nothing else may exist beside it.
type Ruleset struct {
	Sets   []Set // that rules look into
	Chains []Chain
}

// Hook is the place of a chain in the kernel's packet path, and the chain's
// name.
type Hook string

// The hooks that every packet of a namespace passes: it is sent, received or
// routed through.
const (
	Output  Hook = "output"
	Input   Hook = "input"
	Forward Hook = "forward"
)

// Chain is a base chain with policy drop.
type Chain struct {
	Hook  Hook
	Rules []Rule
}

// Rule matches packets, counts them and gives a verdict.
type Rule struct {
	Name    string // unique in the ruleset; also the rule's comment in the kernel
	Match   Match
	Verdict Verdict
}

// Match is what a packet must have, all of it. Zero fields match anything.
type Match struct {
	Loopback    bool       // goes out by lo, or came in by it
	PeerIn      SetRef     // the other side's address and port, of Proto, are in a set
	Peer        netip.Addr // destination in output, source in input
	Proto       Proto
	PeerPort    uint16
	OwnPort     uint16
	Established bool // belongs to a connection that has seen both directions

	// Neighbour is the type of an IPv6 neighbour discovery message (RFC 4861,
	// section 4), with the hop limit of 255 that section 7.1 demands.
	Neighbour uint8
}

// Verdict is what happens to a matched packet.
type Verdict uint8

// The verdicts. The zero value lets nothing pass.
const (
	Drop             Verdict = iota
	RejectReset              // answered by a TCP reset
	RejectProhibited         // answered by ICMP "administratively prohibited"
	Accept
)
