package policy

import "testing"

func TestParseAuthority(t *testing.T) {
	good := map[string]string{
		"a.test:443":            "a.test:443",
		"A.Test.:1":             "a.test:1",
		"_x.a-b.test:65535":     "_x.a-b.test:65535",
		"192.0.2.1:80":          "192.0.2.1:80",
		"[2001:DB8::1]:80":      "[2001:db8::1]:80",
		"[::ffff:192.0.2.1]:80": "192.0.2.1:80",
		"localhost:80":          "localhost:80",
		"0xyz.test:80":          "0xyz.test:80",
		"1.2.3.4.test:80":       "1.2.3.4.test:80",
	}
	for in, want := range good {
		got, err := ParseAuthority(in)
		if err != nil || got.String() != want {
			t.Errorf("ParseAuthority(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
	bad := []string{
		"", ":", ":22", "a.test", "a.test:", "a.test:0", "a.test:65536", "a.test:65979", "a.test:+443", "a.test:-443",
		"a.test:0443", "a.test:443:443", "a.test: 443", "a.test:4e2", "a.test:４４３", "/_goRPC_", "*", "[::]", "[]:443",
		"[a.test]:443", "[127.0.0.1]:22", "a.test]:443", "[::1", "[::1]443", "::1:443", "[fe80::1%25eth0]:443", "[fe80::1%eth0]:443",
		"a..test:443", ".a.test:443", "a.test..:443", "..:443", ".:443", "u@a.test:443", "a.test:443@b.test:443", "a.test/x:443",
		"a.test\\b:443", "a%2etest:443", "a\x00.test:443", "a\ttest:443", "a\x7f.test:443", "ａ.test:443", "a\xff.test:443",
		"127.1:22", "0:22", "2130706433:22", "017700000001:22", "0x7f.1:22", "0xa9fea9fe:22", "127.0.0.1.:22", "0177.0.0.1:22",
		"1.2.3.4.5:22", "a.0x:22", "a.1:22",
	}
	for _, in := range bad {
		if got, err := ParseAuthority(in); err == nil {
			t.Errorf("ParseAuthority(%q) = %q, want an error", in, got)
		}
	}
}

func TestHostField(t *testing.T) {
	tests := map[string]string{
		"a.test:80": "a.test", "a.test:8080": "a.test:8080", "[2001:db8::1]:80": "[2001:db8::1]",
		"[2001:db8::1]:81": "[2001:db8::1]:81", "192.0.2.1:80": "192.0.2.1",
	}
	for in, want := range tests {
		target, err := ParseAuthority(in)
		if got := target.HostField(80); err != nil || got != want {
			t.Errorf("HostField of %q = %q, %v, want %q", in, got, err, want)
		}
	}
}
