package nft

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

// object is one thing that the kernel lists, as it came: family and raw
// attributes. The library's own lists are not used because they leave out what
// they can't decode: unknown expressions, flags of chains, sets' flags.
type object struct {
	family uint8
	attrs  []attr
}

// attr is the value of an attribute, nil when absent.
func (o object) attr(kind uint16) []byte {
	for _, a := range o.attrs {
		if a.kind == kind {
			return a.data
		}
	}
	return nil
}

// text is the value of a NUL-terminated string attribute.
func (o object) text(kind uint16) string {
	b := o.attr(kind)
	if n := len(b); n > 0 && b[n-1] == 0 {
		b = b[:n-1]
	}
	return string(b)
}

// state is everything that nf_tables holds in the network namespace, in all
// families.
type state struct {
	tables, chains, rules      []object
	sets, stateful, flowtables []object

	elements map[string][]attr // of the table's sets by name, as listed
}

// nfgenHeader is the length of struct nfgenmsg before the attributes.
const nfgenHeader = 4

// ErrChanging reports that someone else changed the rules while they were read.
var ErrChanging = errors.New("packet filter changed while it was read")

// read lists all of it. The kernel's generation number tells that it is one
// state, not parts of two.
func read(conn *netlink.Conn) (state, error) {
	before, err := generation(conn)
	if err != nil {
		return state{}, err
	}
	var s state
	for _, l := range []struct {
		name     string
		get, new uint16
		to       *[]object
	}{
		{"tables", unix.NFT_MSG_GETTABLE, unix.NFT_MSG_NEWTABLE, &s.tables},
		{"chains", unix.NFT_MSG_GETCHAIN, unix.NFT_MSG_NEWCHAIN, &s.chains},
		{"rules", unix.NFT_MSG_GETRULE, unix.NFT_MSG_NEWRULE, &s.rules},
		{"sets", unix.NFT_MSG_GETSET, unix.NFT_MSG_NEWSET, &s.sets},
		{"objects", unix.NFT_MSG_GETOBJ, unix.NFT_MSG_NEWOBJ, &s.stateful},
		{"flowtables", unix.NFT_MSG_GETFLOWTABLE, unix.NFT_MSG_NEWFLOWTABLE, &s.flowtables},
	} {
		if *l.to, err = list(conn, l.get, l.new); err != nil {
			return state{}, fmt.Errorf("list %s: %w", l.name, err)
		}
	}
	s.elements = map[string][]attr{}
	for _, set := range s.sets {
		if set.family != unix.NFPROTO_INET || set.text(unix.NFTA_SET_TABLE) != netpolicy.Table {
			continue // foreign, whatever it holds
		}
		name := set.text(unix.NFTA_SET_NAME)
		if s.elements[name], err = listElements(conn, name); err != nil {
			return state{}, fmt.Errorf("list set %q: %w", name, err)
		}
	}
	after, err := generation(conn)
	if err == nil && before != after {
		err = ErrChanging
	}
	return s, err
}

// list dumps one kind of object of all tables in all families.
func list(conn *netlink.Conn, get, want uint16) ([]object, error) {
	return dump(conn, request(get, netlink.Request|netlink.Dump), want)
}

// dump asks for a list.
func dump(conn *netlink.Conn, m netlink.Message, want uint16) ([]object, error) {
	msgs, err := conn.Execute(m)
	if err != nil {
		return nil, err
	}
	objects := make([]object, 0, len(msgs))
	for _, m := range msgs {
		if m.Header.Flags&netlink.DumpInterrupted != 0 {
			return nil, ErrChanging
		}
		o, err := parse(m, want)
		if err != nil {
			return nil, err
		}
		objects = append(objects, o)
	}
	return objects, nil
}

func generation(conn *netlink.Conn) (uint32, error) {
	msgs, err := conn.Execute(request(unix.NFT_MSG_GETGEN, netlink.Request))
	if err != nil {
		return 0, fmt.Errorf("read generation: %w", err)
	}
	if len(msgs) != 1 {
		return 0, fmt.Errorf("read generation: got %d messages, want 1", len(msgs))
	}
	o, err := parse(msgs[0], unix.NFT_MSG_NEWGEN)
	if err != nil {
		return 0, fmt.Errorf("read generation: %w", err)
	}
	id := o.attr(unix.NFTA_GEN_ID)
	if len(id) != 4 {
		return 0, errors.New("read generation: no number in the answer")
	}
	return binary.BigEndian.Uint32(id), nil
}

func request(kind uint16, flags netlink.HeaderFlags) netlink.Message {
	return netlink.Message{
		Header: netlink.Header{Type: messageType(kind), Flags: flags},
		Data:   []byte{unix.NFPROTO_UNSPEC, unix.NFNETLINK_V0, 0, 0}, // all families
	}
}

// ours is a message about the table in family inet, or what is in it.
func ours(kind uint16, flags netlink.HeaderFlags, attrs ...netlink.Attribute) netlink.Message {
	m := request(kind, netlink.Request|flags)
	m.Data[0] = unix.NFPROTO_INET
	m.Data = append(m.Data, nest(attrs...)...)
	return m
}

func parse(m netlink.Message, want uint16) (object, error) {
	if m.Header.Type != messageType(want) || len(m.Data) < nfgenHeader {
		return object{}, fmt.Errorf("unexpected answer of type %#x", uint16(m.Header.Type))
	}
	attrs, err := attrsOf(m.Data[nfgenHeader:])
	if err != nil {
		return object{}, fmt.Errorf("decode answer: %w", err)
	}
	return object{family: m.Data[0], attrs: attrs}, nil
}

func messageType(kind uint16) netlink.HeaderType {
	return netlink.HeaderType(unix.NFNL_SUBSYS_NFTABLES<<8 | kind)
}
