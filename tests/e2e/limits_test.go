//go:build e2e

package e2e

import (
	"fmt"
	"testing"
)

// TestOOMScore: where memory is short the kernel ends a command of the sandbox before
// its pid 1, whose end would be that of all of them. What the kernel makes of it is
// seen where it can be limited: tests/vm/limits.
func TestOOMScore(t *testing.T) {
	s := waiting(t)
	scores := func() (command, pid1 int) {
		o := s.exec(t, "", "--", "sh", "-c", "cat /proc/self/oom_score_adj /proc/1/oom_score_adj")
		o.wantStatus(t, 0)
		if _, err := fmt.Sscan(o.stdout, &command, &pid1); err != nil {
			t.Fatalf("%q: %v", o.stdout, err)
		}
		return command, pid1
	}
	for range 2 { // pid 1 takes its own back each time
		if command, pid1 := scores(); command != min(pid1+300, 1000) || pid1 >= 1000 {
			t.Errorf("the score of a command is adjusted by %d, of pid 1 by %d, want 300 more", command, pid1)
		}
	}
	o := s.exec(t, "", "--", "sh", "-c", "cat /proc/$(pgrep -xo sh)/oom_score_adj /proc/1/oom_score_adj")
	var first, pid1 int
	if _, err := fmt.Sscan(o.stdout, &first, &pid1); err != nil || first != min(pid1+300, 1000) {
		t.Errorf("the first command's score is adjusted by %d, pid 1's by %d, want 300 more (%v)", first, pid1, err)
	}
	s.ends(t)
}
