package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

// ErrRaced reports that someone else changed the packet filter at the moment of an
// update, of which nothing was taken then.
var ErrRaced = errors.New("packet filter was changed by someone else at the same time")

// Update changes the elements of the sets from what from holds to what to holds, in
// one transaction. What else differs between the two is an error.
//
// What is there must be exactly from, and the kernel takes the transaction only if
// nobody has written since that was read (NFNL_BATCH_GENID, Linux 4.10), so no change
// of anyone else's can hide behind this one. Afterwards all of it is read back.
func Update(from, to netpolicy.Ruleset) error {
	w, err := here()
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = w.Update(from, to)
	return err
}

// Update is Update of the watched namespace. It returns the generation of what was
// read back. The user who owns the container's user namespace may write by the socket,
// as he may read: the kernel asks the same for both.
func (w *Watcher) Update(from, to netpolicy.Ruleset) (generation uint32, err error) {
	return update(w.conn, from, to)
}

func update(conn *netlink.Conn, from, to netpolicy.Ruleset) (uint32, error) {
	batch, err := changes(from, to)
	if err != nil {
		return 0, err
	}
	before, err := generation(conn)
	if err != nil {
		return 0, err
	}
	if _, err := counters(conn, from); err != nil {
		return 0, raced(err)
	}
	if err := commit(conn, before, batch); err != nil {
		return 0, raced(fmt.Errorf("change sets: %w", err))
	}
	after, err := generation(conn)
	if err != nil {
		return 0, err
	}
	_, err = counters(conn, to)
	return after, err
}

// raced tells a change that someone else was just making. What he has made of it is
// for the next reading to say.
func raced(err error) error {
	if errors.Is(err, unix.ERESTART) || errors.Is(err, ErrChanging) {
		return fmt.Errorf("%w: %w", ErrRaced, err)
	}
	return err
}

// changes are the messages that lead from one ruleset to another: what is new comes
// first.
func changes(from, to netpolicy.Ruleset) ([]netlink.Message, error) {
	same := func(a, b netpolicy.Set) bool { return a.SetRef == b.SetRef }
	if from.String() == to.String() {
		return nil, nil
	}
	bare := func(rs netpolicy.Ruleset) string { return netpolicy.Ruleset{Chains: rs.Chains}.String() }
	if !slices.EqualFunc(from.Sets, to.Sets, same) || bare(from) != bare(to) {
		return nil, errors.New("change sets: the rulesets differ in more than elements")
	}
	var add, remove []netlink.Message
	for i := range from.Sets {
		old, now := from.Sets[i], to.Sets[i]
		for _, p := range without(now.Peers, old.Peers) {
			add = append(add, elementMessage(unix.NFT_MSG_NEWSETELEM, netlink.Create|netlink.Excl, old.Name, p))
		}
		for _, p := range without(old.Peers, now.Peers) {
			remove = append(remove, elementMessage(unix.NFT_MSG_DELSETELEM, 0, old.Name, p))
		}
	}
	return append(add, remove...), nil
}

func without(list, those []netip.AddrPort) []netip.AddrPort {
	return slices.DeleteFunc(slices.Clone(list), func(p netip.AddrPort) bool { return slices.Contains(those, p) })
}

func elementMessage(kind uint16, flags netlink.HeaderFlags, set string, p netip.AddrPort) netlink.Message {
	within := func(kind uint16, inner netlink.Attribute) netlink.Attribute {
		return netlink.Attribute{Type: unix.NLA_F_NESTED | kind, Data: nest(inner)}
	}
	key := within(unix.NFTA_SET_ELEM_KEY, netlink.Attribute{Type: unix.NFTA_DATA_VALUE, Data: elementKey(p)})
	return ours(kind, flags,
		netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_TABLE, Data: text(netpolicy.Table)},
		netlink.Attribute{Type: unix.NFTA_SET_ELEM_LIST_SET, Data: text(set)},
		within(unix.NFTA_SET_ELEM_LIST_ELEMENTS, within(unix.NFTA_LIST_ELEM, key)),
	)
}

// commit sends messages as one transaction, on top of a generation unless that is 0. The
// kernel answers all of them when it is through: each that it refuses, and the last, which
// alone asks for an answer, since a thousand of them overflow a socket.
func commit(conn *netlink.Conn, generation uint32, batch []netlink.Message) error {
	if len(batch) == 0 {
		return nil
	}
	mark := func(kind uint16) netlink.Message {
		// The subsystem stands in the header's last field (struct nfgenmsg).
		data := binary.BigEndian.AppendUint16([]byte{unix.AF_UNSPEC, unix.NFNETLINK_V0}, unix.NFNL_SUBSYS_NFTABLES)
		return netlink.Message{Header: netlink.Header{Type: netlink.HeaderType(kind), Flags: netlink.Request}, Data: data}
	}
	begin, end := mark(unix.NFNL_MSG_BATCH_BEGIN), mark(unix.NFNL_MSG_BATCH_END)
	begin.Data = append(begin.Data, nest(netlink.Attribute{Type: unix.NFNL_BATCH_GENID, Data: number(generation)})...)
	batch[len(batch)-1].Header.Flags |= netlink.Acknowledge
	sent, err := conn.SendMessages(slices.Concat([]netlink.Message{begin}, batch, []netlink.Message{end}))
	if err != nil {
		return err
	}
	answers, err := conn.Receive() // a refusal is its error
	if err != nil {
		return err
	}
	last := sent[len(sent)-2].Header.Sequence
	if len(answers) != 1 || answers[0].Header.Type != netlink.Error || answers[0].Header.Sequence != last {
		return errors.New("what netlink answers is not about this transaction")
	}
	return nil
}
