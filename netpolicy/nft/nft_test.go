package nft

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/nftables"
	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/tests/need"
)

// inside marks a test binary that runs in namespaces of its own.
const inside = "AISB_TEST_NFT_INSIDE"

// inNamespaces runs body in a child of the test binary that is root in a new
// user and network namespace, as an ordinary user makes them: root, who runs the
// tests in CI, becomes nobody before that.
func inNamespaces(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	if os.Getenv(inside) != "" {
		body(t)
		return
	}
	need.UserNS(t)
	need.NFT(t)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	unshare := func(command ...string) *exec.Cmd {
		words := append([]string{"unshare", "-Urn", "--"}, command...)
		if os.Getuid() == 0 {
			words = append([]string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", "--"}, words...)
		}
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Dir = "/"                     // nobody may not be let into this one
		cmd.ExtraFiles = []*os.File{self} // nor to the test binary by its path
		cmd.Env = append(os.Environ(), inside+"=1")
		return cmd
	}
	if out, err := unshare("true").CombinedOutput(); err != nil {
		need.Missing(t, "userns", fmt.Errorf("as an ordinary user: %w: %s", err, out))
	}
	out, err := unshare("/proc/self/fd/3", "-test.run=^"+t.Name()+"$", "-test.count=1", "-test.v").CombinedOutput()
	if err == nil && strings.Contains(string(out), "--- SKIP: ") {
		need.Missing(t, "nft", fmt.Errorf("in namespaces: %s", out))
	}
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("in namespaces: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestAsAnOrdinaryUser: what the tests of this package do takes no right of the
// host's root.
func TestAsAnOrdinaryUser(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		text, err := os.ReadFile("/proc/self/uid_map")
		if err != nil {
			t.Fatal(err)
		}
		var within, outside, count int
		if _, err := fmt.Sscan(string(text), &within, &outside, &count); err != nil || within != 0 || outside == 0 || count != 1 {
			t.Errorf("the map of uids is %q: uid 0 in here must be an ordinary user's, and no other one there", text)
		}
	})
}

func nft(t *testing.T, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.Command("nft", args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nft %q: %v\n%s", args, err, out)
	}
	return string(out)
}

func ports(s ...string) []netip.AddrPort {
	var list []netip.AddrPort
	for _, p := range s {
		list = append(list, netip.MustParseAddrPort(p))
	}
	return list
}

// specs are rulesets of every form that Render knows.
func specs() map[string]netpolicy.Spec {
	probes := []netpolicy.Probe{
		{Name: "tcp", Proto: netpolicy.TCP, To: netip.MustParseAddrPort("203.0.113.1:443")},
		{Name: "tcp6", Proto: netpolicy.TCP, To: netip.MustParseAddrPort("[2001:db8::1]:443")},
		{Name: "dns", Proto: netpolicy.UDP, To: netip.MustParseAddrPort("203.0.113.1:53")},
	}
	return map[string]netpolicy.Spec{
		"nothing":  {},
		"one gate": {Gates: ports("169.254.1.3:3128"), Probes: probes},
		"both families and published": {
			Gates: ports("169.254.1.3:3128", "[fd77::1]:3128"), Publish: []uint16{8080, 1}, Probes: probes,
		},
		"sets and a resolver": {
			Direct: &netpolicy.Direct{
				Peers:    ports("93.184.215.14:443", "93.184.215.14:80", "9.9.9.9:8443", "[2606:2800::1]:443"),
				Resolver: netip.MustParseAddrPort("169.254.1.1:53"),
			},
			Probes: probes,
		},
		"empty sets": {Direct: &netpolicy.Direct{}, Probes: probes},
		// Addresses whose bytes look like netlink attributes.
		"odd addresses": {Gates: ports("4.0.1.0:1", "8.0.1.0:65535", "[400:100:400:100::]:256")},
	}
}

func render(t *testing.T, s netpolicy.Spec) netpolicy.Ruleset {
	t.Helper()
	rs, err := netpolicy.Render(s)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// removeTable removes the table, if there is one.
func removeTable(tb testing.TB) {
	tb.Helper()
	conn, err := nftables.New()
	if err != nil {
		tb.Fatal(err)
	}
	table := &nftables.Table{Name: netpolicy.Table, Family: nftables.TableFamilyINet}
	conn.AddTable(table) // or the deletion of none would fail
	conn.DelTable(table)
	if err := conn.Flush(); err != nil {
		tb.Fatal(err)
	}
}

func TestTextAndNetlinkAreTheSame(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		for name, spec := range specs() {
			rs := render(t, spec)
			nft(t, rs.String(), "-f", "-")
			byText := nft(t, "", "list", "ruleset")
			if err := Verify(rs); err != nil {
				t.Errorf("%s: installed from its text: %v", name, err)
			}
			// What is there already is somebody else's.
			if err := Apply(rs); !errors.Is(err, unix.EEXIST) || Verify(rs) != nil {
				t.Errorf("%s: applied twice: %v, and then %v", name, err, Verify(rs))
			}
			removeTable(t)
			if err := Apply(rs); err != nil {
				t.Fatalf("%s: apply: %v", name, err)
			}
			if err := Verify(rs); err != nil {
				t.Errorf("%s: installed through netlink: %v", name, err)
			}
			if byNetlink := nft(t, "", "list", "ruleset"); byNetlink != byText {
				t.Errorf("%s: through netlink:\n%s\nfrom the text:\n%s", name, byNetlink, byText)
			}
			nft(t, "flush ruleset", "-f", "-")
		}
	})
}

func TestVerifySeesEveryDifference(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		spec := specs()["both families and published"]
		rs := render(t, spec)
		text := rs.String()
		swap := func(old, new string) string {
			if strings.Count(text, old) == 0 {
				t.Fatalf("%q is not in the ruleset", old)
			}
			return strings.Replace(text, old, new, 1)
		}
		for name, script := range map[string]string{
			"dormant":           text + "table inet aisb { flags dormant; }",
			"extra rule":        text + "add rule inet aisb output accept",
			"rule first":        text + "insert rule inet aisb output accept",
			"rule in forward":   text + "add rule inet aisb forward counter accept",
			"rule removed":      swap("\t\tmeta l4proto tcp counter reject with tcp reset comment \"other tcp out\"\n", ""),
			"accept for reject": swap(`counter reject with tcp reset comment "probe tcp"`, `counter accept comment "probe tcp"`),
			"drop for reject":   swap(`reject with tcp reset comment "other tcp out"`, `drop comment "other tcp out"`),
			"other reject":      swap("admin-prohibited", "port-unreachable"),
			"other port":        swap("tcp dport 3128", "tcp dport 3129"),
			"port range":        swap("tcp dport 3128", "tcp dport 3128-3129"),
			"other address":     swap("ip daddr 169.254.1.3", "ip daddr 169.254.1.4"),
			"a net":             swap("ip daddr 169.254.1.3", "ip daddr 169.254.0.0/16"),
			"negated":           swap("ip daddr 169.254.1.3", "ip daddr != 169.254.1.3"),
			"no address":        swap("ip daddr 169.254.1.3 tcp", "meta nfproto ipv4 tcp"),
			"state new too":     swap("ct state established", "ct state established,new"),
			"other interface":   swap(`oif "lo"`, `oifname "lo*"`),
			"no counter":        swap("counter accept", "accept"),
			"log added":         swap("counter accept", "log counter accept"),
			// An expression that google/nftables leaves out of its lists.
			"unknown expression":   swap("counter accept", "rt classid 1 counter accept"),
			"limit added":          swap("counter reject", "limit rate 1/second counter reject"),
			"anonymous set":        swap("tcp dport 3128", "tcp dport { 3128, 3129 }"),
			"other comment":        swap("probe tcp\"", "probe tcq\""),
			"policy accept":        swap("policy drop", "policy accept"),
			"other priority":       swap("priority 0", "priority 1"),
			"type route":           swap("type filter hook output", "type route hook output"),
			"other hook":           swap("hook forward", "hook prerouting"),
			"chain missing":        text + "delete chain inet aisb forward",
			"extra chain":          text + "add chain inet aisb extra",
			"extra base chain":     text + "add chain inet aisb early { type filter hook output priority -10; policy accept; }",
			"foreign table":        text + "add table ip other",
			"foreign netdev":       text + "add table netdev other",
			"foreign, same name":   text + "add table ip aisb",
			"foreign chains":       text + "table ip nat {\nchain out {\ntype nat hook output priority -100\ntcp dport 443 redirect to :3128\n}\n}",
			"named set":            text + `add set inet aisb s { type ipv4_addr; elements = { 192.0.2.1 } }`,
			"named map":            text + `add map inet aisb m { type ipv4_addr : verdict; }`,
			"named counter":        text + "add counter inet aisb c",
			"another ruleset":      render(t, specs()["one gate"]).String(),
			"nothing":              "",
			"gates swapped":        render(t, netpolicy.Spec{Gates: []netip.AddrPort{spec.Gates[1], spec.Gates[0]}, Publish: spec.Publish, Probes: spec.Probes}).String(),
			"published less":       render(t, netpolicy.Spec{Gates: spec.Gates, Publish: spec.Publish[:1], Probes: spec.Probes}).String(),
			"only the empty table": "add table inet aisb",
		} {
			nft(t, "flush ruleset\n"+script, "-f", "-")
			if err := Verify(rs); !errors.Is(err, ErrMismatch) {
				t.Errorf("%s: got %v, want a mismatch", name, err)
			}
		}
		nft(t, "flush ruleset\n"+text, "-f", "-")
		if err := Verify(rs); err != nil {
			t.Errorf("the text itself: %v", err)
		}
	})
}

func TestVerifySeesAFlowtable(t *testing.T) {
	inNamespaces(t, func(t *testing.T) {
		rs := render(t, netpolicy.Spec{})
		nft(t, rs.String(), "-f", "-")
		cmd := exec.Command("nft", "add flowtable inet aisb f { hook ingress priority 0; devices = { lo }; }")
		if out, err := cmd.CombinedOutput(); err != nil {
			if !strings.Contains(string(out), "No such file or directory") {
				t.Fatalf("add a flowtable: %v: %s", err, out)
			}
			t.Log("this kernel has no flowtables (CONFIG_NF_FLOW_TABLE_INET), so nobody can add one")
			return
		}
		if err := Verify(rs); !errors.Is(err, ErrMismatch) {
			t.Errorf("got %v, want a mismatch", err)
		}
	})
}
