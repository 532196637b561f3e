package entry

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/gate/fdmsg"
	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/netpolicy/nft"
	"github.com/aisb-dev/aisb/sandbox/handshake"
)

// Reserved names that the gate answers itself.
const (
	proofDomain = ".proof.aisb.invalid"
	controlHost = "control.aisb.invalid"
	healthPath  = "/healthz"
)

// proofTimeout bounds the whole proof, so that a hanging child ends the start.
const proofTimeout = 15 * time.Second

// notToTrust is the hint of a start that went in a way that nobody can explain.
const notToTrust = "this start is not to be trusted; run it again, and report it if it stays"

// prober is the proof's child as pid 1 holds it.
type prober struct {
	cmd  *exec.Cmd
	conn *fdmsg.Conn
}

// startProber starts the child, which waits for its order. /proc/self/exe is
// the file that runs already, whatever lies at its path by now.
func startProber() (*prober, error) {
	conn, peer, err := fdmsg.Pair()
	if err != nil {
		return nil, err
	}
	defer peer.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Args = []string{Name, probeArg}
	cmd.Env = []string{"GOMAXPROCS=1"}
	cmd.ExtraFiles = []*os.File{peer} // descriptor 3
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		conn.Close()
		return nil, fmt.Errorf("start the proof's process: %w", err)
	}
	return &prober{cmd, conn}, nil
}

// become lets the child drop.
func (p *prober) become(id identity) error { return p.conn.Send(id) }

// run sends the order and waits for the account. The child ends by itself then.
func (p *prober) run(o order) (account, error) {
	p.conn.SetDeadline(time.Now().Add(proofTimeout))
	var a account
	err := p.conn.Send(o)
	if err == nil {
		err = receive(p.conn, &a)
	}
	if err != nil {
		p.cmd.Process.Kill()
		if ended := p.stop(); ended != nil {
			err = fmt.Errorf("%w; %w", err, ended)
		}
		return a, err
	}
	if a.Error != "" {
		err = errors.New(a.Error)
	}
	if err == nil && (len(a.Probes) != len(o.Probes) || len(a.Replies) != len(o.Asks)) {
		err = errors.New("its account is incomplete")
	}
	return a, err
}

// stop ends a child that is done, or was never needed.
func (p *prober) stop() error {
	p.conn.Close()
	err := p.cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return fmt.Errorf("the proof's process ended with %s", exit.ProcessState)
	}
	return err
}

// prove tries the fence by traffic.
func (e *entry) prove() *failure {
	if e.cfg.Fence == nil || e.unheld != "" {
		e.prober.stop() // ends with an error, as it got no order
		e.prober = nil
		return nil
	}
	results, f := e.proof(e.prober)
	if shut := e.settle(); f == nil {
		f = shut
	}
	if f != nil {
		return e.unfenced(f)
	}
	return e.tell(handshake.Stage{Stage: handshake.Proved, Probes: results})
}

// proberGone waits for the end of the proof's child, which has come by itself while its
// account was judged: it must be gone before anything of the image runs.
func (e *entry) proberGone() *failure {
	if e.prober == nil {
		return nil
	}
	err := e.prober.stop()
	e.prober = nil
	if err == nil || e.cfg.AllowUnenforced {
		return nil
	}
	return &failure{handshake.Proved, handshake.ExitProof, fmt.Errorf("proof of the fence: %w", err), notToTrust}
}

func (e *entry) proof(p *prober) ([]handshake.ProbeResult, *failure) {
	fail := func(err error, hint string) *failure {
		return &failure{handshake.Proved, handshake.ExitProof, fmt.Errorf("proof of the fence: %w", err), hint}
	}
	o := order{Probes: e.cfg.Fence.Policy.Probes}
	var wanted []control
	if o.Gate, wanted = controls(e.cfg.Fence.Proof); o.Gate != "" {
		for _, c := range wanted {
			o.Asks = append(o.Asks, c.ask)
		}
	}
	saw, err := p.run(o)
	if err != nil {
		return nil, fail(err, notToTrust)
	}
	after, err := nft.Counters(e.rules)
	if err != nil {
		return nil, fail(err, notToTrust)
	}
	var results []handshake.ProbeResult
	for i, probe := range o.Probes {
		grown := after[probe.Rule()].Packets - e.counted[probe.Rule()].Packets
		word, err := judge(probe, saw.Probes[i], grown, reachable)
		if err != nil {
			return nil, fail(fmt.Errorf("probe %q to %s: %w", probe.Name, probe.To, err), notToTrust)
		}
		results = append(results, handshake.ProbeResult{Name: probe.Name, Saw: word, OK: true})
	}
	if !slices.ContainsFunc(results, func(r handshake.ProbeResult) bool { return r.Saw != "absent" }) {
		if err := cutOff(); err != nil {
			return nil, fail(err, notToTrust)
		}
	}
	if len(o.Asks) == 0 {
		return results, nil
	}
	who, hint := "gate", "the gate may have ended, or pasta does not map its address to the host's loopback; aisb doctor checks both"
	if e.cfg.Fence.Proof.Gate == "" {
		who, hint = "aisb", "pasta does not map the address to the host's loopback, it seems; aisb doctor checks that"
	}
	positive, err := judgeControls(saw.Replies, e.cfg.Fence.Proof.Key, who, wanted)
	if err != nil {
		return nil, fail(fmt.Errorf("%s at %s: %w", who, o.Gate, err), hint)
	}
	return append(results, positive...), nil
}

// settle takes the proof's own listener out of what is open, and reads all back. It
// comes before anything is dropped, and whatever the proof has shown.
func (e *entry) settle() *failure {
	if e.cfg.Fence.Proof.Control == "" {
		return nil
	}
	settled, err := netpolicy.Render(e.cfg.Fence.Settled())
	if err == nil {
		err = nft.Update(e.rules, settled)
	}
	if err != nil {
		return &failure{handshake.Proved, handshake.ExitProof, fmt.Errorf("shut what the proof needed: %w", err), ""}
	}
	e.rules = settled
	return nil
}

// control is a positive control of the proof, and what its answer must be.
type control struct {
	name   string
	ask    ask
	sent   string // what the answer proves to have read
	status int
	saw    string
}

// controls are the positive controls, and where to: without them a namespace that is
// cut off entirely, or another program at that address, would pass. Only a gate has
// names to refuse.
func controls(p handshake.Proof) (to string, list []control) {
	// Lower case, as the gate reads names.
	random, nonce := strings.ToLower(rand.Text()), strings.ToLower(rand.Text())
	health := control{"control", ask{Host: controlHost, Path: healthPath, Nonce: nonce}, nonce, 204, "answered"}
	if p.Control != "" {
		return p.Control, []control{health}
	}
	return p.Gate, []control{{"unlisted-name", ask{Host: random + proofDomain, Path: "/"}, random, 403, "nonce"}, health}
}

// judge decides whether a probe was refused by its own rule. It returns a word
// for what happened, or an error.
func judge(p netpolicy.Probe, s sighting, grown uint64, reach func(netip.Addr) (bool, error)) (string, error) {
	if s.Sent == 0 {
		if grown != 0 {
			return "", fmt.Errorf("nothing was sent (%v), but its rule counted %d", s.Errno, grown)
		}
		return absent(p, s, reach)
	}
	switch wantErrno, wantLater := signature(p); {
	case s.Errno == 0 && p.Proto == netpolicy.TCP:
		return "", errors.New("it got through")
	case s.Errno != wantErrno || s.Later != wantLater:
		return "", fmt.Errorf("it failed with %q and %q, not by the fence's own %q and %q",
			s.Errno, s.Later, wantErrno, wantLater)
	case s.Micros > refusedWithin.Microseconds():
		return "", fmt.Errorf("it was refused after %d us, not within %v", s.Micros, refusedWithin)
	case grown != uint64(s.Sent):
		return "", fmt.Errorf("%d were sent, but its rule counted %d", s.Sent, grown)
	}
	return "refused", nil
}

// signature is how a refusal by the fence looks to a socket, and only that: a
// TCP reset is ECONNREFUSED; for UDP the send itself is refused (EPERM, as the
// packet is dropped in the output hook) and the ICMP message that comes back
// reads EHOSTUNREACH in IPv4 (code 13, RFC 1812) and EACCES in IPv6 (code 1).
func signature(p netpolicy.Probe) (errno, later unix.Errno) {
	switch {
	case p.Proto == netpolicy.TCP:
		return unix.ECONNREFUSED, 0
	case p.To.Addr().Is4():
		return unix.EPERM, unix.EHOSTUNREACH
	default:
		return unix.EPERM, unix.EACCES
	}
}

// absent accepts that there is no way at all to an address, when the kernel's
// routes say so too.
func absent(p netpolicy.Probe, s sighting, reach func(netip.Addr) (bool, error)) (string, error) {
	switch s.Errno {
	case unix.ENETUNREACH, unix.EAFNOSUPPORT, unix.EADDRNOTAVAIL:
	default:
		return "", fmt.Errorf("nothing could be sent: %w", s.Errno)
	}
	way, err := reach(p.To.Addr())
	if err != nil {
		return "", fmt.Errorf("read routes: %w", err)
	}
	if way {
		return "", fmt.Errorf("it failed with %q, but there is a route", s.Errno)
	}
	return "absent", nil
}

// judgeControls decides whether the one at that address is this run's gate, or its
// aisb.
func judgeControls(replies []reply, key []byte, who string, wanted []control) ([]handshake.ProbeResult, error) {
	var results []handshake.ProbeResult
	for i, c := range wanted {
		r := replies[i]
		switch {
		case r.Error != "":
			return nil, fmt.Errorf("%s: %s", c.name, r.Error)
		case r.Status != c.status:
			return nil, fmt.Errorf("%s: answered with status %d, want %d", c.name, r.Status, c.status)
		case !hmac.Equal([]byte(r.Proof), []byte(mac(key, c.sent))):
			return nil, fmt.Errorf("%s: answered by something that is not this run's %s", c.name, who)
		}
		results = append(results, handshake.ProbeResult{Name: c.name, Saw: c.saw, OK: true})
	}
	return results, nil
}

// mac is what only the holder of the run's key can answer.
func mac(key []byte, nonce string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(nonce))
	return hex.EncodeToString(h.Sum(nil))
}
