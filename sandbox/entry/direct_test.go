package entry

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

var somePeer = netip.MustParseAddrPort("93.184.215.14:443")

// direct is a configuration without a gate: what is a gate in these tests plays aisb's
// own listener.
func direct(b *box, argv ...string) handshake.Config {
	cfg := b.config(argv...)
	cfg.Fence.Policy.Gates = nil
	cfg.Fence.Policy.Direct = &netpolicy.Direct{Peers: []netip.AddrPort{somePeer, b.outside.gate}}
	cfg.Fence.Proof = handshake.Proof{Control: b.outside.gate.String(), Key: b.outside.key}
	return cfg
}

// Without a gate the proof's own listener is reached through the set, and out of it
// before the command runs. The host may then change what is open, by the socket that
// it got.
func TestDirect(t *testing.T) {
	b := newBox(t, layout{})
	cfg := direct(b, harnessName, "sleep")
	b.begin(cfg)
	o := b.started(3)
	saw := map[string]string{}
	for _, p := range o.stage(handshake.Proved).Probes {
		saw[p.Name] = p.Saw
	}
	for name, want := range map[string]string{
		"tcp": "refused", "tcp6": "refused", "dns": "refused", "canary": "refused", "control": "answered", "unlisted-name": "",
	} {
		if saw[name] != want {
			t.Errorf("probe %s saw %q, want %q", name, saw[name], want)
		}
	}
	w, err := nft.Watch(o.watch)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	settled := cfg.Fence.Settled()
	if slices.Contains(settled.Direct.Peers, b.outside.gate) || !slices.Contains(settled.Direct.Peers, somePeer) {
		t.Fatalf("settled are %v", settled.Direct.Peers)
	}
	now, err := netpolicy.Render(settled)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Counters(now); err != nil {
		t.Fatalf("what the proof needed is still open, or more: %v", err)
	}
	next, err := netpolicy.Render(settled.WithPeers([]netip.AddrPort{netip.MustParseAddrPort("93.184.215.15:443")}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Update(now, next); err != nil {
		t.Error(err)
	}
	b.conn.Close()
	b.wait()
}

// Nothing starts when what must be open can't be reached, or is not asked for.
func TestDirectOff(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*box, *handshake.Config)
		stage  handshake.StageName
		error  string
	}{
		"another listener": {func(b *box, _ *handshake.Config) { b.outside.set("wrong key") }, "proof", "not this run's aisb"},
		"sick":             {func(b *box, _ *handshake.Config) { b.outside.set("sick") }, "proof", "status 502, want 204"},
		"nobody": {func(b *box, cfg *handshake.Config) {
			at := addPort(b.outside.gate, 1)
			cfg.Fence.Policy.Direct.Peers[1], cfg.Fence.Proof.Control = at, at.String()
		}, "proof", "connection refused"},
		"control not open": {func(_ *box, cfg *handshake.Config) {
			cfg.Fence.Policy.Direct.Peers = cfg.Fence.Policy.Direct.Peers[:1]
		}, "hello", "is not open"},
		"no control": {func(_ *box, cfg *handshake.Config) { cfg.Fence.Proof.Control = "" }, "hello", `control ""`},
		"no sets":    {func(_ *box, cfg *handshake.Config) { cfg.Fence.Policy.Direct = nil }, "hello", "is not open"},
		"no key":     {func(_ *box, cfg *handshake.Config) { cfg.Fence.Proof.Key = nil }, "hello", "key of the proof"},
		"a gate as well": {func(b *box, cfg *handshake.Config) {
			cfg.Fence.Policy.Gates = []netip.AddrPort{b.outside.gate}
		}, "hello", "with a gate and without"},
		"a probe that is open": {func(b *box, cfg *handshake.Config) { cfg.Fence.Policy.Direct.Peers[0] = b.outside.canary },
			"hello", "which is open"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, layout{})
			cfg := direct(b, harnessName, "exit", "0")
			c.change(b, &cfg)
			b.begin(cfg)
			last := b.stages().last()
			if last.Stage != c.stage || last.Status != 78 || !strings.Contains(last.Error, c.error) {
				t.Errorf("last stage %+v, want %s 78 %q", last, c.stage, c.error)
			}
			if status := b.wait(); status != 78 {
				t.Errorf("status %d", status)
			}
		})
	}
}

// What a set holds beside what was asked for is seen before anything starts.
func TestDirectSpoilt(t *testing.T) {
	b := newBox(t, layout{Pause: "applied"})
	b.begin(direct(b, harnessName, "exit", "0"))
	b.spoil("", "nft", "add element inet aisb open4 { 198.51.100.7 . 443 }")
	last := b.stages().last()
	if last.Stage != handshake.Fenced || last.Status != 78 || !strings.Contains(last.Error, `set "open4" holds`) {
		t.Errorf("last stage %+v", last)
	}
	if status := b.wait(); status != 78 {
		t.Errorf("status %d", status)
	}
}

// The user who wants a start without a proof gets one in which the control is shut.
func TestDirectUnenforced(t *testing.T) {
	b := newBox(t, layout{})
	cfg := direct(b, harnessName, "sleep")
	cfg.AllowUnenforced = true
	b.outside.set("wrong key")
	b.begin(cfg)
	o := b.started(3)
	if !strings.Contains(o.stage(handshake.Proved).Warning, "not this run's aisb") {
		t.Fatalf("stages %+v", o.stages)
	}
	w, err := nft.Watch(o.watch)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	rs, err := netpolicy.Render(cfg.Fence.Settled())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Counters(rs); err != nil {
		t.Error(err)
	}
	b.conn.SetDeadline(time.Now())
	b.conn.Close()
	b.wait()
}
