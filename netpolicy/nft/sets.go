package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

// What golang.org/x/sys lacks of linux/netfilter/nf_tables.h.
const (
	setHandle  = 16 // NFTA_SET_HANDLE
	setBackend = 19 // NFTA_SET_TYPE: the name of the kernel's own structure, Linux 6.16
	setCount   = 20 // NFTA_SET_COUNT: of its elements, the same
)

var (
	setSchema  = schema{unix.NFTA_SET_DESC: {}}
	elemSchema = schema{unix.NFTA_SET_ELEM_KEY: dataSchema}
)

// setForm is a set in the one form that can be compared.
type setForm struct {
	name  string
	head  string   // attributes of the set
	elems []string // sorted
}

// keyLength is the length of a set's keys in bytes: an address, and a port in a
// register of its own.
func keyLength(r netpolicy.SetRef) uint32 {
	if r.V6 {
		return 16 + 4
	}
	return 4 + 4
}

// elementKey is an address and a port, each in whole registers of four bytes.
func elementKey(p netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(p.Addr().AsSlice(), p.Port()), 0, 0)
}

// peerIn matches the other side's address and port together, as nft(8) makes it of
// "ip daddr . tcp dport @SET".
func peerIn(in bool, m netpolicy.Match) []expr.Any {
	family, offset, length, second := byte(unix.NFPROTO_IPV4), pick[uint32](in, 12, 16), uint32(4), uint32(unix.NFT_REG32_01)
	if m.PeerIn.V6 {
		// The address fills the first register of sixteen bytes.
		family, offset, length, second = unix.NFPROTO_IPV6, pick[uint32](in, 8, 24), 16, unix.NFT_REG_2
	}
	es := append(meta(expr.MetaKeyNFPROTO, []byte{family}), meta(expr.MetaKeyL4PROTO, []byte{protocol(m.Proto)})...)
	return append(es,
		&expr.Payload{Base: expr.PayloadBaseNetworkHeader, Offset: offset, Len: length, DestRegister: register},
		&expr.Payload{Base: expr.PayloadBaseTransportHeader, Offset: pick[uint32](in, 0, 2), Len: 2, DestRegister: second},
		&expr.Lookup{SourceRegister: register, SetName: m.PeerIn.Name},
	)
}

// expectedSet is what read must find for a set.
func expectedSet(s netpolicy.Set) (setForm, error) {
	listed, err := attrsOf(nest(setAttrs(s.SetRef)...))
	if err != nil {
		return setForm{}, err
	}
	head, err := canonSet(listed)
	form := setForm{name: s.Name, head: head}
	for _, p := range s.Peers {
		elem, eerr := canon([]attr{
			{unix.NFTA_SET_ELEM_KEY, nest(netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: elementKey(p)})},
		}, elemSchema)
		err = errors.Join(err, eerr)
		form.elems = append(form.elems, elem)
	}
	slices.Sort(form.elems)
	return form, err
}

// setMagic is the number by which nft(8) knows a set's type: six bits for each
// part, of which ipv4_addr is 7, ipv6_addr 8 and inet_service 13.
func setMagic(r netpolicy.SetRef) uint32 {
	if r.V6 {
		return 8<<nftables.SetConcatTypeBits | 13
	}
	return 7<<nftables.SetConcatTypeBits | 13
}

// canonSet leaves out what the kernel numbers or counts by itself, and what it only
// keeps for who lists the set: user data changes nothing of what matches.
func canonSet(attrs []attr) (string, error) {
	attrs = slices.Clone(attrs)
	for i, a := range attrs {
		switch a.kind {
		case setHandle, setBackend, setCount, unix.NFTA_SET_ID, unix.NFTA_SET_USERDATA:
			attrs[i].data = nil
		}
	}
	return canon(attrs, setSchema)
}

// listElements dumps the elements of a set of the table, which has to exist.
func listElements(conn *netlink.Conn, set string) ([]attr, error) {
	m := ours(unix.NFT_MSG_GETSETELEM, netlink.Dump,
		netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: text(netpolicy.Table)},
		netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: text(set)},
	)
	parts, err := dump(conn, m, unix.NFT_MSG_NEWSETELEM)
	if err != nil {
		return nil, err
	}
	var elems []attr
	for _, p := range parts {
		more, err := attrsOf(p.attr(unix.NFTA_SET_ELEM_LIST_ELEMENTS))
		if err != nil {
			return nil, fmt.Errorf("decode elements: %w", err)
		}
		elems = append(elems, more...)
	}
	return elems, nil
}

// compareSets compares the sets with their elements.
func compareSets(got state, want []setForm) error {
	for _, o := range got.sets {
		name := o.text(unix.NFTA_SET_NAME)
		known := slices.ContainsFunc(want, func(w setForm) bool { return w.name == name })
		if !known || o.family != unix.NFPROTO_INET {
			return mismatch("foreign set %q", name)
		}
	}
	if len(got.sets) != len(want) {
		return mismatch("%d sets, want %d", len(got.sets), len(want))
	}
	for _, w := range want {
		i := slices.IndexFunc(got.sets, func(o object) bool { return o.text(unix.NFTA_SET_NAME) == w.name })
		if i < 0 {
			return mismatch("set %q is missing", w.name)
		}
		head, err := canonSet(got.sets[i].attrs)
		if err != nil || head != w.head {
			return mismatch("set %q has type or flags %s, want %s (%v)", w.name, head, w.head, err)
		}
		if err := compareElements(got.elements[w.name], w); err != nil {
			return err
		}
	}
	return nil
}

func compareElements(got []attr, want setForm) error {
	var elems []string
	for _, e := range got {
		attrs, err := attrsOf(e.data)
		if err != nil || e.kind != unix.NFTA_LIST_ELEM {
			return mismatch("set %q: decode element of type %d: %v", want.name, e.kind, err)
		}
		elem, err := canon(attrs, elemSchema)
		if err != nil {
			return mismatch("set %q: %v", want.name, err)
		}
		if _, found := slices.BinarySearch(want.elems, elem); !found {
			return mismatch("set %q holds %s", want.name, showElement(attrs, elem))
		}
		elems = append(elems, elem)
	}
	slices.Sort(elems)
	if !slices.Equal(elems, want.elems) {
		return mismatch("set %q holds %d elements, want %d", want.name, len(elems), len(want.elems))
	}
	return nil
}

// showElement is an element for people where it is an address and a port, and its form
// otherwise.
func showElement(attrs []attr, form string) string {
	if len(attrs) != 1 {
		return form
	}
	key, err := attrsOf(attrs[0].data)
	if err != nil || len(key) != 1 || len(key[0].data) <= 4 {
		return form
	}
	cut := len(key[0].data) - 4 // the port has a register of its own
	addr, ok := netip.AddrFromSlice(key[0].data[:cut])
	if !ok {
		return form
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(key[0].data[cut:])).String()
}
