package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/environ"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mounts"
	"github.com/aisb-dev/aisb/sandbox/podman"
)

func TestPastaArguments(t *testing.T) {
	good := "--config-net --map-host-loopback 169.254.1.3 --map-host-loopback fd3d:8b5a:61e7::3 --map-guest-addr none -t none -u none -T none -U none " +
		"--no-map-gw --dns-forward 169.254.1.1 --no-map-gw --quiet --netns /run/user/1000/netns/netns-1"
	for _, c := range []struct{ name, args, part string }{
		{"as podman 5.4 starts it", good, ""},
		{"ports forwarded out", strings.Replace(good, "-T none", "-T auto", 1), `"-T" is ["auto"]`},
		{"ports forwarded out as well", good + " -T 22", `"-T" is ["22" "none"]`},
		{"gateway mapped", strings.ReplaceAll(good, "--no-map-gw ", ""), "--no-map-gw"},
		{"another loopback map", strings.Replace(good, "169.254.1.3", "10.0.0.1", 1), "--map-host-loopback"},
		{"only one family mapped", strings.Replace(good, " --map-host-loopback fd3d:8b5a:61e7::3", "", 1), "--map-host-loopback"},
		{"one more loopback map", good + " --map-host-loopback 10.0.0.1", "--map-host-loopback"},
		{"guest address mapped", strings.Replace(good, "--map-guest-addr none", "", 1), "--map-guest-addr"},
		{"an option more", good + " --pcap /tmp/x", "--pcap"},
		{"an option more, joined", good + " --host-lo-to-ns-lo=x", "--host-lo-to-ns-lo"},
		{"a word more", good + " x", `unexpected argument "x"`},
		{"another forwarder", strings.Replace(good, "169.254.1.1", "10.0.0.1", 1), "--dns-forward"},
		{"cut short", good + " -t", `"-t" has no value`},
		{"nothing", "", "--map-guest-addr"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := checkPastaArgs(strings.Fields(c.args), NetAllow)
			switch {
			case c.part == "" && err != nil:
				t.Errorf("refused: %v", err)
			case c.part != "" && (err == nil || !strings.Contains(err.Error(), c.part)):
				t.Errorf("got %v, want %q in it", err, c.part)
			}
		})
	}
}

func TestRunNames(t *testing.T) {
	for dir, want := range map[string]string{
		"/home/u/My Project":           "aisb-my-project-",
		"/home/u/--x--":                "aisb-x-",
		"/home/u/日本":                   "aisb-dir-",
		"/":                            "aisb-dir-",
		"/" + strings.Repeat("a", 300): "aisb-" + strings.Repeat("a", 32) + "-",
	} {
		got := RunName(dir)
		if !strings.HasPrefix(got, want) || len(got) != len(want)+6 {
			t.Errorf("%q: got %q, want %q and 6 hex digits", dir, got, want)
		}
	}
	if first, second := RunName("/x"), RunName("/x"); first == second {
		t.Error("two runs of one directory have one name")
	}
}

func TestPaths(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	runtime := filepath.Join(top, "run", "u")
	if err := os.MkdirAll(runtime, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("run", filepath.Join(top, "var-run")); err != nil {
		t.Fatal(err)
	}
	env := func(kv map[string]string) func(string) string { return func(k string) string { return kv[k] } }
	p, err := FindPaths(env(map[string]string{
		"HOME": "/home/u", "XDG_RUNTIME_DIR": runtime, "XDG_STATE_HOME": "/s", "XDG_CACHE_HOME": "relative",
	}), os.Getuid())
	if err != nil || p.State != "/s/aisb" || p.Cache != "/home/u/.cache/aisb" || p.Runtime != runtime+"/aisb" {
		t.Errorf("got %+v, %v", p, err)
	}
	// As /var/run/user/1000 in one login and /run/user/1000 in the next.
	if same, err := FindPaths(env(map[string]string{"HOME": "/home/u", "XDG_RUNTIME_DIR": top + "/var-run/u/"}), os.Getuid()); err != nil || same.Runtime != p.Runtime {
		t.Errorf("by a link: %+v, %v", same, err)
	}
	if err := os.Chmod(runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, kv := range map[string]map[string]string{
		"open to others": {"HOME": "/home/u", "XDG_RUNTIME_DIR": runtime},
		"missing":        {"HOME": "/home/u", "XDG_RUNTIME_DIR": filepath.Join(runtime, "x")},
	} {
		if _, err := FindPaths(env(kv), os.Getuid()); !errors.Is(err, ErrNoRuntimeDir) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if _, err := FindPaths(env(nil), os.Getuid()); err == nil {
		t.Error("no HOME: accepted")
	}
}

func TestEntryBinary(t *testing.T) {
	cache := t.TempDir()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	path, err := EntryBinary(cache, self)
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		got, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || !bytes.Equal(got, want) || info.Mode().Perm() != 0o555 {
			t.Errorf("%s: %d bytes, %v, %v", when, len(got), err, serr)
		}
	}
	check("first")
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if again, err := EntryBinary(cache, self); err != nil || again != path {
		t.Fatalf("after it was spoiled: %q, %v", again, err)
	}
	check("after it was spoiled")
	// The same length, and a time of modification set back: the change time tells.
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(path, 0o755), os.WriteFile(path, make([]byte, len(want)), 0o755),
		os.Chmod(path, 0o555), os.Chtimes(path, info.ModTime(), info.ModTime())); err != nil {
		t.Fatal(err)
	}
	if again, err := EntryBinary(cache, self); err != nil || again != path {
		t.Fatalf("after it was spoiled in secret: %q, %v", again, err)
	}
	check("after it was spoiled in secret")
	memory := filepath.Join(cache, hashedName)
	for _, text := range []string{"", "{", `{"Name":"../../bin/sh"}`} {
		if err := os.WriteFile(memory, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := EntryBinary(cache, self); err != nil || again != path {
			t.Errorf("with %q remembered: %q, %v", text, again, err)
		}
	}
	other := filepath.Join(t.TempDir(), "aisb")
	if err := os.WriteFile(other, []byte("another"), 0o755); err != nil {
		t.Fatal(err)
	}
	upgraded, err := os.Open(other)
	if err != nil {
		t.Fatal(err)
	}
	defer upgraded.Close()
	if again, err := EntryBinary(cache, upgraded); err != nil || again == path {
		t.Errorf("another binary: %q, %v", again, err)
	}
	if left, err := filepath.Glob(filepath.Join(cache, ".entry-*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// spec is a plain run for the tests of lowering.
func spec() Spec {
	return Spec{
		Name: "aisb-x-000000", Image: "i", Argv: []string{"true"}, Workdir: "/project", TmpfsSize: "1g",
		Env:    []environ.Var{{Name: "KEY", Value: []byte("secret")}},
		Mounts: []mounts.Mount{{Source: "/home/u/x", Target: "/project", Dev: 7, Ino: 42}},
		Net:    NetAllow, Backend: Pasta, HomeVolume: "aisb-home",
	}
}

func TestSecretsNeverReachPodman(t *testing.T) {
	conf, err := podman.EnsureConf(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	c := spec().container("/bin/entry", conf, endpoints{})
	if args := strings.Join(c.RunArgs(), "\n"); strings.Contains(args, "secret") || strings.Contains(args, "KEY") {
		t.Errorf("podman's arguments hold the environment:\n%s", args)
	}
}

func TestLoweringOfModes(t *testing.T) {
	conf, err := podman.EnsureConf(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	at := endpoints{
		gate:     netip.MustParseAddrPort("169.254.1.3:4000"),
		canaries: []netip.AddrPort{netip.MustParseAddrPort("169.254.1.3:4001")}, key: []byte("k"),
	}
	for _, c := range []struct {
		net     NetMode
		network string
		fence   bool
		proxy   bool
		wantErr bool
	}{
		{NetAllow, "--map-host-loopback,169.254.1.3,--map-host-loopback,fd3d:8b5a:61e7::3", true, true, false},
		{NetNone, "none", true, false, false},
		{NetNoGate, "--map-host-loopback,169.254.1.3", true, false, false},
		{NetFull, "--map-host-loopback,none", false, false, false},
		{"", "", false, false, true},
		{"host", "", false, false, true},
	} {
		t.Run(string(c.net), func(t *testing.T) {
			s := spec()
			s.Net = c.net
			ctr := s.container("/bin/entry", conf, endpoints{})
			cfg, err := s.handshake(ctr, at)
			if (err != nil) != c.wantErr {
				t.Fatalf("error %v, want one: %v", err, c.wantErr)
			}
			if c.wantErr {
				return
			}
			if !strings.Contains(ctr.Network, c.network) || strings.Contains(ctr.Network, "host,") {
				t.Errorf("network %q, want %q in it", ctr.Network, c.network)
			}
			if (cfg.Fence != nil) != c.fence {
				t.Errorf("fence %v, want %v", cfg.Fence, c.fence)
			}
			if c.net == NetNone && (len(cfg.Fence.Policy.Gates) > 0 || cfg.Fence.Proof.Gate != "") {
				t.Errorf("a gate without a network: %+v", cfg.Fence)
			}
			env := string(bytes.Join(cfg.Env, []byte("\n")))
			if strings.Contains(env, "http://169.254.1.3:4000") != c.proxy || !strings.Contains(env, "KEY=secret") {
				t.Errorf("environment:\n%s", env)
			}
			i := -1
			for n, m := range cfg.Mounts {
				if m.Target == "/project" {
					i = n
				}
			}
			if i < 0 || cfg.Mounts[i] != (handshake.Mount{Target: "/project", Dev: 7, Ino: 42}) {
				t.Errorf("mounts %+v", cfg.Mounts)
			}
		})
	}
}

// With the inner backend there is no network and no open address: the gate's
// listener is made inside.
func TestLoweringOfInner(t *testing.T) {
	conf, err := podman.EnsureConf(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	s := spec()
	s.Backend = Inner
	ctr := s.container("/bin/entry", conf, endpoints{})
	cfg, err := s.handshake(ctr, endpoints{gate: innerGate, key: make([]byte, 32)})
	if err != nil {
		t.Fatal(err)
	}
	if ctr.Network != "none" {
		t.Errorf("network %q", ctr.Network)
	}
	f := cfg.Fence
	if f == nil || f.Listen != innerGate.String() || f.Proof.Gate != f.Listen || len(f.Policy.Gates) > 0 || len(f.Policy.Probes) == 0 {
		t.Errorf("fence %+v", f)
	}
	if env := string(bytes.Join(cfg.Env, []byte("\n"))); !strings.Contains(env, "http_proxy=http://127.0.0.1:3128\n") {
		t.Errorf("environment:\n%s", env)
	}
	for _, unknown := range []Backend{"", "slirp"} {
		s.Backend = unknown
		if _, err := s.handshake(ctr, endpoints{gate: innerGate}); err == nil {
			t.Errorf("backend %q is taken", unknown)
		}
	}
}

func TestRulesetText(t *testing.T) {
	text, err := RulesetText(netip.MustParseAddrPort("169.254.1.3:4000"), netip.MustParseAddrPort("169.254.1.3:4001"))
	if err != nil || !strings.Contains(text, "table inet aisb") || !strings.Contains(text, "4000") {
		t.Errorf("got %v\n%s", err, text)
	}
}

// TestConfigSurvivesTheWire holds that any byte of a value, an argument and a
// name arrives.
func TestConfigSurvivesTheWire(t *testing.T) {
	odd := "A=\xff\n\"\x01"
	in := handshake.Config{Env: [][]byte{[]byte(odd)}, Argv: []string{"x", odd}, Dir: handshake.Bytes(odd)}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	var out handshake.Config
	if err := json.Unmarshal(text, &out); err != nil || !reflect.DeepEqual(in, out) {
		t.Errorf("got %+v, %v", out, err)
	}
}
