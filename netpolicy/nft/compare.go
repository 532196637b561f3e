package nft

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

// What golang.org/x/sys lacks of linux/netfilter/nf_tables.h.
const (
	chainFlags = 10 // NFTA_CHAIN_FLAGS
	chainBase  = 1  // NFT_CHAIN_BASE

	flowtableName = 2 // NFTA_FLOWTABLE_NAME
)

// chainForm is a base chain with its rules in the one form that can be
// compared.
type chainForm struct {
	name  string
	head  string // attributes of the chain
	rules []ruleForm
}

type ruleForm struct {
	name    string // from the comment, for counters and messages
	exprs   []byte
	comment string
	count   Count
}

// form is all that the kernel must hold.
type form struct {
	sets   []setForm
	chains []chainForm
}

// expected is what read must find for rs.
func expected(rs netpolicy.Ruleset) (form, error) {
	var f form
	for _, s := range rs.Sets {
		set, err := expectedSet(s)
		if err != nil {
			return form{}, fmt.Errorf("encode set %q: %w", s.Name, err)
		}
		f.sets = append(f.sets, set)
	}
	var err error
	f.chains, err = expectedChains(rs)
	return f, err
}

func expectedChains(rs netpolicy.Ruleset) ([]chainForm, error) {
	var forms []chainForm
	for _, c := range rs.Chains {
		attrs, err := chainAttrs(c.Hook)
		if err != nil {
			return nil, err
		}
		listed, err := attrsOf(nest(attrs...))
		if err != nil {
			return nil, err
		}
		head, err := canonChain(listed)
		if err != nil {
			return nil, err
		}
		form := chainForm{name: string(c.Hook), head: head}
		for _, r := range c.Rules {
			rule := ruleForm{name: r.Name, comment: string(comment(r))}
			exprs, err := encode(c.Hook, r)
			if err != nil {
				return nil, err
			}
			for _, e := range exprs {
				if rule.exprs, _, err = appendExpr(rule.exprs, e.Data); err != nil {
					return nil, fmt.Errorf("encode rule %q: %w", r.Name, err)
				}
			}
			form.rules = append(form.rules, rule)
		}
		forms = append(forms, form)
	}
	return forms, nil
}

// canonChain leaves out what the kernel counts or numbers by itself. Of the
// flags, chainBase says what the hook says; kernels before 5.8 don't list
// it.
func canonChain(attrs []attr) (string, error) {
	attrs = slices.Clone(attrs)
	for i, a := range attrs {
		switch a.kind {
		case unix.NFTA_CHAIN_HANDLE, unix.NFTA_CHAIN_USE, unix.NFTA_CHAIN_PAD:
			attrs[i].data = nil
		case chainFlags:
			if len(a.data) == 4 {
				attrs[i].data = number(binary.BigEndian.Uint32(a.data) &^ chainBase)
			}
		}
	}
	return canon(attrs, hookSchema)
}

// compare returns the counters by rule name, or what differs.
func compare(got state, all form) (map[string]Count, error) {
	if err := compareTables(got); err != nil {
		return nil, err
	}
	if err := compareSets(got, all.sets); err != nil {
		return nil, err
	}
	want := all.chains
	if len(got.chains) != len(want) {
		return nil, mismatch("%d chains, want %d", len(got.chains), len(want))
	}
	counts := map[string]Count{}
	for _, w := range want {
		i := slices.IndexFunc(got.chains, func(o object) bool { return o.text(unix.NFTA_CHAIN_NAME) == w.name })
		if i < 0 || got.chains[i].family != unix.NFPROTO_INET {
			return nil, mismatch("chain %q is missing", w.name)
		}
		head, err := canonChain(got.chains[i].attrs)
		if err != nil || head != w.head {
			return nil, mismatch("chain %q has type, hook, priority, policy or flags %s, want %s (%v)", w.name, head, w.head, err)
		}
		if err := compareRules(got.rules, w, counts); err != nil {
			return nil, err
		}
	}
	total := 0
	for _, w := range want {
		total += len(w.rules)
	}
	if len(got.rules) != total {
		return nil, mismatch("%d rules, want %d", len(got.rules), total)
	}
	return counts, nil
}

// compareTables leaves the table's user data out, where nft(8) keeps a comment: it changes
// nothing of what matches.
func compareTables(got state) error {
	for _, t := range got.tables {
		name, flags := t.text(unix.NFTA_TABLE_NAME), t.attr(unix.NFTA_TABLE_FLAGS)
		switch {
		case t.family != unix.NFPROTO_INET || name != netpolicy.Table:
			return mismatch("foreign table %q of family %d", name, t.family)
		case len(flags) != 4 || binary.BigEndian.Uint32(flags) != 0:
			// A dormant table lists like any other and filters nothing.
			return mismatch("table %q has flags %x", name, flags)
		}
	}
	switch {
	case len(got.tables) != 1:
		return mismatch("%d tables, want 1", len(got.tables))
	case len(got.stateful) > 0:
		return mismatch("foreign object %q", got.stateful[0].text(unix.NFTA_OBJ_NAME))
	case len(got.flowtables) > 0:
		return mismatch("foreign flowtable %q", got.flowtables[0].text(flowtableName))
	}
	return nil
}

// compareRules compares the rules of one chain in their order.
func compareRules(all []object, want chainForm, counts map[string]Count) error {
	var mine []object
	for _, o := range all {
		if o.text(unix.NFTA_RULE_CHAIN) == want.name {
			mine = append(mine, o)
		}
	}
	if len(mine) != len(want.rules) {
		return mismatch("chain %q has %d rules, want %d", want.name, len(mine), len(want.rules))
	}
	for i, o := range mine {
		w := want.rules[i]
		got, err := ruleOf(o)
		switch {
		case err != nil:
			return mismatch("chain %q, rule %d (%q): %v", want.name, i+1, w.name, err)
		case !bytes.Equal(got.exprs, w.exprs):
			return mismatch("chain %q, rule %d (%q) is %q, want %q", want.name, i+1, w.name, got.exprs, w.exprs)
		case got.comment != w.comment:
			return mismatch("chain %q, rule %d has comment %q, want %q", want.name, i+1, got.comment, w.comment)
		}
		counts[w.name] = got.count
	}
	return nil
}

// ruleOf decodes a listed rule. Any attribute or expression that it doesn't
// know is an error or shows in the form: nothing is left out.
func ruleOf(o object) (ruleForm, error) {
	var r ruleForm
	for _, a := range o.attrs {
		switch a.kind {
		case unix.NFTA_RULE_TABLE, unix.NFTA_RULE_CHAIN, unix.NFTA_RULE_HANDLE, unix.NFTA_RULE_POSITION, unix.NFTA_RULE_PAD:
		case unix.NFTA_RULE_USERDATA:
			r.comment = string(a.data)
		case unix.NFTA_RULE_EXPRESSIONS:
			elems, err := attrsOf(a.data)
			if err != nil {
				return r, fmt.Errorf("decode expressions: %w", err)
			}
			for _, e := range elems {
				if err := r.add(e); err != nil {
					return r, err
				}
			}
		default:
			return r, fmt.Errorf("unknown attribute %d", a.kind)
		}
	}
	return r, nil
}

func (r *ruleForm) add(e attr) error {
	if e.kind != unix.NFTA_LIST_ELEM {
		return fmt.Errorf("decode expression: element of type %d", e.kind)
	}
	var count []byte
	var err error
	if r.exprs, count, err = appendExpr(r.exprs, e.data); err != nil || count == nil {
		return err
	}
	c := &expr.Counter{}
	if err := expr.Unmarshal(unix.NFPROTO_INET, count, c); err != nil {
		return fmt.Errorf("decode counter: %w", err)
	}
	r.count = Count{Packets: c.Packets, Bytes: c.Bytes}
	return nil
}

func mismatch(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrMismatch, fmt.Sprintf(format, args...))
}
