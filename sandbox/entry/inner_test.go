package entry

import (
	"net"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

const innerAddr = "127.0.0.1:3128"

// inner is a configuration with the gate's listener inside.
func inner(b *box, argv ...string) handshake.Config {
	cfg := b.config(argv...)
	cfg.Fence.Policy.Gates = nil
	cfg.Fence.Listen, cfg.Fence.Proof.Gate = innerAddr, innerAddr
	return cfg
}

// cutOffBox is a box without any network, as podman's --network=none makes it.
func cutOffBox(t *testing.T, l layout) *box {
	b := newBox(t, l)
	b.outside.ip(t, b.cmd.Process.Pid, "link", "del", "inner")
	return b
}

// With the inner backend no packet has a way, and the gate answers on the
// listener that was handed out.
func TestInnerGate(t *testing.T) {
	b := cutOffBox(t, layout{})
	b.begin(inner(b, harnessName, "report"))
	o := b.started(3)
	if names(o) != "apply fence listen proof drop stdio start" {
		t.Fatalf("stages %q", names(o))
	}
	saw := map[string]string{}
	for _, p := range o.stage(handshake.Proved).Probes {
		saw[p.Name] = p.Saw
	}
	for name, want := range map[string]string{
		"tcp": "absent", "tcp6": "absent", "dns": "absent", "canary": "absent", "unlisted-name": "nonce", "control": "answered",
	} {
		if saw[name] != want {
			t.Errorf("probe %s saw %q, want %q", name, saw[name], want)
		}
	}
	// pid 1 keeps nothing of the listener, nor does the command.
	if r := readReport(t, o.files[1]); r.Self["CapBnd"] != "0000000000000000" || len(r.Descriptors) > 3 {
		t.Errorf("%+v", r)
	}
	b.wait()
}

// Nothing starts when the inner backend isn't what it must be.
func TestInnerGateOff(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*box, *handshake.Config)
		stage  handshake.StageName
		status int
		error  string
	}{
		"another gate": {change: func(b *box, _ *handshake.Config) { b.outside.set("wrong key") },
			stage: "proof", status: 78, error: "not this run's gate"},
		"gate lets all through": {change: func(b *box, _ *handshake.Config) { b.outside.set("lets through") },
			stage: "proof", status: 78, error: "status 200, want 403"},
		"gate says nothing": {change: func(b *box, _ *handshake.Config) { b.outside.set("silent") },
			stage: "proof", status: 78, error: "answer ends early"},
		"not loopback": {change: func(_ *box, cfg *handshake.Config) {
			cfg.Fence.Listen, cfg.Fence.Proof.Gate = "0.0.0.0:3128", "0.0.0.0:3128"
		}, stage: "hello", status: 78, error: "on loopback"},
		"open gate as well": {change: func(b *box, cfg *handshake.Config) {
			cfg.Fence.Policy.Gates = append(cfg.Fence.Policy.Gates, b.outside.gate)
		},
			stage: "hello", status: 78, error: "one outside"},
		"address that isn't there": {change: func(_ *box, cfg *handshake.Config) {
			cfg.Fence.Listen, cfg.Fence.Proof.Gate = "[::1]:0", "[::1]:0"
		}, stage: "proof", status: 78, error: "connection refused"},
	} {
		t.Run(name, func(t *testing.T) {
			b := cutOffBox(t, layout{})
			cfg := inner(b, harnessName, "exit", "0")
			c.change(b, &cfg)
			b.begin(cfg)
			last := b.stages().last()
			if last.Stage != c.stage || last.Status != c.status || !strings.Contains(last.Error, c.error) {
				t.Errorf("last stage %+v, want %s %d %q", last, c.stage, c.status, c.error)
			}
			if status := b.wait(); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
		})
	}
}

// A network that nobody asked for, with the gate inside: the fence still refuses
// everything, by its own rules.
func TestInnerGateWithANetwork(t *testing.T) {
	b := newBox(t, layout{})
	b.begin(inner(b, harnessName, "exit", "5"))
	o := b.started(3)
	if status := b.wait(); status != 5 {
		t.Fatalf("status %d, stages %+v", status, o.stages)
	}
	for _, p := range o.stage(handshake.Proved).Probes {
		if p.Saw == "absent" {
			t.Errorf("%+v", p)
		}
	}
	if conn, err := net.Dial("tcp", innerAddr); err == nil {
		conn.Close() // the listener is the box's, not this namespace's
		t.Error("the gate's listener can be reached from outside")
	}
}
