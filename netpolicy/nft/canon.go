package nft

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// schema says which attributes hold attributes themselves. The kernel doesn't
// mark them (nla_nest_start_noflag), and guessing from the bytes would take
// some addresses for attributes. What it holds as exact has a length that counts, so that
// no zero of it may be left out.
type schema map[uint16]schema

var exact schema // the zero value

// Attributes of data and verdicts (enum nft_data_attributes,
// nft_verdict_attributes in linux/netfilter/nf_tables.h).
var (
	dataSchema = schema{unix.NFTA_DATA_VALUE: exact, unix.NFTA_DATA_VERDICT: {}}
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
// Data are another matter: sixteen bytes of zero are compared with four registers,
// four bytes with one.
func canon(attrs []attr, s schema) (string, error) {
	b, err := appendCanon(nil, attrs, s)
	return string(b), err
}

// appendCanon is canon without a string for each part: each start of a sandbox
// reads the rules back three times.
func appendCanon(b []byte, attrs []attr, s schema) ([]byte, error) {
	byKind := func(a, b attr) int { return int(a.kind) - int(b.kind) }
	if !slices.IsSortedFunc(attrs, byKind) {
		attrs = slices.Clone(attrs)
		slices.SortStableFunc(attrs, byKind)
	}
	b = append(b, '{')
	for _, a := range attrs {
		inner, known := s[a.kind]
		nested := inner != nil
		if !known && !slices.ContainsFunc(a.data, func(c byte) bool { return c != 0 }) {
			continue
		}
		b = append(strconv.AppendUint(append(b, ' '), uint64(a.kind), 10), '=')
		if !nested {
			b = hex.AppendEncode(b, a.data)
			continue
		}
		var room [few]attr
		list, err := appendAttrs(room[:0], a.data)
		if err != nil {
			return nil, fmt.Errorf("decode attribute %d: %w", a.kind, err)
		}
		if b, err = appendCanon(b, list, inner); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

// few is how many attributes an expression has, or less.
const few = 8

// appendExpr adds the one form of an expression, given as attributes. Counters show
// without their numbers, which it returns as attributes.
func appendExpr(b, e []byte) (form, count []byte, err error) {
	var outer, inner [few]attr
	attrs, err := appendAttrs(outer[:0], e)
	if err != nil {
		return nil, nil, fmt.Errorf("decode expression: %w", err)
	}
	o := object{attrs: attrs}
	name := o.text(unix.NFTA_EXPR_NAME)
	data := o.attr(unix.NFTA_EXPR_DATA)
	for _, a := range attrs {
		if a.kind != unix.NFTA_EXPR_NAME && a.kind != unix.NFTA_EXPR_DATA {
			return nil, nil, fmt.Errorf("expression %q has an unknown attribute %d", name, a.kind)
		}
	}
	b = append(append(b, ' '), name...)
	if name == "counter" {
		return b, data, nil
	}
	list, err := appendAttrs(inner[:0], data)
	if err != nil {
		return nil, nil, fmt.Errorf("decode expression %q: %w", name, err)
	}
	b, err = appendCanon(b, list, exprSchemas[name])
	return b, nil, err
}
