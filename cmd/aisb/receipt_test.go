package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/aisb-dev/aisb/gate"
	"github.com/aisb-dev/aisb/sandbox"
)

// TestReceiptOfLog: what the log lacks is told by who would send the reader there.
func TestReceiptOfLog(t *testing.T) {
	for n, want := range map[int]string{0: "", 1: "aisb: warning: the log lacks 1 line that could not be written\n", 7: "aisb: warning: the log lacks 7 lines that could not be written\n"} {
		var out bytes.Buffer
		receipt(&ui{Err: &out}, sandbox.Spec{Net: sandbox.NetAllow}, sandbox.Result{Report: gate.Report{Unlogged: n}}, time.Second)
		if got := out.String(); strings.Contains(got, "the log lacks") != (n > 0) || !strings.Contains(got, want) {
			t.Errorf("%d: %q, want %q in it", n, got, want)
		}
	}
}
