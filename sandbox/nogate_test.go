package sandbox

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/gate/proc"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/direct"
	"github.com/aisb-dev/aisb/sandbox/podman"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// Without a gate the run has files of its own, a proof by its own listener, and no
// proxy.
func TestLoweringWithoutAGate(t *testing.T) {
	conf, err := podman.EnsureConf(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	control := netip.MustParseAddrPort("169.254.1.3:4002")
	at := endpoints{
		canaries: []netip.AddrPort{netip.MustParseAddrPort("169.254.1.3:4001")}, key: make([]byte, 32), control: control,
		peers: []netip.AddrPort{netip.MustParseAddrPort("93.184.215.14:443")}, hosts: "/s/hosts",
	}
	for _, withDNS := range []bool{false, true} {
		s := spec()
		s.Net, s.NoGate.DNS = NetNoGate, withDNS
		resolv := conf.Resolv()
		if withDNS {
			at.resolv, resolv = "/s/resolv.conf", "/s/resolv.conf"
		}
		ctr := s.container("/bin/entry", conf, at)
		for target, source := range map[string]string{"/etc/hosts": "/s/hosts", "/etc/resolv.conf": resolv} {
			i := slices.IndexFunc(ctr.Mounts, func(m podman.Mount) bool { return m.Target == target })
			if i < 0 || ctr.Mounts[i].Source != source || !ctr.Mounts[i].ReadOnly {
				t.Errorf("%s: %+v, want %s, read-only", target, ctr.Mounts, source)
			}
		}
		cfg, err := s.handshake(ctr, at)
		if err != nil {
			t.Fatal(err)
		}
		if env := string(bytes.ToLower(bytes.Join(cfg.Env, []byte("\n")))); strings.Contains(env, "proxy") {
			t.Errorf("environment:\n%s", env)
		}
		f := cfg.Fence
		if f.Proof.Control != control.String() || f.Proof.Gate != "" || len(f.Policy.Gates) > 0 || f.Policy.Direct.Resolver.IsValid() != withDNS {
			t.Errorf("fence %+v", f)
		}
		tried := slices.ContainsFunc(f.Policy.Probes, func(p netpolicy.Probe) bool { return strings.HasPrefix(p.Name, "podman-dns") })
		if tried == withDNS {
			t.Errorf("the name server is tried: %v, open: %v", tried, withDNS)
		}
		if settled := f.Settled().Direct.Peers; len(settled) != 1 || settled[0] == control {
			t.Errorf("open after the proof: %v", settled)
		}
		if _, err := netpolicy.Render(f.Policy); err != nil {
			t.Error(err)
		}
	}
}

// The proof's listener shows that it holds the key, for whatever it is asked.
func TestControlAnswers(t *testing.T) {
	d := &directSide{}
	at := endpoints{peers: []netip.AddrPort{netip.MustParseAddrPort("93.184.215.14:443")}}
	if err := d.openControl(&at); err != nil {
		t.Fatal(err)
	}
	defer func() {
		for _, l := range slices.Concat(d.controls, d.canaries) {
			l.Close()
		}
	}()
	if at.control.Addr() != HostLoopback || len(at.canaries) != len(d.controls) || slices.Contains(at.canaries, at.control) ||
		len(d.controls) == 2 && at.control6.Addr() != HostLoopback6 {
		t.Errorf("%+v", at)
	}
	req, err := http.NewRequest(http.MethodGet, "http://"+d.controls[0].Addr().String()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Aisb-Nonce", "nonce")
	resp, err := (&http.Transport{}).RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	mac := hmac.New(sha256.New, at.key)
	mac.Write([]byte("nonce"))
	if got := resp.Header.Get("X-Aisb-Proof"); resp.StatusCode != http.StatusNoContent || got != hex.EncodeToString(mac.Sum(nil)) {
		t.Errorf("%s, proof %q", resp.Status, got)
	}
	// Once it has ended nobody is there any more, and the canary is.
	d.every, d.found = time.Hour, make(chan []direct.Answer)
	d.proved()
	defer d.stop()
	if c, err := net.Dial("tcp", d.controls[0].Addr().String()); err == nil {
		c.Close()
		t.Error("it answers still")
	}
}

// What happens to names is in the run's log, in the gate's form, each once.
func TestNotes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	d := &directSide{
		file: file, log: gate.NewLog(file, "aisb-x"), book: direct.NewBook(time.Minute, 10), stop: func() {}, trouble: make(chan string, 1),
	}
	target := policy.Target{Host: "a.test", Port: 443}
	now := time.Now()
	good := direct.Answer{Target: target, Rule: "a.test", Reason: policy.Listed, Addrs: []netip.Addr{netip.MustParseAddr("93.184.215.14")}}
	bad := direct.Answer{Target: target, Rule: "a.test", Reason: policy.OwnAddress, Why: "it leads to this machine"}
	for i, a := range []direct.Answer{good, good, bad, bad, good, bad} {
		d.note(d.book.Take([]direct.Answer{a}, now.Add(time.Duration(i)*time.Minute)))
	}
	o := d.close()
	if o.Peers != 0 || len(o.Problems) != 1 || o.Problems[0] != "a.test:443 is not open: it leads to this machine (own-address)" {
		t.Errorf("%+v", o)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	for line := range strings.Lines(string(text)) {
		_, rest, _ := strings.Cut(line, `"event":"`)
		event, _, _ := strings.Cut(rest, `"`)
		events = append(events, event)
		if !strings.Contains(line, `"run":"aisb-x"`) {
			t.Error(line)
		}
	}
	if got := strings.Join(events, " "); got != "open deny shut open deny shut exit" {
		t.Errorf("events %s in\n%s", got, text)
	}
}

// With +private a rule may lead to a unique local address, but not to the one by which
// the sandbox would reach the host's loopback.
func TestMappedAddressIsNotOpened(t *testing.T) {
	s := &Session{spec: Spec{Gate: proc.Config{Allow: []policy.Line{
		{Text: "[" + HostLoopback6.String() + "]:22+private"}, {Text: "[fd00::7]:22+private"},
	}}}}
	f, err := s.finder()
	if err != nil {
		t.Fatal(err)
	}
	found := f.Find(t.Context())
	if len(found) != 2 || found[0].Allowed() || found[0].Reason != policy.OwnAddress || !found[1].Allowed() {
		t.Errorf("%+v", found)
	}
}

// Silent name servers don't hold a start up for each name: what has an answer in time is open.
func TestSilentNamesAreNotWaitedFor(t *testing.T) {
	zone := fakes.Hosts(map[string][]string{"good.test": {"93.184.215.14"}})
	lines := []policy.Line{{Text: "good.test:443"}}
	for i := range 100 {
		name := fmt.Sprintf("silent%d.test", i)
		zone[name] = fakes.Answer{Silent: true}
		lines = append(lines, policy.Line{Text: name + ":443"})
	}
	server, err := fakes.StartDNS("127.0.0.1:0", zone, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	conf, err := podman.EnsureConf(t.TempDir(), false)
	if err != nil {
		t.Fatal(err)
	}
	// On a busy machine an answer needs more than there is time for at first.
	for wait := time.Second; ; wait *= 3 {
		s := &Session{
			host: Host{Conf: conf}, dirs: RunDirs{State: t.TempDir()},
			spec: Spec{Net: NetNoGate, NoGate: NoGate{Wait: wait}, Gate: proc.Config{Allow: lines, Resolver: server.Addr.String()}},
		}
		var at endpoints
		began := time.Now()
		err := s.openDirect(t.Context(), &at)
		took := time.Since(began)
		s.direct.close()
		if err != nil && wait < 20*time.Second {
			t.Logf("within %v: %v", wait, err)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if took > wait+10*time.Second { // of 25 that the names would take
			t.Errorf("took %v of %v", took, wait)
		}
		if want := netip.MustParseAddrPort("93.184.215.14:443"); !slices.Equal(at.peers, []netip.AddrPort{want}) {
			t.Errorf("open: %v", at.peers)
		}
		return
	}
}
