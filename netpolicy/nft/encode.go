package nft

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
)

// messages are a transaction's that makes the table of rs. It fails where there is
// one of the name (NLM_F_EXCL).
func messages(rs netpolicy.Ruleset) ([]netlink.Message, error) {
	all := []netlink.Message{
		ours(unix.NFT_MSG_NEWTABLE, netlink.Create|netlink.Excl,
			netlink.Attribute{Type: unix.NFTA_TABLE_NAME, Data: text(netpolicy.Table)},
			netlink.Attribute{Type: unix.NFTA_TABLE_FLAGS, Data: number(0)}),
	}
	for i, s := range rs.Sets {
		id := netlink.Attribute{Type: unix.NFTA_SET_ID, Data: number(uint32(i) + 1)} // the kernel wants one
		all = append(all, ours(unix.NFT_MSG_NEWSET, netlink.Create|netlink.Excl, append(setAttrs(s.SetRef), id)...))
		for _, p := range s.Peers {
			all = append(all, elementMessage(unix.NFT_MSG_NEWSETELEM, netlink.Create|netlink.Excl, s.Name, p))
		}
	}
	for _, c := range rs.Chains {
		attrs, err := chainAttrs(c.Hook)
		if err != nil {
			return nil, err
		}
		all = append(all, ours(unix.NFT_MSG_NEWCHAIN, netlink.Create|netlink.Excl, attrs...))
		for _, r := range c.Rules {
			exprs, err := encode(c.Hook, r)
			if err != nil {
				return nil, err
			}
			all = append(all, ours(unix.NFT_MSG_NEWRULE, netlink.Create|netlink.Append,
				netlink.Attribute{Type: unix.NFTA_RULE_TABLE, Data: text(netpolicy.Table)},
				netlink.Attribute{Type: unix.NFTA_RULE_CHAIN, Data: text(string(c.Hook))},
				netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_RULE_EXPRESSIONS, Data: nest(exprs...)},
				netlink.Attribute{Type: unix.NFTA_RULE_USERDATA, Data: comment(r)}))
		}
	}
	return all, nil
}

// encode makes the kernel's words of a rule's expressions. What is sent and what must
// be read back are both made of them.
func encode(h netpolicy.Hook, r netpolicy.Rule) ([]netlink.Attribute, error) {
	exprs := lower(h, r)
	list := make([]netlink.Attribute, len(exprs))
	for i, e := range exprs {
		data, err := expr.Marshal(unix.NFPROTO_INET, e)
		if err != nil {
			return nil, fmt.Errorf("encode rule %q: %w", r.Name, err)
		}
		list[i] = netlink.Attribute{Type: unix.NLA_F_NESTED | unix.NFTA_LIST_ELEM, Data: data}
	}
	return list, nil
}

// chainAttrs make a base chain of type filter, at priority 0, with policy drop. The
// kernel lists the same.
func chainAttrs(h netpolicy.Hook) ([]netlink.Attribute, error) {
	hook, err := hookNumber(h)
	if err != nil {
		return nil, err
	}
	place := nest(
		netlink.Attribute{Type: unix.NFTA_HOOK_HOOKNUM, Data: number(hook)},
		netlink.Attribute{Type: unix.NFTA_HOOK_PRIORITY, Data: number(0)},
	)
	return []netlink.Attribute{
		{Type: unix.NFTA_CHAIN_TABLE, Data: text(netpolicy.Table)},
		{Type: unix.NFTA_CHAIN_NAME, Data: text(string(h))},
		{Type: unix.NLA_F_NESTED | unix.NFTA_CHAIN_HOOK, Data: place},
		{Type: unix.NFTA_CHAIN_POLICY, Data: number(uint32(nftables.ChainPolicyDrop))},
		{Type: unix.NFTA_CHAIN_TYPE, Data: text("filter")},
	}, nil
}

// setAttrs make a set, and the kernel lists the same. The description stays empty:
// nft(8) says how long each part of a key is for intervals alone.
func setAttrs(r netpolicy.SetRef) []netlink.Attribute {
	return []netlink.Attribute{
		{Type: unix.NFTA_SET_TABLE, Data: text(netpolicy.Table)},
		{Type: unix.NFTA_SET_NAME, Data: text(r.Name)},
		{Type: unix.NFTA_SET_KEY_TYPE, Data: number(setMagic(r))},
		{Type: unix.NFTA_SET_KEY_LEN, Data: number(keyLength(r))},
		{Type: unix.NLA_F_NESTED | unix.NFTA_SET_DESC},
	}
}
