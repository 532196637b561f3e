package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/aisb-dev/aisb/sandbox"
)

// receipt says in a line or two what a run did and where to look.
func receipt(u *ui, spec sandbox.Spec, r sandbox.Result) {
	u.notef("%s", strings.Join(receiptParts(spec, r), "; "))
	for _, line := range refusals(r) {
		u.notef("%s", line)
	}
}

// receiptParts are the facts of the first line. It is pure.
func receiptParts(spec sandbox.Spec, r sandbox.Result) []string {
	parts := []string{fmt.Sprintf("ended after %s with status %d", round(r.Duration), r.Status)}
	if r.Status == 77 || r.Status == 78 {
		parts[0] += " (the command's own)"
	}
	switch {
	case spec.Net == sandbox.NetFull:
		return append(parts, "no fence")
	case len(r.Proof) > 0:
		ok := 0
		for _, p := range r.Proof {
			if p.OK {
				ok++
			}
		}
		parts = append(parts, fmt.Sprintf("fence proved by %d of %d probes", ok, len(r.Proof)))
	default:
		parts = append(parts, "fence not proved")
	}
	return parts
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Second {
		return d.Round(time.Second)
	}
	return d.Round(time.Millisecond)
}
