package policy

import (
	"errors"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// corpus is what people and programs may ask for, and some of what nobody should.
var corpus = strings.Fields(`
	a.test a.test. A.TEST x.y.a.test a_b.test -a.test xn--bcher-kva.example 1a.test a.1a
	intranet printer.local db.corp.internal internal local localhost x.localhost LOCALHOST.
	host.containers.internal x.host.containers.internal aisb.invalid control.aisb.invalid
	9.9.9.9 10.0.0.1 172.16.5.5 192.168.1.1 100.64.0.1 100.100.100.200 127.0.0.1 127.9.9.9 0.0.0.0
	169.254.1.1 169.254.169.254 168.63.129.16 192.0.2.1 198.18.0.1 224.0.0.1 255.255.255.255
	[2620:fe::fe] [::1] [::] [fd00::1] [fd00:ec2::254] [fe80::1] [2001:db8::1] [64:ff9b::808:808]
	[64:ff9b::a00:1] [::ffff:9.9.9.9] [::ffff:10.0.0.1] [::ffff:127.0.0.1] [2002:a00:1::] [ff02::1]`)

var ports = []string{"1", "22", "80", "443", "8080", "65535"}

// Every suggested rule is one, and lets the target through that it is suggested
// for, or the host's service that was meant. Where none is suggested, none would
// be taken.
func TestSuggest(t *testing.T) {
	for _, host := range corpus {
		for _, port := range ports {
			target, err := ParseAuthority(host + ":" + port)
			if err != nil {
				t.Fatalf("%s: %v", host, err)
			}
			for _, private := range []bool{false, true} {
				for _, tcp := range []bool{false, true} {
					checkSuggestion(t, target, private, tcp)
				}
			}
		}
	}
	if got := Suggest(Target{}, false, false); got != "" {
		t.Errorf("the zero target: %q", got)
	}
}

func checkSuggestion(t *testing.T, target Target, private, tcp bool) {
	t.Helper()
	rule := Suggest(target, private, tcp)
	if rule == "" {
		for _, text := range []string{target.String(), target.String() + "+private"} {
			if p, _, err := Parse([]Line{{Text: text}}, nil, Options{}); err == nil {
				t.Errorf("%s: nothing is suggested, though %q is a rule: %+v", target, text, p.Decide(target))
			}
		}
		return
	}
	p, _, err := Parse([]Line{{Text: rule}}, nil, Options{})
	if err != nil {
		t.Errorf("%s: %v", target, err)
		return
	}
	if meansHost(target) {
		target = Target{Host: ServiceHost, Port: target.Port}
	}
	d := p.Decide(target)
	if !d.Allow || tcp && !d.TCP || private && !d.Private && target.Host != ServiceHost {
		t.Errorf("%s: %q decides %+v", target, rule, d)
	}
	if target.IsAddr() && p.CheckAddr(d, target.Addr, target.Port) != d.Reason {
		t.Errorf("%s: %q does not open the address", target, rule)
	}
	if private && target.Host != ServiceHost && p.CheckAddr(d, netip.MustParseAddr("10.1.2.3"), target.Port) != d.Reason {
		t.Errorf("%s: %q does not open a private address", target, rule)
	}
}

var quoted = regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)

// Whatever is suggested instead of a wrong rule is a rule.
func checkHint(t *testing.T, text string, deny bool) {
	t.Helper()
	_, err := ParseRule(Line{Text: text, Origin: "f"}, deny)
	var e *RuleError
	if !errors.As(err, &e) {
		return
	}
	for _, q := range quoted.FindAllString(e.Suggestion, -1) {
		rule, err := strconv.Unquote(q)
		if err != nil {
			t.Errorf("%q (deny %v): the hint %q quotes badly", text, deny, e.Suggestion)
			continue
		}
		if _, err := ParseRule(Line{Text: rule, Origin: "f"}, deny); err != nil {
			t.Errorf("%q (deny %v): the hint %q fails: %v", text, deny, e.Suggestion, err)
		}
	}
}

// wrap are the forms in which hosts are written elsewhere.
var wrap = []string{
	"H", "H:P", "http://H", "http://H:P/", "https://H/a/b?c=d#e", "https://u:p@H:P/x", "ws://H:P", "ssh://git@H/x", "ssh://git@H:P/x",
	"git@H:team/x.git", "u@H", "H/path", "H:P/path", "H:path/x", ".H", "*.H", "a*.H", "a.*.H:P", "*H", "H:0", "H:http", "H:*", "H/8", "H/24:P",
	"H+tcp", "H:P+tcp+private", "H+nonsense", "H:P+upload=0", "H H", "ftp://H/", "redis://:pw@H", "://H", "http://", "@H", "H@", "http://H@/", "**",
}

func TestHintsAreRules(t *testing.T) {
	for _, form := range wrap {
		for _, host := range corpus {
			for _, port := range ports {
				text := strings.NewReplacer("H", host, "P", port).Replace(form)
				checkHint(t, text, false)
				checkHint(t, text, true)
			}
		}
	}
}

// A URL's hint allows what the URL leads to.
func TestHintOfURL(t *testing.T) {
	for _, host := range corpus {
		for _, scheme := range []string{"http", "https"} {
			for _, port := range append([]string{""}, ports...) {
				authority, want := host, 443
				if scheme == "http" {
					want = 80
				}
				if port != "" {
					authority += ":" + port
				}
				target, err := ParseHost(authority, uint16(want))
				if err != nil {
					t.Fatal(err)
				}
				_, err = ParseRule(Line{Text: scheme + "://" + authority + "/x"}, false)
				var e *RuleError
				if !errors.As(err, &e) {
					t.Fatalf("%s: a URL is taken", authority)
				}
				q := quoted.FindString(e.Suggestion)
				if q == "" {
					if rule := Suggest(target, false, false); rule != "" {
						t.Errorf("%s://%s: no hint, but there is the rule %q", scheme, authority, rule)
					}
					continue
				}
				rule, _ := strconv.Unquote(q)
				p, _, err := Parse([]Line{{Text: rule}}, nil, Options{})
				if err != nil {
					t.Fatal(err)
				}
				if meansHost(target) {
					target = Target{Host: ServiceHost, Port: target.Port}
				}
				if d := p.Decide(target); !d.Allow {
					t.Errorf("%s://%s: %q does not allow it: %s", scheme, authority, rule, d.Reason)
				}
			}
		}
	}
}

func FuzzHint(f *testing.F) {
	for _, form := range wrap {
		f.Add(form, false)
		f.Add(form, true)
	}
	f.Fuzz(func(t *testing.T, text string, deny bool) {
		checkHint(t, text, deny)
	})
}

func FuzzSuggest(f *testing.F) {
	f.Add("a.test:443", false, true)
	f.Add("[64:ff9b::1]:80", true, true)
	f.Fuzz(func(t *testing.T, text string, private, tcp bool) {
		if target, err := ParseAuthority(text); err == nil {
			checkSuggestion(t, target, private, tcp)
		}
	})
}

// What is no host but holds one is recognized, and the hint is a host.
func TestMeantTarget(t *testing.T) {
	for text, want := range map[string]string{
		"https://example.com/path":       "example.com",
		"http://example.com":             "example.com:80",
		"http://u@example.com:8080/?a=b": "example.com:8080",
		"ws://[2620:fe::fe]/":            "[2620:fe::fe]:80",
		"http://localhost:8080/":         "localhost:8080",
		"ssh://git@example.com/x":        "example.com:22",
		"git@example.com:team/x.git":     "example.com:22",
		"u@example.com":                  "example.com",
		"example.com/path":               "example.com",
		"example.com:8443/path":          "example.com:8443",
		"https://":                       "",
		"http://a:b:c/":                  "",
		"https://exa mple/":              "",
	} {
		host, is := MeantTarget(text)
		if host != want || !strings.Contains(is, "give HOST[:PORT]") {
			t.Errorf("%q: %q, %q; want %q", text, host, is, want)
		}
	}
	for _, text := range []string{"example.com", "exa%mple", "", "a:b:c"} {
		if host, is := MeantTarget(text); host != "" || is != "" {
			t.Errorf("%q: %q, %q", text, host, is)
		}
	}
}
