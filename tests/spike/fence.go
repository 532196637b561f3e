//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func fenceClaims() []claim {
	return []claim{
		{"e1", "each probe is refused at once by its own rule, with the errno of the way it is refused, and the rule's counter grows by exactly the packets sent", claimProbes},
		{"e2", "without a fence no probe ends that way within 50 ms: the signature is the fence's", claimNoFence},
		{"e3", "under a drop policy without reject a TCP connect hangs, so rejects must be explicit; a UDP send fails at once either way", claimSilentDrop},
		{"e4", "TCP over IPv6 refused by ICMPv6 waits for a retransmission and counts it, so TCP must be refused by a reset", claimSlowICMP},
	}
}

// probe is one attempt, its rule and what its sender should see.
type probe struct {
	name, network, to string
	with              string // reject's way
	want              unix.Errno
}

const admin = "icmpx type admin-prohibited"

// probes use documentation addresses (RFC 5737, RFC 3849): nothing is there.
// A datagram that the output hook refuses or drops fails its own send with EPERM;
// the ICMP error is left for the socket's next call (udp(7)).
func probes() []probe {
	return []probe{
		{"tcp4-reset", "tcp4", "198.51.100.1:443", "tcp reset", unix.ECONNREFUSED},
		{"tcp4-admin", "tcp4", "198.51.100.2:443", admin, unix.EHOSTUNREACH},
		{"udp4-admin", "udp4", "198.51.100.3:53", admin, unix.EPERM},
		{"dns-tcp", "tcp4", dnsAddr + ":53", "tcp reset", unix.ECONNREFUSED},
		{"dns-udp", "udp4", dnsAddr + ":53", admin, unix.EPERM},
		{"canary", "tcp4", loopback + ":9", "tcp reset", unix.ECONNREFUSED},
		{"tcp6-reset", "tcp6", "[2001:db8::1]:443", "tcp reset", unix.ECONNREFUSED},
		{"udp6-admin", "udp6", "[2001:db8::3]:53", admin, unix.EPERM},
	}
}

// table is the fence with one counted rule a probe, as nft(8) text.
func table(probes []probe) string {
	var s strings.Builder
	s.WriteString("table inet spike {\n chain output {\n  type filter hook output priority 0; policy drop;\n  oifname lo accept\n")
	for _, p := range probes {
		host, port, _ := net.SplitHostPort(p.to)
		family := "ip"
		if strings.Contains(host, ":") {
			family = "ip6"
		}
		fmt.Fprintf(&s, "  %s daddr %s %s dport %s counter reject with %s comment %q\n",
			family, host, strings.TrimRight(p.network, "46"), port, p.with, p.name)
	}
	return s.String() + " }\n}\n"
}

// counters reads the packets of each commented rule.
func (t *trial) counters(b *box) (map[string]int, error) {
	a, _, err := b.ask(question{Op: opRun, Argv: []string{"/usr/sbin/nft", "-j", "list", "ruleset"}})
	if err != nil {
		return nil, err
	}
	var list struct {
		Nftables []struct {
			Rule struct {
				Comment string
				Expr    []struct{ Counter struct{ Packets int } }
			}
		}
	}
	if err := json.Unmarshal([]byte(a.Out), &list); err != nil {
		return nil, fmt.Errorf("%w: %s", err, a.Out)
	}
	counts := map[string]int{}
	for _, item := range list.Nftables {
		for _, e := range item.Rule.Expr {
			counts[item.Rule.Comment] += e.Counter.Packets
		}
	}
	return counts, nil
}

func claimProbes(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	all := probes()
	if _, err := t.sh(b, "nft -f - <<'END'\n"+table(all)+"END"); err != nil {
		return err
	}
	before, err := t.counters(b)
	if err != nil {
		return err
	}
	var wrong []error
	sent := map[string]int{}
	for range 2 {
		for _, p := range all {
			a, _, err := b.ask(question{Op: opDial, Net: p.network, Addr: p.to})
			if err != nil {
				return err
			}
			t.saw("%-10s %s to %-18s reject with %-27s %s", p.name, p.network, p.to, p.with, a.outcome())
			if a.Errno == unix.ENETUNREACH || a.Errno == unix.EADDRNOTAVAIL {
				continue // the family has no route here: absent, nothing was sent
			}
			sent[p.name]++
			if a.Errno != p.want || a.Micros > 50_000 {
				wrong = append(wrong, fmt.Errorf("%s: %s, not %s within 50 ms", p.name, a.outcome(), unix.ErrnoName(p.want)))
			}
		}
	}
	after, err := t.counters(b)
	if err != nil {
		return err
	}
	for _, p := range all {
		grown := after[p.name] - before[p.name]
		t.saw("%-10s attempts %d, counter grown by %d", p.name, sent[p.name], grown)
		if grown != sent[p.name] {
			wrong = append(wrong, fmt.Errorf("%s: counter grew by %d", p.name, grown))
		}
	}
	return errors.Join(wrong...)
}

func claimNoFence(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	for _, p := range probes() {
		if strings.HasPrefix(p.name, "dns") || p.name == "canary" {
			continue // pasta or the host answers these
		}
		a, _, err := b.ask(question{Op: opDial, Net: p.network, Addr: p.to})
		if err != nil {
			return err
		}
		t.saw("%-10s %s to %-18s %s", p.name, p.network, p.to, a.outcome())
		if a.Errno == p.want && a.Micros < 50_000 {
			return fmt.Errorf("%s looks the same without a fence", p.name)
		}
	}
	return nil
}

func claimSilentDrop(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	if _, err := t.sh(b, "nft -f - <<'END'\n"+table(nil)+"END"); err != nil {
		return err
	}
	for _, network := range []string{"tcp4", "udp4"} {
		a, _, err := b.ask(question{Op: opDial, Net: network, Addr: net.JoinHostPort("198.51.100.1", strconv.Itoa(443))})
		if err != nil {
			return err
		}
		t.saw("%s: %s", network, a.outcome())
	}
	return nil
}

func claimSlowICMP(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	slow := probe{"tcp6-admin", "tcp6", "[2001:db8::2]:443", admin, unix.EACCES}
	if _, err := t.sh(b, "nft -f - <<'END'\n"+table([]probe{slow})+"END"); err != nil {
		return err
	}
	a, _, err := b.ask(question{Op: opDial, Net: slow.network, Addr: slow.to})
	if err != nil {
		return err
	}
	counts, err := t.counters(b)
	t.saw("%s, counter %d", a.outcome(), counts[slow.name])
	if err == nil && a.Errno != unix.ENETUNREACH && a.Micros < 50_000 {
		err = errors.New("it is fast here")
	}
	return err
}
