//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	filter "github.com/aisb-dev/aisb/sandbox/terminal"
)

// piOnScreen lets the real pi draw its interface, do a task and end, and returns
// what arrived at the terminal.
func piOnScreen(t *testing.T, flags ...string) (*seat, string) {
	t.Helper()
	image := os.Getenv("AISB_E2E_HARNESS_IMAGE")
	if image == "" {
		t.Fatal("AISB_E2E_HARNESS_IMAGE names no image; run 'make e2e'")
	}
	ca, err := os.ReadFile(internet.ca)
	if err != nil {
		t.Fatal(err)
	}
	dir := project(t)
	write(t, dir, "ca.pem", string(ca))
	args := append([]string{"run", "--image", image, "--ephemeral-home", "--resolver", routerAddr, "--allow", modelHost}, flags...)
	args = append(args, "-e", "ANTHROPIC_API_KEY="+modelKey, "-e", "NODE_EXTRA_CA_CERTS=/project/ca.pem", "--", "pi", "--provider", "anthropic")
	s := newSeat(t)
	s.answers(t)
	s.start(call{dir: dir}, nil, args...)
	s.waitScreen("/project") // the line at the bottom
	io.WriteString(s.master, "Write the greeting.")
	s.waitScreen("greeting.")
	io.WriteString(s.master, "\r")
	s.waitScreen("The file is written.")
	io.WriteString(s.master, "\x04") // on an empty line it ends
	return s, s.end(0)
}

// marks are a shell's, which docs/terminal.md drops: pi sets them around messages.
var marks = regexp.MustCompile(`\x1b\]133;[A-D]\a`)

// TestHarnessScreen: the interface of a harness passes the filter as it is, byte
// for byte but for its marks.
func TestHarnessScreen(t *testing.T) {
	_, raw := piOnScreen(t, "--tty-raw")
	var filtered bytes.Buffer
	f := filter.New(&filtered, filter.Options{Answers: true})
	if _, err := f.Write([]byte(raw)); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes, %d sequences, %v dropped", len(raw), strings.Count(raw, "\x1b"), f.Kept())
	raw = marks.ReplaceAllString(raw, "")
	if got := strings.ReplaceAll(filtered.String(), "\x1b[22;0t", ""); got != raw {
		i := 0
		for i < min(len(got), len(raw)) && got[i] == raw[i] {
			i++
		}
		t.Errorf("from %d on %.80q, want %.80q", i, got[i:], raw[i:])
	}
	s, shown := piOnScreen(t)
	wantNot(t, "screen", shown, "kept from your terminal")
	s.wantClean()
}
