package nft

import (
	"bytes"
	"errors"
	"testing"

	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// What nft(8) can't write, a program of its own can. A condition "not zero" for more bytes
// than the state of the connection has is met by the rest of the peer's IPv6 address
// in the registers behind it: the rule opens to connections that are new.
func TestVerifySeesLengths(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		rs := render(t, specs()["both families and published"])
		notZero := func(length int) []byte {
			b, err := expr.Marshal(unix.NFPROTO_INET, &expr.Cmp{Op: expr.CmpOpNeq, Register: register, Data: make([]byte, length)})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		for _, length := range []int{1, 2, 4, 8, 16} {
			batch, err := messages(rs)
			if err != nil {
				t.Fatal(err)
			}
			changed := false
			for i, m := range batch {
				if !bytes.Contains(m.Data, []byte("gate 2 in")) { // of IPv6
					continue
				}
				batch[i].Data = append(m.Data[:nfgenHeader:nfgenHeader], exchange(t, m.Data[nfgenHeader:], notZero(4), notZero(length))...)
				changed = true
			}
			if !changed {
				t.Fatal("there is no such rule")
			}
			removeTable(t)
			if err := commit(dial(t), 0, batch); err != nil {
				t.Fatalf("%d bytes: %v", length, err)
			}
			if err := Verify(rs); errors.Is(err, ErrMismatch) != (length != 4) {
				t.Errorf("%d bytes: %v", length, err)
			}
		}
	})
}

// exchange puts another expression in the place of one in a rule's attributes.
func exchange(t *testing.T, attrs, old, now []byte) []byte {
	t.Helper()
	all, err := attrsOf(attrs)
	if err != nil {
		t.Fatal(err)
	}
	var rule []netlink.Attribute
	for _, a := range all {
		if a.kind == unix.NFTA_RULE_EXPRESSIONS {
			exprs, err := attrsOf(a.data)
			if err != nil {
				t.Fatal(err)
			}
			var list []netlink.Attribute
			for _, e := range exprs {
				if bytes.Equal(e.data, old) {
					e.data = now
				}
				list = append(list, netlink.Attribute{Type: unix.NLA_F_NESTED | e.kind, Data: e.data})
			}
			a.data = nest(list...)
		}
		rule = append(rule, netlink.Attribute{Type: a.kind, Data: a.data})
	}
	return nest(rule...)
}

// A refused transaction has several answers: of each part that was refused, and of the last
// one. None of them may pass for the answer to what is asked next.
func TestAfterARefusal(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		spec := specs()["empty sets"]
		from, to := render(t, spec), render(t, spec.WithPeers(ports("198.51.100.7:443", "198.51.100.8:443")))
		twice := func() []netlink.Message {
			batch, err := changes(from, to)
			if err != nil {
				t.Fatal(err)
			}
			return append(batch[:1:1], batch...)
		}
		if err := Apply(from); err != nil {
			t.Fatal(err)
		}
		w, err := here()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		for range 3 {
			if err := commit(w.conn, 0, twice()); !errors.Is(err, unix.EEXIST) {
				t.Errorf("an element twice: %v", err)
			}
			if _, err := w.Counters(from); err != nil {
				t.Errorf("read by the same socket: %v", err)
			}
			if err := commit(w.conn, 0, twice()); !errors.Is(err, unix.EEXIST) {
				t.Errorf("an element twice, again: %v", err)
			}
		}
		if _, err := w.Update(from, to); err != nil {
			t.Error(err)
		}
		// The library's own socket keeps what was not read.
		conn := dial(t)
		if err := Update(to, from); err != nil {
			t.Fatal(err)
		}
		if err := commit(conn, 0, twice()); !errors.Is(err, unix.EEXIST) {
			t.Errorf("an element twice: %v", err)
		}
		if err := commit(conn, 0, twice()); err == nil {
			t.Error("the answer to another transaction passes for this one's")
		}
	})
}
