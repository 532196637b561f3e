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
	elemSchema = schema{unix.NFTA_SET_ELEM_KEY: {}}
)

// setForm is a set in the one form that can be compared.
type setForm struct {
	name  string
	head  string   // attributes of the set
	elems []string // sorted
}

// keyType is the kernel's number for a set's type, and the key's length.
func keyType(r netpolicy.SetRef) nftables.SetDatatype {
	addr := nftables.TypeIPAddr
	if r.V6 {
		addr = nftables.TypeIP6Addr
	}
	return nftables.MustConcatSetType(addr, nftables.TypeInetService)
}

// elementKey is an address and a port, each in whole registers of four bytes.
func elementKey(p netip.AddrPort) []byte {
	return append(binary.BigEndian.AppendUint16(p.Addr().AsSlice(), p.Port()), 0, 0)
}

func elements(peers []netip.AddrPort) []nftables.SetElement {
	list := make([]nftables.SetElement, len(peers))
	for i, p := range peers {
		list[i].Key = elementKey(p)
	}
	return list
}

// setOf is a set for the library to send. Concatenation stays false: nft(8) says how
// long each part of a key is for intervals alone, and so does this.
func setOf(table *nftables.Table, r netpolicy.SetRef) *nftables.Set {
	return &nftables.Set{Table: table, Name: r.Name, KeyType: keyType(r)}
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
	number := func(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }
	nest := func(attrs ...netlink.Attribute) []byte {
		b, _ := netlink.MarshalAttributes(attrs) // fails only beyond 64 KiB
		return b
	}
	head, err := canonSet([]netlink.Attribute{
		{Type: unix.NFTA_SET_TABLE, Data: []byte(netpolicy.Table + "\x00")},
		{Type: unix.NFTA_SET_NAME, Data: []byte(s.Name + "\x00")},
		{Type: unix.NFTA_SET_KEY_TYPE, Data: number(setMagic(s.SetRef))},
		{Type: unix.NFTA_SET_KEY_LEN, Data: number(keyType(s.SetRef).Bytes)},
		{Type: unix.NFTA_SET_DESC}, // there, and empty
	})
	form := setForm{name: s.Name, head: head}
	for _, p := range s.Peers {
		text, eerr := canon([]netlink.Attribute{
			{Type: unix.NFTA_SET_ELEM_KEY, Data: nest(netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: elementKey(p)})},
		}, elemSchema)
		err = errors.Join(err, eerr)
		form.elems = append(form.elems, text)
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
func canonSet(attrs []netlink.Attribute) (string, error) {
	attrs = slices.Clone(attrs)
	for i, a := range attrs {
		switch a.Type & attrMask {
		case setHandle, setBackend, setCount, unix.NFTA_SET_ID, unix.NFTA_SET_USERDATA:
			attrs[i].Data = nil
		}
	}
	return canon(attrs, setSchema)
}

// listElements dumps the elements of a set of the table, which has to exist.
func listElements(conn *netlink.Conn, set string) ([]netlink.Attribute, error) {
	attrs, err := netlink.MarshalAttributes([]netlink.Attribute{
		{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: []byte(netpolicy.Table + "\x00")},
		{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: []byte(set + "\x00")},
	})
	if err != nil {
		return nil, err
	}
	m := request(unix.NFT_MSG_GETSETELEM, netlink.Request|netlink.Dump)
	m.Data[0] = unix.NFPROTO_INET
	m.Data = append(m.Data, attrs...)
	parts, err := dump(conn, m, unix.NFT_MSG_NEWSETELEM)
	if err != nil {
		return nil, err
	}
	var elems []netlink.Attribute
	for _, p := range parts {
		more, err := netlink.UnmarshalAttributes(p.attr(unix.NFTA_SET_ELEM_LIST_ELEMENTS))
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

func compareElements(got []netlink.Attribute, want setForm) error {
	var elems []string
	for _, e := range got {
		attrs, err := netlink.UnmarshalAttributes(e.Data)
		if err != nil || e.Type&attrMask != unix.NFTA_LIST_ELEM {
			return mismatch("set %q: decode element of type %d: %v", want.name, e.Type&attrMask, err)
		}
		text, err := canon(attrs, elemSchema)
		if err != nil {
			return mismatch("set %q: %v", want.name, err)
		}
		if _, found := slices.BinarySearch(want.elems, text); !found {
			return mismatch("set %q holds %s", want.name, showElement(attrs, text))
		}
		elems = append(elems, text)
	}
	slices.Sort(elems)
	if !slices.Equal(elems, want.elems) {
		return mismatch("set %q holds %d elements, want %d", want.name, len(elems), len(want.elems))
	}
	return nil
}

// showElement is an element for people where it is an address and a port, and its form
// otherwise.
func showElement(attrs []netlink.Attribute, form string) string {
	if len(attrs) != 1 {
		return form
	}
	key, err := netlink.UnmarshalAttributes(attrs[0].Data)
	if err != nil || len(key) != 1 || len(key[0].Data) <= 4 {
		return form
	}
	cut := len(key[0].Data) - 4 // the port has a register of its own
	addr, ok := netip.AddrFromSlice(key[0].Data[:cut])
	if !ok {
		return form
	}
	return netip.AddrPortFrom(addr, binary.BigEndian.Uint16(key[0].Data[cut:])).String()
}
