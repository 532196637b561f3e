package resolve

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestParseServer(t *testing.T) {
	good := map[string]string{
		"9.9.9.9":                            "9.9.9.9:53",
		"127.0.0.1:5353":                     "127.0.0.1:5353",
		"2620:fe::fe":                        "[2620:fe::fe]:53",
		"[2620:fe::fe]:54":                   "[2620:fe::fe]:54",
		"udp://9.9.9.9":                      "9.9.9.9:53",
		"tcp://9.9.9.9":                      "tcp://9.9.9.9:53",
		"tls://9.9.9.9":                      "tls://9.9.9.9:853",
		"tls://9.9.9.9#dns.example":          "tls://9.9.9.9:853#dns.example",
		"https://9.9.9.9":                    "https://9.9.9.9:443/dns-query",
		"https://[2620:fe::fe]:8443/q#a.exa": "https://[2620:fe::fe]:8443/q#a.exa",
		"fe80::1%eth0":                       "[fe80::1%eth0]:53",
	}
	for in, want := range good {
		s, err := ParseServer(in)
		if err != nil || s.String() != want {
			t.Errorf("ParseServer(%q) = %q, %v, want %q", in, s, err, want)
		}
		if again, err := ParseServer(s.String()); err != nil || again != s {
			t.Errorf("ParseServer(%q) = %v, %v, want %v", s, again, err, s)
		}
	}
	for _, in := range []string{"", "dns.example", "tls://dns.example", "9.9.9.9:0", "ftp://9.9.9.9", "https://u@9.9.9.9", "tcp://9.9.9.9#x", "tls://9.9.9.9/x", "9.9.9"} {
		if s, err := ParseServer(in); err == nil {
			t.Errorf("ParseServer(%q) = %v, want an error", in, s)
		}
	}
}

func TestParseConf(t *testing.T) {
	tests := []struct{ text, want string }{
		{"", "[127.0.0.1:53 [::1]:53] 2s 2"},
		{"nameserver 192.0.2.1\n", "[192.0.2.1:53] 2s 2"},
		{"# c\n; c\nsearch corp.test\nnameserver\t192.0.2.1 # x\nnameserver fe80::1%eth0\nnameserver nonsense\r\n", "[192.0.2.1:53 [fe80::1%eth0]:53] 2s 2"},
		{"nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\nnameserver 192.0.2.4\n", "[192.0.2.1:53 192.0.2.2:53 192.0.2.3:53] 2s 2"},
		{"options timeout:1 attempts:3 rotate edns0\nnameserver 192.0.2.1", "[192.0.2.1:53] 1s 3"},
		{"options timeout:90 attempts:99 use-vc\nnameserver 192.0.2.1", "[tcp://192.0.2.1:53] 5s 4"},
		{"options timeout:0 attempts:-1\nnameserver 192.0.2.1", "[192.0.2.1:53] 2s 2"},
	}
	for _, tt := range tests {
		c := ParseConf([]byte(tt.text))
		if got := fmt.Sprintf("%v %v %d", c.Servers, c.Timeout, c.Attempts); got != tt.want {
			t.Errorf("ParseConf(%q) = %s, want %s", tt.text, got, tt.want)
		}
	}
}

// An edited, replaced or vanished resolv.conf is noticed, the last by keeping
// what was known.
func TestConfFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	f := confFile{path: path}
	now := time.Now()
	read := func() string {
		now = now.Add(2 * checkEvery)
		return fmt.Sprint(f.get(now).Servers)
	}
	if got := read(); !strings.Contains(got, "127.0.0.1") {
		t.Errorf("without a file: %s", got)
	}
	os.WriteFile(path, []byte("nameserver 192.0.2.1"), 0o600)
	if got := read(); got != "[192.0.2.1:53]" {
		t.Errorf("a new file: %s", got)
	}
	os.WriteFile(path+".new", []byte("nameserver 192.0.2.2"), 0o600)
	os.Rename(path+".new", path)
	if got := read(); got != "[192.0.2.2:53]" {
		t.Errorf("a replaced file: %s", got)
	}
	os.Remove(path)
	if got := read(); got != "[192.0.2.2:53]" {
		t.Errorf("a vanished file: %s", got)
	}
}
