package main

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/gate/policy"
	"github.com/aisb-dev/aisb/sandbox"
)

// Bounds of the receipt: the log has the rest.
const (
	receiptHosts    = 5
	receiptRefusals = 5
)

// notReached are the reasons that are no refusal: the host was allowed.
var notReached = []policy.Reason{policy.NXDomain, policy.DNSFailure, policy.DialFailure, policy.UpstreamFailure}

// receipt says in a line or a few what a run did and where to look.
func receipt(u *ui, spec sandbox.Spec, r sandbox.Result, ran time.Duration) {
	u.notef("%s", strings.Join(receiptParts(spec, r, ran), "; "))
	for _, line := range refusalLines(r.Report) {
		u.notef("%s", line)
	}
	if r.Report.Canary > 0 {
		u.warnf("%d connections came past the fence to the host's loopback: please report this", r.Report.Canary)
	}
	if r.Report.Foreign > 0 {
		u.warnf("%d connections to the gate came from outside this sandbox and were refused", r.Report.Foreign)
	}
	if r.Report.Unlogged > 0 {
		u.warnf("the log lacks %s that could not be written", plural(r.Report.Unlogged, "line", "lines"))
	}
	plantedLines(u, r.Planted)
	if r.Foreign > 0 {
		u.warnf("%s to published ports came from other users of this machine, all refused", plural(int(r.Foreign), "connection", "connections"))
	}
	for _, problem := range r.Opened.Problems {
		u.notef("%s", problem)
	}
	if len(r.Report.Refusals)+len(r.Opened.Problems) > 0 {
		u.notef("log: %s", r.Log)
	}
	if r.Err != nil && !errors.Is(r.Err, sandbox.ErrNoStatus) {
		u.warnf("%v", r.Err)
	}
}

// receiptParts are the facts of the first line.
func receiptParts(spec sandbox.Spec, r sandbox.Result, ran time.Duration) []string {
	parts := []string{fmt.Sprintf("ended after %s with status %d", round(ran), r.Status)}
	if r.Stopped == nil && (r.Status == 77 || r.Status == 78) {
		parts[0] += " (the command's own, not the fence's)"
	}
	parts = append(parts, fenceText(spec, r))
	if r.Joined != nil {
		parts = append(parts, "it shared files with "+strings.Join(r.Joined, ", "))
	}
	if r.GateDied {
		parts = append(parts, "the gate had ended before")
	}
	if r.NoPasta {
		parts = append(parts, "pasta had ended before")
	}
	if spec.Net == sandbox.NetNoGate {
		parts = append(parts, openedText(r.Opened))
	}
	if r.Direct > 0 {
		parts = append(parts, "the fence refused "+plural(int(r.Direct), "packet", "packets")+" that went past the gate")
	}
	if text := reachedText(r.Report); text != "" {
		parts = append(parts, text)
	}
	return parts
}

func fenceText(spec sandbox.Spec, r sandbox.Result) string {
	if spec.Net == sandbox.NetFull {
		return "no fence"
	}
	ok := 0
	for _, p := range r.Proof {
		if p.OK {
			ok++
		}
	}
	if len(r.Proof) == 0 {
		return "fence not proved"
	}
	return fmt.Sprintf("fence proved by %d of %d probes", ok, len(r.Proof))
}

// reachedText names the hosts that were reached, most bytes first.
func reachedText(r gate.Report) string {
	var hosts []string
	for i, h := range r.Hosts {
		if i == receiptHosts {
			hosts = append(hosts, fmt.Sprintf("%d more", len(r.Hosts)-i+r.More))
			break
		}
		hosts = append(hosts, fmt.Sprintf("%s (%s up, %s down)", hostPort(h.Host, h.Port), size(h.Up), size(h.Down)))
	}
	if hosts == nil {
		return ""
	}
	return "reached " + strings.Join(hosts, ", ")
}

// refusalLines say what was refused and how to allow it.
func refusalLines(r gate.Report) []string {
	var lines []string
	for i, f := range r.Refusals {
		if i == receiptRefusals {
			lines = append(lines, fmt.Sprintf("refused %d more", len(r.Refusals)-i))
			break
		}
		what := "a malformed request"
		if f.Host != "" {
			what = hostPort(f.Host, f.Port)
		}
		verb := "refused"
		if slices.Contains(notReached, f.Reason) {
			verb = "could not reach"
		}
		line := fmt.Sprintf("%s %s (%s)", verb, what, f.Reason)
		if f.Count > 1 {
			line = fmt.Sprintf("%s %s %d times (%s)", verb, what, f.Count, f.Reason)
		}
		if f.Allow != "" {
			line += "; to allow it: --allow " + shellQuote(f.Allow)
		}
		if f.Host == policy.ServiceHost && f.Reason == policy.DialFailure {
			line += fmt.Sprintf("; does a service listen at this machine's 127.0.0.1:%d?", f.Port)
		}
		lines = append(lines, line)
	}
	return lines
}

func hostPort(host string, port uint16) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// size is a number of bytes for people.
func size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	v, i := float64(n)/unit, 0
	for ; v >= unit && i < 3; i++ {
		v /= unit
	}
	return fmt.Sprintf("%.1f %ciB", v, "KMGT"[i])
}

// round makes a duration short enough to read.
func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
