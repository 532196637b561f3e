package nft

import (
	"bytes"
	"strings"
	"testing"

	"github.com/mdlayher/netlink"
)

func TestAttributes(t *testing.T) {
	sent := []netlink.Attribute{{Type: 1}, {Type: 2, Data: []byte("abc")}, {Type: 0x8003, Data: []byte("abcd")}, {Type: 0x4004, Data: []byte("e")}}
	b := nest(sent...)
	for _, cut := range []int{0, 3} { // the last one's padding
		got, err := attrsOf(b[:len(b)-cut])
		if err != nil || len(got) != len(sent) {
			t.Fatalf("%d bytes less: got %v, %v", cut, got, err)
		}
		for i, a := range got {
			if a.kind != sent[i].Type&0x3fff || !bytes.Equal(a.data, sent[i].Data) {
				t.Errorf("attribute %d is %v, want %v", i, a, sent[i])
			}
		}
	}
}

func TestNoAttributes(t *testing.T) {
	for what, c := range map[string]struct {
		bytes []byte
		want  string
	}{
		"a rest":          {append(nest(netlink.Attribute{Type: 1}), 4, 0, 0), "3 bytes behind"},
		"no header":       {nest(netlink.Attribute{Type: 1, Data: number(3)}, netlink.Attribute{Type: 2})[:10], "2 bytes behind"},
		"shorter than it": {bytes.Repeat([]byte{0}, 8), "attribute of 0 bytes in 8"},
		"longer than all": {[]byte{9, 0, 1, 0, 0, 0, 0, 0}, "attribute of 9 bytes in 8"},
	} {
		if got, err := attrsOf(c.bytes); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v, want %q", what, got, err, c.want)
		}
		inside := nest(netlink.Attribute{Type: 1, Data: text("cmp")}, netlink.Attribute{Type: 2, Data: c.bytes})
		if form, _, err := appendExpr(nil, inside); err == nil {
			t.Errorf("%s: it was taken for the expression %q", what, form)
		}
	}
}
