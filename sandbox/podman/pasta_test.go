package podman

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"
)

func TestPastaVersion(t *testing.T) {
	for text, want := range map[string]string{
		"pasta 2024_09_06.6b38f07\nCopyright Red Hat\n":       "pasta 2024_09_06.6b38f07",
		"pasta 0.0~git20240220.1e6f92b-1\n":                   "pasta 0.0~git20240220.1e6f92b-1",
		"pasta 0^20240906.g6b38f07-1.fc40.x86_64-pasta\r\n":   "pasta 0^20240906.g6b38f07-1.fc40.x86_64-pasta",
		"passt 2025_12_23.2ba9fd5\n":                          "pasta 2025_12_23.2ba9fd5",
		"pasta unknown version\n":                             "",
		"":                                                    "",
		"Usage: pasta [OPTION]... PID\n  -p 3 something\n":    "",
		"warning: odd\npasta 2025_12_23.2ba9fd5\nCopyright\n": "pasta 2025_12_23.2ba9fd5",
	} {
		if got := PastaVersion(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

const oldHelp = `Usage: pasta [OPTION]... [COMMAND] [ARGS]...
  -d, --debug		Be verbose
  -m, --mtu MTU	Assign MTU via DHCP/NDP
      a zero value disables assignment
  --no-map-gw		Don't map gateway address to host
  -t, --tcp-ports SPEC	TCP port forwarding to namespace
        -t 22	Forward local port 22 to port 22 in netns
`

func TestPastaLacks(t *testing.T) {
	args := []string{"--map-host-loopback", "x", "-t", "none", "-T", "none", "--no-map-gw"}
	for _, r := range []struct {
		help string
		want []string
	}{
		{oldHelp, []string{"--map-host-loopback", "-T"}},
		{oldHelp + "  -T, --tcp-ns SPEC\n  --map-host-loopback ADDR\tTranslate\n", nil},
		// named in the text of another option, which is not having it
		{oldHelp + "  -T, --tcp-ns SPEC\n  -x X\tlike --map-host-loopback\n", []string{"--map-host-loopback"}},
		{"nothing to say\n", nil},
		{"", nil},
	} {
		if got := PastaLacks(r.help, args); !slices.Equal(got, r.want) {
			t.Errorf("%q: %q, want %q", r.help, got, r.want)
		}
	}
}

// One that says nothing is told from one that refuses.
func TestSilentPasta(t *testing.T) {
	path := t.TempDir() + "/pasta"
	if err := os.WriteFile(path, []byte("#!/bin/sh\nexec sleep 60\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := askPasta(ctx, path, "--version"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
