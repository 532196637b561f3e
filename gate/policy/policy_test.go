package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// lines makes rules of texts, as from flags.
func lines(texts ...string) []Line {
	var out []Line
	for _, t := range texts {
		out = append(out, Line{Text: t, Origin: "--allow"})
	}
	return out
}

func mustParse(t testing.TB, allow, deny string) *Policy {
	t.Helper()
	p, _, err := Parse(lines(strings.Fields(allow)...), lines(strings.Fields(deny)...), Options{AllowAllNames: true})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestDecide(t *testing.T) {
	tests := []struct {
		allow, deny string
		target      string
		want        Reason
		rule        string
	}{
		{"", "", "a.test:443", NotListed, ""},
		{"a.test", "", "a.test:443", Listed, "a.test"},
		{"a.test", "", "a.test:80", Listed, "a.test"},
		{"a.test", "", "a.test:8080", PortNotListed, ""},
		{"a.test", "", "A.TEST.:443", Listed, "a.test"},
		{"A.Test.", "", "a.test:443", Listed, "A.Test."},
		{"a.test:8443", "", "a.test:8443", Listed, "a.test:8443"},
		{"a.test:8443", "", "a.test:443", PortNotListed, ""},
		{"a.test:*", "", "a.test:1", Listed, "a.test:*"},
		{"a.test a.test:22", "", "a.test:22", Listed, "a.test:22"},
		{"*.a.test", "", "a.test:443", NotListed, ""},
		{"*.a.test", "", "b.a.test:443", Listed, "*.a.test"},
		{"*.a.test", "", "c.b.a.test:443", Listed, "*.a.test"},
		{"*.a.test", "", "xa.test:443", NotListed, ""},
		{"*.a.test", "", "a.test.b.test:443", NotListed, ""},
		{"*.test *.a.test", "", "b.a.test:443", Listed, "*.a.test"},
		{"*.a.test b.a.test:22", "", "b.a.test:443", Listed, "*.a.test"},
		{"bücher.test", "", "xn--bcher-kva.test:443", Listed, "bücher.test"},
		{"*", "", "a.test:443", Listed, "*"},
		{"*", "", "a.test:22", PortNotListed, ""},
		{"*:*", "", "a.test:22", Listed, "*:*"},
		{"*:*", "", "192.0.2.1:22", IPLiteral, ""},
		{"*", "", "intranet:80", ReservedName, "*"},
		{"*", "", "printer.local:80", ReservedName, "*"},
		{"*", "", "x.internal:80", ReservedName, "*"},
		{"*", "", "localhost:80", ReservedName, ""},
		{"*", "", "foo.localhost:80", ReservedName, ""},
		{"a.test", "", "intranet:80", ReservedName, ""},
		{"intranet+private", "", "intranet:80", Listed, "intranet+private"},
		{"*.local+private", "", "printer.local:80", Listed, "*.local+private"},
		{"*:* *.internal:*+private", "", "host.containers.internal:80", ReservedName, ""},
		{"host.containers.internal:8080", "", "host.containers.internal:8080", HostService, "host.containers.internal:8080"},
		{"host.containers.internal:8080", "", "host.containers.internal:80", PortNotListed, ""},
		{"host.containers.internal:8080", "*.internal", "host.containers.internal:8080", DeniedRule, "*.internal"},
		{"9.9.9.9", "", "9.9.9.9:443", Listed, "9.9.9.9"},
		{"9.9.9.9", "", "9.9.9.9:53", IPLiteral, ""},
		{"9.9.9.9:53", "", "[::ffff:9.9.9.9]:53", Listed, "9.9.9.9:53"},
		{"9.9.9.0/24:443", "", "9.9.9.200:443", Listed, "9.9.9.0/24:443"},
		{"9.9.9.0/24:443", "", "9.9.8.200:443", IPLiteral, ""},
		{"[2606:4700::]/32:443", "", "[2606:4700::1]:443", Listed, "[2606:4700::]/32:443"},
		{"2606:4700::1", "", "[2606:4700::1]:443", Listed, "2606:4700::1"},
		{"host.containers.internal:8080", "127.0.0.1", "host.containers.internal:8080", DeniedRule, "127.0.0.1"},
		{"host.containers.internal:8080", "127.0.0.0/8:8081", "host.containers.internal:8080", HostService, "host.containers.internal:8080"},
		{"*.a.test", "b.a.test", "b.a.test:443", DeniedRule, "b.a.test"},
		{"b.a.test:8443", "b.a.test", "b.a.test:8443", DeniedRule, "b.a.test"},
		{"b.a.test:*", "b.a.test:22", "b.a.test:443", Listed, "b.a.test:*"},
		{"b.a.test:*", "b.a.test:22", "b.a.test:22", DeniedRule, "b.a.test:22"},
		{"a.test", "*", "a.test:443", DeniedRule, "*"},
		{"9.9.9.9", "*", "9.9.9.9:443", DeniedRule, "*"},
		{"9.9.9.9", "9.0.0.0/8", "9.9.9.9:443", DeniedRule, "9.0.0.0/8"},
	}
	for _, tt := range tests {
		p := mustParse(t, tt.allow, tt.deny)
		target, err := ParseAuthority(tt.target)
		if err != nil {
			t.Errorf("ParseAuthority(%q): %v", tt.target, err)
			continue
		}
		d := p.Decide(target)
		allow := tt.want == Listed || tt.want == HostService
		if d.Reason != tt.want || d.Allow != allow || d.RuleText() != tt.rule {
			t.Errorf("allow %q deny %q: Decide(%s) = %v %s %q, want %v %s %q",
				tt.allow, tt.deny, tt.target, d.Allow, d.Reason, d.RuleText(), allow, tt.want, tt.rule)
		}
	}
}

// Rules add up: what one opens, another that is more specific doesn't close.
func TestOptionsAddUp(t *testing.T) {
	p := mustParse(t, "db.corp.test *.corp.test:*+private *.test+tcp a.corp.test+upload=1MB", "")
	target := Target{Host: "db.corp.test", Port: 443}
	if d := p.Decide(target); !d.Private || !d.TCP || d.Upload != 0 || d.RuleText() != "db.corp.test" {
		t.Errorf("got %+v of %q, want private, tcp, no budget, of db.corp.test", d, d.RuleText())
	}
	if d := p.Decide(Target{Host: "a.corp.test", Port: 80}); d.Upload != 1e6 {
		t.Errorf("got a budget of %d, want that of the most specific rule", d.Upload)
	}
}

func TestZeroPolicy(t *testing.T) {
	var p Policy
	for _, target := range []Target{{Host: "a.test", Port: 443}, {Addr: netip.MustParseAddr("9.9.9.9"), Port: 443}, {Host: ServiceHost, Port: 80}, {}} {
		if d := p.Decide(target); d.Allow {
			t.Errorf("the zero policy allows %s", target)
		}
	}
	if d := (Decision{}); p.CheckAddr(d, netip.MustParseAddr("10.0.0.1"), 80) != SpecialAddress {
		t.Error("the zero decision opens a private address")
	}
}

func TestRuleErrors(t *testing.T) {
	tests := []struct{ rule, problem, suggestion string }{
		{"https://example.com/path", "is a URL", `"example.com"`},
		{"http://user@example.com:8080/", "is a URL", `"example.com:8080"`},
		{".example.com", "begins with a dot", `"*.example.com"`},
		{"foo*.example.com", `has a "*" elsewhere`, `"*.example.com"`},
		{"a.*.example.com", `has a "*" elsewhere`, `"*.example.com"`},
		{"example.*", `has a "*" elsewhere`, "each name"},
		{"example.com/path", "is neither a host nor a range", `"example.com"`},
		{"example.com example.org", "has a space", "one rule a line"},
		{"example.com:0", `bad port "0"`, `"example.com:443"`},
		{"example.com:https", `bad port "https"`, ""},
		{"example.com:99999", `bad port "99999"`, ""},
		{"a:b:c", "port", ""},
		{"example..com", "empty label", ""},
		{"exa%6dple.com", "character", ""},
		{"user@example.com", "user name", `"example.com"`},
		{"127.0.0.1:8080", "names the host itself", `"host.containers.internal:8080"`},
		{"[::1]:8080", "names the host itself", `"host.containers.internal:8080"`},
		{"localhost:8080", "names the host itself", `"host.containers.internal:8080"`},
		{"host.containers.internal", "needs a port", `host.containers.internal:8080`},
		{"host.containers.internal:*", "needs a port", `host.containers.internal:8080`},
		{"10.0.0.1:5432", "private address", `"10.0.0.1:5432+private"`},
		{"10.0.0.0/8", "without a port", `"10.0.0.0/8:443+private"`},
		{"10.0.0.0/8:443", "private address", `"10.0.0.0/8:443+private"`},
		{"9.9.9.9/24:443", "bits beyond", `"9.9.9.0/24:443"`},
		{"9.9.9.9/24", "bits beyond", `"9.9.9.0/24:443"`},
		{"10.1.2.3/8:22", "bits beyond", `"10.0.0.0/8:22+private"`},
		{"localhost", "names the host itself", "host.containers.internal:PORT"},
		{"--", "as a flag does", "write a rule after the flag"},
		{"--deny", "as a flag does", "write a rule after the flag"},
		{"localhost:22+tcp", "names the host itself", `"host.containers.internal:22+tcp"`},
		{"http://localhost:8080/x", "is a URL", `"host.containers.internal:8080"`},
		{"http://localhost", "is a URL", `"host.containers.internal:80"`},
		{"https://127.0.0.1/", "is a URL", `"host.containers.internal:443"`},
		{"http://host.containers.internal/", "is a URL", `"host.containers.internal:80"`},
		{"http://10.0.0.5:9200/_search", "is a URL", `"10.0.0.5:9200+private"`},
		{"http://printer.local/", "is a URL", `"printer.local+private"`},
		{"https://*.example.com/", "is a URL", `"*.example.com"`},
		{"ssh://git@example.com/a.git", "is a URL", `"example.com:22+tcp"`},
		{"ssh://git@example.com:2222/a.git", "is a URL", `"example.com:2222+tcp"`},
		{"postgres://u:p@db.corp.internal/x", "is a URL", `"db.corp.internal:5432+private+tcp"`},
		{"git@example.com:team/a.git", "user name", `"example.com:22+tcp"`},
		{"git@example.com:2222", "user name", `"example.com:2222"`},
		{"example.com:8443/path", "is neither", `"example.com:8443"`},
		{"localhost:3000/path", "is neither", `"host.containers.internal:3000"`},
		{"foo*.corp.local", `has a "*" elsewhere`, `"*.corp.local+private"`},
		{".corp.local", "begins with a dot", `"*.corp.local+private" or "corp.local+private"`},
		{"*example.com", `has a "*" elsewhere`, `"*.example.com"`},
		{"*..example.com", "empty label", `"*.example.com"`},
		{"example..com", "empty label", `"example.com"`},
		{`"example.com"`, "character", `"example.com"`},
		{"example.com;", "character", `"example.com"`},
		{"example.com#x", "character", `"example.com"`},
		{"example.com 8443", "space", `"example.com:8443"`},
		{"example.com +tcp", "space", `"example.com+tcp"`},
		{"allow example.com", "space", "one rule a line"},
		{"!example.com", `begins with "!"`, "--deny 'example.com'"},
		{"fe80::1%eth0", "zone", ""},
		{"a.test:443:443", "can match no name", ""},
		{"9.9.9.0/33:443", "no range", "192.0.2.0/24:443"},
		{"host.docker.internal:8080", "in another tool", `"host.containers.internal:8080"`},
		{"169.254.169.254", "metadata", ""},
		{"fd00:ec2::254+private", "metadata", ""},
		{"169.254.1.1+private", "special-purpose", ""},
		{"224.0.0.0/24:80", "special-purpose", ""},
		{"127.1:80", "number", ""},
		{"0x7f000001:80", "number", ""},
		{"*.10.0.0.1", "wildcard over an address", ""},
		{"intranet", "local name", `"intranet+private"`},
		{"*.local", "local name", `"*.local+private"`},
		{"printer.local:631", "local name", `"printer.local:631+private"`},
		{"x.aisb.invalid", "reserved", ""},
		{"a.test+privat", `unknown option "+privat"`, "+private"},
		{"a.test+upload=lots", "bad size", ""},
		{"a.test+upload=0", "bad size", ""},
		{"*", "every public name", "--allow-all-names"},
		{"*+private", "private network", "name the private hosts"},
		{"\u202ea.test", "internationalized", ""},
	}
	for _, tt := range tests {
		_, _, err := Parse([]Line{{Text: tt.rule, Origin: "rules.txt:7"}}, nil, Options{})
		var e *RuleError
		switch {
		case !errors.As(err, &e):
			t.Errorf("rule %q: got %v, want a RuleError", tt.rule, err)
		case !strings.Contains(e.Error(), tt.problem) || !strings.HasPrefix(e.Error(), "rules.txt:7: rule "):
			t.Errorf("rule %q: got %q, want it to say %q and where", tt.rule, e, tt.problem)
		case !strings.Contains(e.Suggestion, tt.suggestion):
			t.Errorf("rule %q: suggests %q, want %q in it", tt.rule, e.Suggestion, tt.suggestion)
		}
	}
	if _, _, err := Parse(nil, lines("a.test+tcp"), Options{}); err == nil {
		t.Error("a denial with options is taken")
	}
}

func TestWarnings(t *testing.T) {
	tests := []struct{ allow, deny, want string }{
		{"*.a.test", "", "does not allow a.test itself"},
		{"*.a.test a.test", "", ""},
		{"*.a.test a.test:8443", "", "does not allow a.test itself"},
		{"*.a.test:8443 a.test:8443", "", ""},
		{"*.a.test:8443+tcp a.test", "", `add "a.test:8443+tcp"`},
		{"*.b.a.test *.a.test a.test", "", ""},
		{"*.a.test", "a.test", ""},
		{"*.local+private *.internal+private", "", ""},
		{"*.corp.internal+private", "", ""},
		{"*.com", "", "everything below com"},
		{"*.github.io", "", "everything below github.io"},
		{"a.test", "a.test", "allows nothing"},
		{"a.test", "*.test", "allows nothing"},
		{"*.a.test a.test", "*.test", "allows nothing"},
		{"a.test:443", "a.test:443", "allows nothing"},
		{"a.test", "a.test:443", ""},
		{"a.test", "a.test:443 *.test:80", "allows nothing"},
		{"a.test:*", "a.test:443 a.test:80", ""},
		{"9.9.9.9", "9.0.0.0/8", "allows nothing"},
		{"9.9.9.9", "8.0.0.0/8", ""},
		{"a.test", "*", "allows nothing"},
	}
	for _, tt := range tests {
		_, warnings, err := Parse(lines(strings.Fields(tt.allow)...), lines(strings.Fields(tt.deny)...), Options{})
		if err != nil {
			t.Fatal(err)
		}
		got := fmt.Sprint(warnings)
		if tt.want == "" && len(warnings) > 0 || !strings.Contains(got, tt.want) {
			t.Errorf("allow %q deny %q: warnings %s, want %q", tt.allow, tt.deny, got, tt.want)
		}
	}
}

func TestParseLines(t *testing.T) {
	got, err := ParseLines("f", strings.NewReader("\ufeff# head\n\n a.test # why\r\nb.test#frag\n\t#x\nc.test\t#\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := "[{a.test f:3} {b.test#frag f:4} {c.test f:6}]"
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
	if _, err := ParseLines("f", strings.NewReader(strings.Repeat("x", 5000))); err == nil {
		t.Error("an endless line is taken")
	}
}

// bigPolicy has n rules of which a quarter are wildcards.
func bigPolicy(t testing.TB, n int) *Policy {
	var allow []Line
	for i := range n {
		text := fmt.Sprintf("host%d.zone%d.example.com", i, i%977)
		if i%4 == 0 {
			text = "*." + text
		}
		allow = append(allow, Line{Text: text, Origin: "f"})
	}
	p, _, err := Parse(allow, lines("*.bad.example.com"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestManyRules(t *testing.T) {
	begin := time.Now()
	p := bigPolicy(t, 100_000)
	t.Logf("100,000 rules load in %v", time.Since(begin))
	target := Target{Host: "a.b.c.host40000.zone920.example.com", Port: 443}
	if d := p.Decide(target); !d.Allow {
		t.Fatalf("%s is refused: %s", target, d.Reason)
	}
	if n := testing.AllocsPerRun(100, func() { p.Decide(target) }); n != 0 {
		t.Errorf("a decision allocates %v times, want 0", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	p := bigPolicy(b, 100_000)
	for _, host := range []string{"host1.zone1.example.com", "a.b.c.host40000.zone920.example.com", "nowhere.example.org"} {
		b.Run(host, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				p.Decide(Target{Host: host, Port: 443})
			}
		})
	}
}
