package entry

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/sandbox/handshake"
)

func TestNothingStartsWhenSomethingIsOff(t *testing.T) {
	without := func(c int) []int {
		return slices.DeleteFunc(slices.Clone(podmanCaps), func(k int) bool { return k == c })
	}
	for name, c := range map[string]struct {
		layout layout
		change func(b *box, cfg *handshake.Config)
		stage  handshake.StageName
		status int
		error  string
	}{
		"no NET_ADMIN":         {layout: layout{Caps: without(unix.CAP_NET_ADMIN)}, stage: "fence", status: 77, error: "operation not permitted"},
		"no SETPCAP":           {layout: layout{Caps: without(unix.CAP_SETPCAP)}, stage: "proof", status: 78, error: "bounding set"},
		"no SETUID":            {layout: layout{Caps: without(unix.CAP_SETUID)}, stage: "proof", status: 78, error: "setresuid"},
		"no SETGID":            {layout: layout{Caps: without(unix.CAP_SETGID)}, stage: "proof", status: 78, error: "setgroups"},
		"foreign table before": {layout: layout{Rules: "table ip mine { }"}, stage: "fence", status: 78, error: `foreign table "mine"`},
		"gate has another key": {change: func(b *box, _ *handshake.Config) { b.outside.set("wrong key") },
			stage: "proof", status: 78, error: "not this run's gate"},
		"gate lets all through": {change: func(b *box, _ *handshake.Config) { b.outside.set("lets through") },
			stage: "proof", status: 78, error: "status 200, want 403"},
		"gate is sick": {change: func(b *box, _ *handshake.Config) { b.outside.set("sick") },
			stage: "proof", status: 78, error: "status 502, want 204"},
		"gate says nothing": {change: func(b *box, _ *handshake.Config) { b.outside.set("silent") },
			stage: "proof", status: 78, error: "answer ends early"},
		"gate is another server": {change: func(b *box, _ *handshake.Config) { b.outside.set("not http") },
			stage: "proof", status: 78, error: "not HTTP"},
		"no gate": {change: func(b *box, cfg *handshake.Config) {
			cfg.Fence.Policy.Gates[0] = addPort(b.outside.gate, 1)
			cfg.Fence.Proof.Gate = cfg.Fence.Policy.Gates[0].String()
		}, stage: "proof", status: 78, error: "connection refused"},
		"swapped mount": {change: func(_ *box, cfg *handshake.Config) { cfg.Mounts[2].Ino++ },
			stage: "fence", status: 78, error: `mount "/project" shows another`},
		"missing mount": {change: func(_ *box, cfg *handshake.Config) {
			cfg.Mounts = append(cfg.Mounts, handshake.Mount{Target: "/secrets"})
		}, stage: "fence", status: 78, error: `mount "/secrets" is missing`},
		"extra mount":    {layout: layout{Extra: []string{"/extra"}}, stage: "fence", status: 78, error: `mount "/extra" (tmpfs, "/") was not asked for`},
		"hidden mount":   {layout: layout{Extra: []string{"/project"}}, stage: "fence", status: 78, error: `two mounts lie on "/project"`},
		"writable mount": {layout: layout{Writable: true}, stage: "fence", status: 78, error: "is writable"},
		"writable root":  {layout: layout{RootRW: true}, stage: "fence", status: 78, error: "root file system is writable"},
		"new privileges": {layout: layout{NoNNP: true}, stage: "fence", status: 78, error: "no_new_privs is 0"},
		"uid not mapped": {change: func(_ *box, cfg *handshake.Config) { cfg.UID, cfg.UserMap.Inside = 5000, 5000 }, stage: "fence", status: 78, error: "uid 5000 is not mapped"},
		"not the user":   {change: func(_ *box, cfg *handshake.Config) { cfg.GroupMap.Outside = 0 }, stage: "fence", status: 78, error: "gid 1000 is not you"},
		"root":           {change: func(_ *box, cfg *handshake.Config) { cfg.UID = 0 }, stage: "hello", status: 78, error: "is root's"},
		"version":        {change: func(_ *box, cfg *handshake.Config) { cfg.Version++ }, stage: "hello", status: 78, error: "version 2 of the handshake"},
		"no probes":      {change: func(_ *box, cfg *handshake.Config) { cfg.Fence.Policy.Probes = nil }, stage: "hello", status: 78, error: "without probes"},
		"probe of the gate": {change: func(b *box, cfg *handshake.Config) { cfg.Fence.Policy.Probes[0].To = b.outside.gate },
			stage: "hello", status: 78, error: "which is open"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t, c.layout)
			cfg := b.config(harnessName, "exit", "0")
			if c.change != nil {
				c.change(b, &cfg)
			}
			b.begin(cfg)
			o := b.stages()
			last := o.last()
			if last.Stage != c.stage || last.Status != c.status || !strings.Contains(last.Error, c.error) || last.Hint == "" {
				t.Errorf("last stage %+v, want %s %d %q and a hint", last, c.stage, c.status, c.error)
			}
			if status := b.wait(); status != c.status {
				t.Errorf("status %d, want %d", status, c.status)
			}
			if _, err := os.Stat(filepath.Join(b.layout.Project, "ran")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the command ran (%v)", err)
			}
			if len(o.files) > 0 {
				t.Errorf("%d descriptors came", len(o.files))
			}
		})
	}
}
