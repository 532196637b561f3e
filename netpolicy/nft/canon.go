package nft

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// schema says which attributes hold attributes themselves. The kernel doesn't
// mark them (nla_nest_start_noflag), and guessing from the bytes would take
// some addresses for attributes.
type schema map[uint16]schema

// Attributes of data and verdicts (enum nft_data_attributes,
// nft_verdict_attributes in linux/netfilter/nf_tables.h).
var (
	dataSchema = schema{unix.NFTA_DATA_VERDICT: {}}
	hookSchema = schema{unix.NFTA_CHAIN_HOOK: {}}

	exprSchemas = map[string]schema{
		"cmp":       {unix.NFTA_CMP_DATA: dataSchema},
		"bitwise":   {unix.NFTA_BITWISE_MASK: dataSchema, unix.NFTA_BITWISE_XOR: dataSchema},
		"immediate": {unix.NFTA_IMMEDIATE_DATA: dataSchema},
	}
)

// canon writes attributes in one form, whoever made them: sorted by type,
// without flags, without those that are all zero. Zero is what an absent
// attribute means to nf_tables in every expression that lower makes, and the
// kernel and the library differ in which zeros they write. An attribute that
// was never asked for shows unless it is zero, so new kernels may add some.
func canon(attrs []netlink.Attribute, s schema) (string, error) {
	b, err := appendCanon(nil, attrs, s)
	return string(b), err
}

// appendCanon is canon without a string for each part: each start of a sandbox
// reads the rules back three times.
func appendCanon(b []byte, attrs []netlink.Attribute, s schema) ([]byte, error) {
	attrs = slices.Clone(attrs)
	slices.SortStableFunc(attrs, func(a, b netlink.Attribute) int {
		return int(a.Type&attrMask) - int(b.Type&attrMask)
	})
	b = append(b, '{')
	for _, a := range attrs {
		kind := a.Type & attrMask
		inner, nested := s[kind]
		if !nested && !slices.ContainsFunc(a.Data, func(c byte) bool { return c != 0 }) {
			continue
		}
		b = append(strconv.AppendUint(append(b, ' '), uint64(kind), 10), '=')
		if !nested {
			b = hex.AppendEncode(b, a.Data)
			continue
		}
		list, err := netlink.UnmarshalAttributes(a.Data)
		if err != nil {
			return nil, fmt.Errorf("decode attribute %d: %w", kind, err)
		}
		if b, err = appendCanon(b, list, inner); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// canonExpr is the one form of an expression, given as attributes. Counters
// show without their numbers, which it returns.
func canonExpr(attrs []netlink.Attribute) (text string, data []byte, err error) {
	var o = object{attrs: attrs}
	name := o.text(unix.NFTA_EXPR_NAME)
	data = o.attr(unix.NFTA_EXPR_DATA)
	for _, a := range attrs {
		if k := a.Type & attrMask; k != unix.NFTA_EXPR_NAME && k != unix.NFTA_EXPR_DATA {
			return "", nil, fmt.Errorf("expression %q has an unknown attribute %d", name, k)
		}
	}
	if name == "counter" {
		return name, data, nil
	}
	list, err := netlink.UnmarshalAttributes(data)
	if err != nil {
		return "", nil, fmt.Errorf("decode expression %q: %w", name, err)
	}
	text, err = canon(list, exprSchemas[name])
	return name + text, data, err
}
