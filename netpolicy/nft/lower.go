package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

// loopbackIndex is the interface index of lo, the first device of each network
// namespace (LOOPBACK_IFINDEX in the kernel's net/flow.h).
const loopbackIndex = 1

// register is the one data register that all rules use.
const register = unix.NFT_REG_1

func hookNumber(h netpolicy.Hook) (uint32, error) {
	switch h {
	case netpolicy.Output:
		return unix.NF_INET_LOCAL_OUT, nil
	case netpolicy.Input:
		return unix.NF_INET_LOCAL_IN, nil
	case netpolicy.Forward:
		return unix.NF_INET_FORWARD, nil
	}
	return 0, fmt.Errorf("unknown hook %q", h)
}

// lower makes the kernel's expressions of a rule, in the order in which nft(8)
// makes them of the same rule's text. It is the one place that knows them:
// both installing and reading back use it.
func lower(h netpolicy.Hook, r netpolicy.Rule) []expr.Any {
	in := h == netpolicy.Input
	m := r.Match
	var es []expr.Any
	if m.Loopback {
		es = append(es, meta(pick(in, expr.MetaKeyIIF, expr.MetaKeyOIF), binaryutil.NativeEndian.PutUint32(loopbackIndex))...)
	}
	if m.Peer.IsValid() {
		es = append(es, peer(in, m)...)
	}
	if m.Neighbour != 0 {
		es = append(es, meta(expr.MetaKeyNFPROTO, []byte{unix.NFPROTO_IPV6})...)
		es = append(es, payload(expr.PayloadBaseNetworkHeader, 7, []byte{255})...) // hop limit
		es = append(es, meta(expr.MetaKeyL4PROTO, []byte{unix.IPPROTO_ICMPV6})...)
		es = append(es, payload(expr.PayloadBaseTransportHeader, 0, []byte{m.Neighbour})...)
	}
	switch {
	case m.PeerIn.Name != "":
		es = append(es, peerIn(in, m)...)
	case m.Proto != "":
		es = append(es, meta(expr.MetaKeyL4PROTO, []byte{protocol(m.Proto)})...)
	}
	// In TCP and UDP the source port comes first, the destination at 2.
	if m.PeerPort != 0 {
		es = append(es, payload(expr.PayloadBaseTransportHeader, pick[uint32](in, 0, 2), port(m.PeerPort))...)
	}
	if m.OwnPort != 0 {
		es = append(es, payload(expr.PayloadBaseTransportHeader, pick[uint32](in, 2, 0), port(m.OwnPort))...)
	}
	if m.Established {
		es = append(es, established()...)
	}
	return append(es, &expr.Counter{}, verdict(r.Verdict))
}

// peer matches the other side's address, after the family, or the bytes at its
// place would be read in packets of the other family.
func peer(in bool, m netpolicy.Match) []expr.Any {
	if a := m.Peer; a.Is4() {
		b := a.As4()
		return append(meta(expr.MetaKeyNFPROTO, []byte{unix.NFPROTO_IPV4}),
			payload(expr.PayloadBaseNetworkHeader, pick[uint32](in, 12, 16), b[:])...)
	}
	b := m.Peer.As16()
	return append(meta(expr.MetaKeyNFPROTO, []byte{unix.NFPROTO_IPV6}),
		payload(expr.PayloadBaseNetworkHeader, pick[uint32](in, 8, 24), b[:])...)
}

func meta(key expr.MetaKey, value []byte) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: key, Register: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value},
	}
}

func payload(base expr.PayloadBase, offset uint32, value []byte) []expr.Any {
	return []expr.Any{
		&expr.Payload{Base: base, Offset: offset, Len: uint32(len(value)), DestRegister: register},
		&expr.Cmp{Op: expr.CmpOpEq, Register: register, Data: value},
	}
}

func established() []expr.Any {
	mask := binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED)
	zero := make([]byte, len(mask))
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{SourceRegister: register, DestRegister: register, Len: uint32(len(mask)), Mask: mask, Xor: zero},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: zero},
	}
}

func verdict(v netpolicy.Verdict) expr.Any {
	switch v {
	case netpolicy.Accept:
		return &expr.Verdict{Kind: expr.VerdictAccept}
	case netpolicy.RejectReset:
		return &expr.Reject{Type: unix.NFT_REJECT_TCP_RST}
	case netpolicy.RejectProhibited:
		return &expr.Reject{Type: unix.NFT_REJECT_ICMPX_UNREACH, Code: unix.NFT_REJECT_ICMPX_ADMIN_PROHIBITED}
	default:
		return &expr.Verdict{Kind: expr.VerdictDrop}
	}
}

func protocol(p netpolicy.Proto) byte {
	if p == netpolicy.UDP {
		return unix.IPPROTO_UDP
	}
	return unix.IPPROTO_TCP
}

func port(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }

func pick[T any](first bool, a, b T) T {
	if first {
		return a
	}
	return b
}
