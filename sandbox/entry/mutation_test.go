package entry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/tests/mutants"
	"github.com/aisb-dev/aisb/tests/need"
)

// wantNoStart fails the test unless a start ended with 78 in a stage, with a hint,
// and the command did not run.
func (b *box) wantNoStart(stage handshake.StageName, part string) (said string) {
	b.t.Helper()
	o := b.stages()
	last := o.last()
	if last.Stage != stage || last.Status != handshake.ExitProof || !strings.Contains(last.Error, part) || last.Hint == "" {
		b.t.Errorf("last stage %+v, want %s 78 %q and a hint\n%s", last, stage, part, &b.stderr)
	}
	if status := b.wait(); status != handshake.ExitProof {
		b.t.Errorf("status %d, want 78", status)
	}
	if _, err := os.Stat(filepath.Join(b.layout.Project, "ran")); !errors.Is(err, fs.ErrNotExist) {
		b.t.Errorf("the command ran (%v)", err)
	}
	if len(o.files) > 0 {
		b.t.Errorf("%d descriptors came", len(o.files))
	}
	return last.Error
}

// fine is a mutation that is left to netpolicy/nft: one comparison sees these and the
// others, and a start takes its time.
func fine(m mutants.Mutant) bool {
	return m.Kind == "name" || m.Kind == "order" || m.Kind == "match" || m.Kind == "verdict" && strings.Contains(m.Name, "reject")
}

// tally counts what was tried, by kind.
type tally struct {
	mu    sync.Mutex
	kinds map[string]int
}

func (c *tally) add(kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds == nil {
		c.kinds = map[string]int{}
	}
	c.kinds[kind]++
}

// testRules is the ruleset of a box without a network.
func testRules(t *testing.T, of func(*box) handshake.Config) netpolicy.Ruleset {
	t.Helper()
	need.Root(t)
	need.UserNS(t)
	need.NFT(t)
	b := newBox(t, layout{NoNet: true})
	rs, err := netpolicy.Render(of(b).Fence.Policy)
	if err != nil {
		t.Fatal(err)
	}
	return rs
}

// Point 2: whatever single thing of the ruleset is removed or falsified in the
// kernel once it is installed, the start ends with 78 and the command doesn't run.
func TestEveryMutationStopsTheStart(t *testing.T) {
	gate := func(b *box) handshake.Config { return b.config(harnessName, "exit", "0") }
	without := func(b *box) handshake.Config { return direct(b, harnessName, "exit", "0") }
	all := mutants.All(testRules(t, gate))
	known := map[string]bool{}
	for _, m := range all {
		known[m.Name] = true
	}
	more := slices.DeleteFunc(mutants.All(testRules(t, without)), func(m mutants.Mutant) bool { return known[m.Name] })
	all = slices.DeleteFunc(append(all, more...), fine)
	var tried tally
	t.Run("all", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				b := newBox(t, layout{NoNet: true, Pause: "applied"})
				if known[m.Name] {
					b.begin(gate(b))
				} else {
					b.begin(without(b))
				}
				b.spoil(m.Script, "nft", "-f", "-")
				b.wantNoStart(handshake.Fenced, "packet filter")
				tried.add(m.Kind)
			})
		}
	})
	t.Log(mutants.Count(tried.kinds))
	for _, kind := range []string{"rule", "verdict", "set", "chain", "hook", "policy", "priority", "type", "flag", "foreign"} {
		if tried.kinds[kind] == 0 {
			t.Errorf("no mutation of kind %q was tried", kind)
		}
	}
}

// A table of the fence's name that is there before it is nobody's to replace: not even
// an empty one that would do no harm.
func TestTableThatIsThere(t *testing.T) {
	need.Root(t)
	need.UserNS(t)
	need.NFT(t)
	b := newBox(t, layout{NoNet: true, Pause: "before"})
	b.begin(b.config(harnessName, "exit", "0"))
	b.spoil("add table inet "+netpolicy.Table, "nft", "-f", "-")
	last := b.stages().last()
	if last.Stage != handshake.Fenced || last.Status != handshake.ExitFence || last.Hint != strangers {
		t.Errorf("last stage %+v\n%s", last, &b.stderr)
	}
	if status := b.wait(); status != handshake.ExitFence {
		t.Errorf("status %d, want 77", status)
	}
	if _, err := os.Stat(filepath.Join(b.layout.Project, "ran")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the command ran (%v)", err)
	}
}

// The same between the read-back and the proof, for the rules that the proof
// relies on: each probe's own.
func TestEveryProbeIsFalsified(t *testing.T) {
	probes := map[string]int{}
	var all []mutants.Mutant
	for _, m := range mutants.All(testRules(t, func(b *box) handshake.Config { return b.config(harnessName) })) {
		if strings.HasPrefix(m.Rule, "probe ") && !fine(m) {
			probes[m.Rule]++
			all = append(all, m)
		}
	}
	var tried tally
	t.Run("all", func(t *testing.T) {
		for _, m := range all {
			t.Run(m.Name, func(t *testing.T) {
				t.Parallel()
				b := newBox(t, layout{Pause: "verified"})
				cfg := b.config(harnessName, "exit", "0")
				// Of the box's own ruleset, since its gate's ports are others.
				rs, err := netpolicy.Render(cfg.Fence.Policy)
				if err != nil {
					t.Fatal(err)
				}
				b.begin(cfg)
				b.spoil(named(t, rs, m.Name).Script, "nft", "-f", "-")
				b.wantNoStart(handshake.Proved, "proof of the fence")
				tried.add(m.Kind)
			})
		}
	})
	t.Log(mutants.Count(tried.kinds))
	for rule, n := range probes {
		t.Logf("%s: %d", rule, n)
	}
	if len(probes) != 4 {
		t.Errorf("mutations of %d probes, want of all 4", len(probes))
	}
}

// named finds a mutant by its name.
func named(t *testing.T, rs netpolicy.Ruleset, name string) mutants.Mutant {
	t.Helper()
	for _, m := range mutants.All(rs) {
		if m.Name == name {
			return m
		}
	}
	t.Fatalf("no mutation is called %q", name)
	return mutants.Mutant{}
}

// counted is how a rule's counter is told that isn't what was sent: one packet, or more
// where the machine was busy and an answer late.
var counted = regexp.MustCompile(`: (\d+) were sent, but its rule counted (\d+)$`)

// A ruleset that is as it must be proves nothing where packets don't come by it,
// or others do: no read-back sees that, each probe's traffic does.
func TestTheProofIsByTraffic(t *testing.T) {
	for _, c := range []struct {
		name    string
		command []string
		part    string
	}{
		{"tcp: loopback answers", []string{"ip", "route", "add", "local", "203.0.113.1", "dev", "lo"}, `probe "tcp"`},
		{"tcp6: loopback answers", []string{"ip", "route", "add", "local", "2001:db8::1", "dev", "lo"}, `probe "tcp6"`},
		{"canary: loopback answers", []string{"ip", "route", "add", "local", "CANARY", "dev", "lo"}, "proof of the fence"},
		{"tcp: a black hole", []string{"ip", "route", "add", "blackhole", "203.0.113.1"}, `probe "tcp"`},
		{"tcp6: a black hole", []string{"ip", "route", "add", "blackhole", "2001:db8::1"}, `probe "tcp6"`},
		{"tcp: one packet more", []string{"bash", "-c", "! 2>/dev/null >/dev/tcp/203.0.113.1/443"}, `probe "tcp" to 203.0.113.1:443`},
		{"tcp6: one packet more", []string{"bash", "-c", "! 2>/dev/null >/dev/tcp/2001:db8::1/443"}, `probe "tcp6" to [2001:db8::1]:443`},
		{"dns: one packet more", []string{"bash", "-c", "! echo x 2>/dev/null >/dev/udp/203.0.113.1/53"}, `probe "dns" to 203.0.113.1:53`},
		{"canary: one packet more", []string{"bash", "-c", "! 2>/dev/null >/dev/tcp/CANARY/PORT"}, `probe "canary" to`},
		{"no way to the gate", []string{"ip", "route", "add", "blackhole", "CANARY"}, "proof of the fence"},
	} {
		t.Run(c.name, func(t *testing.T) {
			need.NFT(t)
			t.Parallel()
			b := newBox(t, layout{Pause: "verified"})
			at := strings.NewReplacer("CANARY", b.outside.canary.Addr().String(), "PORT", strings.TrimPrefix(b.outside.canary.String(), b.outside.canary.Addr().String()+":"))
			for i, word := range c.command {
				c.command[i] = at.Replace(word)
			}
			b.begin(b.config(harnessName, "exit", "0"))
			b.spoil("", c.command...)
			said := b.wantNoStart(handshake.Proved, c.part)
			if !strings.HasSuffix(c.name, "one packet more") {
				return
			}
			n := counted.FindStringSubmatch(said)
			if n == nil {
				t.Fatalf("got %q", said)
			}
			sent, serr := strconv.Atoi(n[1])
			seen, err := strconv.Atoi(n[2])
			if err := errors.Join(serr, err); err != nil || seen != sent+1 {
				t.Errorf("got %q, %v; want one packet more than were sent", said, err)
			}
		})
	}
}
