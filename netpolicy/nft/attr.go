package nft

import (
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
)

// attr is a netlink attribute as it was read.
type attr struct {
	kind uint16 // without the flags NLA_F_NESTED and NLA_F_NET_BYTEORDER
	data []byte // of the message it was read from
}

// attrMask takes the flags off (NLA_TYPE_MASK in linux/netlink.h).
const attrMask = 0x3fff

// attrHeader is the length of struct nlattr (linux/netlink.h).
const attrHeader = 4

// attrsOf splits attributes. Bytes that are none are an error.
func attrsOf(b []byte) ([]attr, error) { return appendAttrs(nil, b) }

// appendAttrs is attrsOf into room that is there. The library's function makes room for
// the list and for each value, and each start of a sandbox reads a thousand of them,
// several times.
func appendAttrs(list []attr, b []byte) ([]attr, error) {
	for len(b) > 0 {
		if len(b) < attrHeader {
			return nil, fmt.Errorf("%d bytes behind the attributes", len(b))
		}
		length, kind := int(binary.NativeEndian.Uint16(b)), binary.NativeEndian.Uint16(b[2:])
		if length < attrHeader || length > len(b) {
			return nil, fmt.Errorf("attribute of %d bytes in %d", length, len(b))
		}
		list = append(list, attr{kind & attrMask, b[attrHeader:length]})
		b = b[min(aligned(length), len(b)):] // the last one may lack its padding
	}
	return list, nil
}

// aligned is NLA_ALIGN.
func aligned(length int) int { return (length + 3) &^ 3 }

// nest writes attributes: nothing where one has 64 KiB or more, which none here has,
// and which the kernel refuses.
func nest(attrs ...netlink.Attribute) []byte {
	b, _ := netlink.MarshalAttributes(attrs)
	return b
}

// number is a value of four bytes, which is big-endian nearly everywhere in nf_tables.
func number(n uint32) []byte { return binary.BigEndian.AppendUint32(nil, n) }

// text is a value that ends with a zero byte.
func text(s string) []byte { return append([]byte(s), 0) }
