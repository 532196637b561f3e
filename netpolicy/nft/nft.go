// Package nft installs a netpolicy.Ruleset through netlink and proves from the
// kernel's own answer that it holds exactly that ruleset and nothing else.
package nft

import (
	"errors"
	"fmt"

	"github.com/google/nftables/userdata"
	"github.com/mdlayher/netlink"

	"github.com/aisb-dev/aisb/netpolicy"
)

// ErrMismatch reports that the kernel holds something else than the ruleset.
var ErrMismatch = errors.New("packet filter in the kernel is not the one asked for")

// Count is what a rule's counter says.
type Count struct{ Packets, Bytes uint64 }

// Apply makes the table in one transaction: the kernel takes all of it or nothing, and
// nothing where there is such a table. A nil error only says that the kernel
// acknowledged what was sent, so Verify must follow.
func Apply(rs netpolicy.Ruleset) error {
	// A table of this name would be somebody else's, in a namespace as new as this one.
	// Nor does a transaction delete anything: the close of any netfilter socket would wait
	// until the kernel has freed it (nft_rcv_nl_event in net/netfilter/nf_tables_api.c),
	// which comes a grace period of RCU later, 10 ms.
	batch, err := messages(rs)
	if err != nil {
		return err
	}
	w, err := here()
	if err != nil {
		return err
	}
	defer w.Close()
	if err := commit(w.conn, 0, batch); err != nil {
		return fmt.Errorf("install packet filter: %w", err)
	}
	return nil
}

// Verify reads everything that nf_tables holds in this network namespace on a
// fresh connection and returns an error that wraps ErrMismatch unless it is
// exactly rs.
func Verify(rs netpolicy.Ruleset) error {
	_, err := Counters(rs)
	return err
}

// Counters returns the counters of rs by rule name. It verifies on the way: the
// numbers of another ruleset would mean nothing.
func Counters(rs netpolicy.Ruleset) (map[string]Count, error) {
	w, err := here()
	if err != nil {
		return nil, err
	}
	defer w.Close()
	return w.Counters(rs)
}

func counters(conn *netlink.Conn, rs netpolicy.Ruleset) (map[string]Count, error) {
	got, err := read(conn)
	if err != nil {
		return nil, fmt.Errorf("read packet filter: %w", err)
	}
	want, err := expected(rs)
	if err != nil {
		return nil, err
	}
	return compare(got, want)
}

// comment is the rule's name as nft(8) stores and shows it.
func comment(r netpolicy.Rule) []byte {
	return userdata.AppendString(nil, userdata.TypeComment, r.Name)
}
