package gate

import (
	"bytes"
	"crypto/tls"
	"errors"
	"net"
	"testing"

	"github.com/aisb-dev/aisb/gate/policy"
)

// clientHello is what crypto/tls sends first.
func clientHello(t testing.TB, conf *tls.Config) []byte {
	t.Helper()
	client, server := net.Pipe()
	defer server.Close()
	go func() {
		tls.Client(client, conf).Handshake() // fails when the pipe is closed
		client.Close()
	}()
	buf := make([]byte, 1<<16)
	n, err := server.Read(buf)
	if err != nil {
		t.Fatal(err)
	}
	return buf[:n]
}

// split spreads a record's payload over records of size n.
func split(record []byte, n int) []byte {
	var out []byte
	for body := record[5:]; len(body) > 0; {
		part := body[:min(n, len(body))]
		out = append(out, 22, 3, 1, byte(len(part)>>8), byte(len(part)))
		out = append(out, part...)
		body = body[len(part):]
	}
	return out
}

func TestParseHello(t *testing.T) {
	plain := clientHello(t, &tls.Config{ServerName: "A.test", NextProtos: []string{"h2", "http/1.1"}})
	noName := clientHello(t, &tls.Config{InsecureSkipVerify: true})
	tests := []struct {
		name      string
		in        []byte
		sni, alpn string
		err       error
	}{
		{"whole", plain, "A.test", "h2,http/1.1", nil},
		{"with more behind", append(bytes.Clone(plain), "more"...), "A.test", "h2,http/1.1", nil},
		{"without name", noName, "", "", nil},
		{"in records of 100", split(plain, 100), "A.test", "h2,http/1.1", nil},
		{"in records of 1", split(plain, 1), "A.test", "h2,http/1.1", nil},
		{"in too many records", append([]byte{22, 3, 1, 0, 4, 1, 0, 0x20, 0}, bytes.Repeat([]byte{22, 3, 1, 0, 1, 0}, maxRecords)...), "", "", errNotTLS},
		{"half", plain[:len(plain)/2], "", "", errMoreHello},
		{"nothing", nil, "", "", errMoreHello},
		{"ssh", []byte("SSH-2.0-x\r\n"), "", "", errNotTLS},
		{"http", []byte("G"), "", "", errNotTLS},
		{"server hello", append([]byte{22, 3, 3, 0, 50, 2}, make([]byte, 49)...), "", "", errNotTLS},
		{"alert", []byte{21, 3, 1, 0, 2, 2, 0}, "", "", errNotTLS},
		{"version 2", []byte{22, 2}, "", "", errNotTLS},
		{"empty record", []byte{22, 3, 1, 0, 0, 1}, "", "", errNotTLS},
		{"too long", []byte{22, 3, 1, 0, 10, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0}, "", "", errNotTLS},
	}
	for _, tt := range tests {
		h, _, err := parseHello(tt.in)
		if h.sni != tt.sni || h.alpn != tt.alpn || !errors.Is(err, tt.err) {
			t.Errorf("%s: got %+v, %v, want %q %q, %v", tt.name, h, err, tt.sni, tt.alpn, tt.err)
		}
	}
	// However it is cut, it is read when it is whole and no byte earlier.
	for n := range plain {
		if _, want, err := parseHello(plain[:n]); !errors.Is(err, errMoreHello) || want <= n {
			t.Fatalf("%d bytes: want %d more, %v", n, want, err)
		}
	}
}

// extensions makes a ClientHello of raw extensions.
func extensions(ext ...byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0, 0, 2, 0x13, 1, 1, 0, byte(len(ext)>>8), byte(len(ext)))
	body = append(body, ext...)
	out := []byte{22, 3, 1, 0, byte(len(body) + 4), 1, 0, 0, byte(len(body))}
	return append(out, body...)
}

// Names that a server might read otherwise are no names.
func TestAmbiguousSNI(t *testing.T) {
	one := []byte{0, 0, 0, 6, 0, 4, 0, 0, 1, 'a'}
	if h, _, err := parseHello(extensions(one...)); err != nil || h.sni != "a" {
		t.Fatalf("one name: %+v, %v", h, err)
	}
	bad := map[string][]byte{
		"twice the extension": append(bytes.Clone(one), one...),
		"two names":           {0, 0, 0, 10, 0, 8, 0, 0, 1, 'a', 0, 0, 1, 'b'},
		"other type":          {0, 0, 0, 6, 0, 4, 1, 0, 1, 'a'},
		"empty name":          {0, 0, 0, 5, 0, 3, 0, 0, 0},
		"empty list":          {0, 0, 0, 2, 0, 0},
		"bytes left over":     {0, 0, 0, 7, 0, 4, 0, 0, 1, 'a', 0},
		"short extension":     {0, 0, 0, 9, 0, 4, 0, 0, 1, 'a'},
	}
	for name, ext := range bad {
		if h, _, err := parseHello(extensions(ext...)); !errors.Is(err, errNotTLS) {
			t.Errorf("%s: %+v, %v, want not TLS", name, h, err)
		}
	}
}

func TestPlainRequest(t *testing.T) {
	target := policy.Target{Host: "a.test", Port: 80}
	tests := []struct {
		in   string
		more bool
		err  error
	}{
		{crlf("GET / HTTP/1.1", "Host: a.test", "Upgrade: websocket", ""), false, nil},
		{crlf("GET / HTTP/1.1", "Host: A.test:80", ""), false, nil},
		{"GET / HTTP/1.1\r\nHo", true, nil},
		{crlf("GET / HTTP/1.1", "Host: b.test", ""), false, refusalError{policy.SNIMismatch}},
		{crlf("GET / HTTP/1.1", "Host: a.test:81", ""), false, refusalError{policy.SNIMismatch}},
		{crlf("GET / HTTP/1.1", ""), false, refusalError{policy.NotTLS}},
		{crlf("GET / HTTP/1.0", "Host: a.test", ""), false, refusalError{policy.NotTLS}},
		{crlf("GET / HTTP/1.1", "Host: a.test", "Host: b.test", ""), false, refusalError{policy.NotTLS}},
		{"SSH-2.0-OpenSSH_9.9 x\r\n", false, refusalError{policy.NotTLS}},
		{"\x00\x01 ", false, refusalError{policy.NotTLS}},
	}
	for _, tt := range tests {
		more, err := plainRequest([]byte(tt.in), target)
		if more > 0 != tt.more || !errors.Is(err, tt.err) {
			t.Errorf("%q: got %d, %v, want %v, %v", tt.in, more, err, tt.more, tt.err)
		}
	}
}

func TestEqualFold(t *testing.T) {
	if !equalFold("A.Test", "a.test") || equalFold("\u212a.test", "k.test") || equalFold("a.test\x00", "a.test") || equalFold("a.test.", "a.test") {
		t.Error("names compare wrongly")
	}
}

// The parser asks for more until it knows, and what it takes for a whole hello
// does not change with what follows.
func FuzzParseHello(f *testing.F) {
	f.Add(clientHello(f, &tls.Config{ServerName: "a.test"}), 10)
	f.Add(extensions(0, 0, 0, 6, 0, 4, 0, 0, 1, 'a'), 3)
	f.Fuzz(func(t *testing.T, in []byte, cut int) {
		h, want, err := parseHello(in)
		switch {
		case errors.Is(err, errMoreHello) && want <= len(in):
			t.Fatalf("wants %d bytes and has %d", want, len(in))
		case err == nil:
			again, _, err := parseHello(append(bytes.Clone(in), 1, 2, 3))
			if err != nil || again != h {
				t.Fatalf("with more behind: %+v, %v, before %+v", again, err, h)
			}
		}
		// An early no stays a no.
		if cut > 0 && cut < len(in) {
			if _, _, early := parseHello(in[:cut]); errors.Is(early, errNotTLS) && err == nil {
				t.Fatalf("the first %d bytes are refused, the whole is taken", cut)
			}
		}
	})
}
