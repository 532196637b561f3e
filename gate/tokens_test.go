package gate

import (
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
)

const goodToken = "0123456789abcdef-token"

func basic(both string) string {
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(both)) + "\r\n"
}

func tokens(t *testing.T, text string) *Tokens {
	t.Helper()
	tokens, err := ParseTokens([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

// Without its token a client gets a 407 and learns nothing of the policy; with
// it, a refusal is the 403 that it always is.
func TestTokens(t *testing.T) {
	o := tcpOrigin(t, fakes.Echo)
	web := site(t, nil)
	l := startLab(t, service(o.Addr)+"+tcp "+service(web.Addr), nil, func(c *Config) {
		c.Tokens = tokens(t, "# the old one\n"+goodToken+"\n\nanother-token-of-length\n")
	})
	tests := []struct {
		name, field string
		ok          bool
	}{
		{"none", "", false},
		{"good", basic("aisb:" + goodToken), true},
		{"the second, no user", basic(":another-token-of-length"), true},
		{"scheme in other letters, two spaces", strings.Replace(basic("u:"+goodToken), "Basic ", "bAsIc  ", 1), true},
		{"wrong", basic("aisb:0123456789abcdef-tokem"), false},
		{"half", basic("aisb:" + goodToken[:10]), false},
		{"empty", basic("aisb:"), false},
		{"as user name", basic(goodToken), false},
		{"not base64", "Proxy-Authorization: Basic %%%\r\n", false},
		{"other scheme", "Proxy-Authorization: Bearer " + goodToken + "\r\n", false},
		{"origin's field", strings.TrimPrefix(basic("aisb:"+goodToken), "Proxy-"), false},
		{"twice", basic("aisb:"+goodToken) + basic("aisb:"+goodToken), false},
		{"comment of the file", basic("aisb:# the old one"), false},
	}
	for _, tt := range tests {
		for request, status := range map[string]string{
			"CONNECT " + service(o.Addr) + " HTTP/1.1\r\nHost: x\r\n":            "HTTP/1.1 200 Connection established",
			"CONNECT evil.test:443 HTTP/1.1\r\nHost: x\r\n":                      "HTTP/1.1 403 Blocked by aisb: not-listed",
			"GET http://" + service(web.Addr) + "/ HTTP/1.1\r\nHost: x\r\n":      "HTTP/1.1 200 OK",
			"GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n":                      "HTTP/1.1 403 Blocked by aisb: not-listed",
			"GET http://control.aisb.invalid/healthz HTTP/1.1\r\nHost: x\r\n":    "HTTP/1.1 204 No Content",
			"HEAD http://control.aisb.invalid/healthz HTTP/1.1\r\nHost: x\r\n":   "HTTP/1.1 405 Method Not Allowed",
			"GET http://x.proof.aisb.invalid/ HTTP/1.1\r\nHost: x\r\nX-Y: z\r\n": "HTTP/1.1 403 Forbidden",
		} {
			if !tt.ok {
				status = "HTTP/1.1 407 Proxy Authentication Required"
			}
			c := l.dial()
			c.send(request + tt.field + "\r\n")
			if got := c.head(); got != status {
				t.Errorf("%s: %q: got %s, want %s", tt.name, request, got, status)
			}
			c.Close()
		}
	}
	if len(l.dns.Log.Names()) > 0 {
		t.Errorf("names were asked for: %q", l.dns.Log.Names())
	}
	l.waitLog(func(m map[string]any) bool {
		return m["event"] == "foreign-client" && m["reason"] == "client-not-allowed" && m["host"] == "evil.test"
	})
}

// The challenge is what a client needs to ask its user; a token is not passed on.
func TestChallenge(t *testing.T) {
	got := make(chan http.Header, 1)
	web := site(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	l := startLab(t, service(web.Addr), nil, func(c *Config) { c.Tokens = tokens(t, goodToken) })
	c := l.dial()
	c.send("GET http://evil.test/ HTTP/1.1\r\nHost: x\r\n\r\n")
	answer := c.rest()
	for _, want := range []string{
		"\r\nProxy-Authenticate: Basic realm=\"aisb\"", "\r\nX-Aisb-Reason: client-not-allowed\r\n", "\r\nConnection: close\r\n", "http://aisb:TOKEN@",
	} {
		if !strings.Contains(answer, want) {
			t.Errorf("no %q in %q", want, answer)
		}
	}
	if strings.Contains(answer, "evil") || strings.Contains(answer, "--allow") {
		t.Errorf("a stranger learns of the policy: %q", answer)
	}
	c = l.dial()
	c.send("GET http://" + service(web.Addr) + "/ HTTP/1.1\r\nHost: x\r\n" + basic("a:"+goodToken) + "\r\n")
	c.head()
	if h := <-got; h.Get("Proxy-Authorization") != "" {
		t.Errorf("the origin got the token: %v", h)
	}
}

// Every request of a kept connection shows the token, and a replaced one counts
// from the next.
func TestTokensChange(t *testing.T) {
	web := site(t, nil)
	l := startLab(t, service(web.Addr), nil, func(c *Config) { c.Tokens = tokens(t, goodToken) })
	ask := "GET http://" + service(web.Addr) + "/ HTTP/1.1\r\nHost: x\r\n"
	c := l.dial()
	c.send(ask + basic("a:"+goodToken) + "\r\n" + ask + "\r\n")
	if got := c.rest(); strings.Count(got, "HTTP/1.1 200 OK") != 1 || strings.Count(got, "HTTP/1.1 407 ") != 1 {
		t.Errorf("a kept connection got %q", got)
	}
	for _, change := range []struct {
		tokens *Tokens
		want   string
	}{{tokens(t, "a-new-token-for-everyone"), "HTTP/1.1 407 "}, {nil, "HTTP/1.1 200 "}} {
		l.gate.SetTokens(change.tokens)
		c := l.dial()
		c.send(ask + basic("a:"+goodToken) + "\r\n")
		if got := c.head(); !strings.HasPrefix(got, change.want) {
			t.Errorf("after a change: %s, want %s", got, change.want)
		}
	}
}

func TestParseTokens(t *testing.T) {
	for text, want := range map[string]string{
		"":                                   "no token",
		"# nothing\n\n":                      "no token",
		"short\n":                            "line 1: a token has 16 to 256 characters",
		goodToken + "\nwith a space in it\n": "line 2: a token has printable ASCII characters alone",
		strings.Repeat("x", 257):             "line 1: a token has 16 to 256",
		"pässwörter-sind-lang":               "printable ASCII",
	} {
		if _, err := ParseTokens([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		} else if text != "" && strings.Contains(err.Error(), strings.TrimSpace(text)) {
			t.Errorf("the error shows the token: %v", err)
		}
	}
}
