package wire

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// The gate connects through the proxy that it is told of, with its password, and
// never through the one in the environment.
func TestUpstreamProxy(t *testing.T) {
	dns, err := fakes.StartDNS("127.0.0.1:0", fakes.Hosts(map[string][]string{"a.test": {"198.20.0.10"}}), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer dns.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	asked := make(chan *http.Request, 10)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r := bufio.NewReader(c)
				req, err := http.ReadRequest(r)
				if err != nil {
					return
				}
				asked <- req
				io.WriteString(c, "HTTP/1.1 200 OK\r\n\r\n")
				io.Copy(c, r)
			}()
		}
	}()
	t.Setenv("https_proxy", "http://127.0.0.1:1")
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	password := filepath.Join(t.TempDir(), "password")
	writeFile(t, password, "user:secret\n", 0o600)
	for _, tt := range []struct{ flags, want string }{{"", "198.20.0.10:22"}, {"--upstream-resolves", "a.test:22"}} {
		s := startStandalone(t, append([]string{
			"--allow", "a.test:22+tcp", "--resolver", dns.Addr.String(),
			"--upstream-proxy", "http://" + ln.Addr().String(), "--upstream-auth-file", password,
		}, strings.Fields(tt.flags)...)...)
		c, r, status := s.connect("a.test:22")
		if !strings.Contains(status, "200") {
			t.Fatalf("%s: %s", tt.flags, s.errs.String())
		}
		io.WriteString(c, "x\n")
		if line, err := r.ReadString('\n'); line != "x\n" {
			t.Errorf("%q, %v", line, err)
		}
		req := <-asked
		user, pass, _ := (&http.Request{Header: http.Header{"Authorization": req.Header["Proxy-Authorization"]}}).BasicAuth()
		if req.Method != http.MethodConnect || req.RequestURI != tt.want || user != "user" || pass != "secret" {
			t.Errorf("the proxy is asked %s %s by %s:%s, want %s", req.Method, req.RequestURI, user, pass, tt.want)
		}
	}
}
