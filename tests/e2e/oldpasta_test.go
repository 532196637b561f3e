//go:build e2e

package e2e

import (
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/aisb-dev/aisb/tests/need"
)

// withOldPasta finds an older pasta before the host's own, as on Debian 12 or
// Ubuntu 24.04.
func withOldPasta(t *testing.T) call {
	t.Helper()
	dir := os.Getenv("AISB_E2E_OLD_PASTA")
	if dir == "" {
		need.Missing(t, "old-pasta", errors.New("this machine's packages have no older pasta"))
	}
	return call{dir: project(t), env: []string{"PATH=" + dir + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}}
}

// TestOldPasta: one without the options that aisb needs is not taken, and who
// asks for it hears what it lacks.
func TestOldPasta(t *testing.T) {
	c := withOldPasta(t)
	lacks := []string{"pasta ", "is too old: it lacks --map-host-loopback, --map-guest-addr"}
	t.Run("auto", func(t *testing.T) {
		gone := wantNothingLeft(t)
		o := c.aisb(t, append([]string{"--net-backend", "auto"}, allowed...), sh("curl -sS http://allowed.test/x; ls /sys/class/net")...)
		o.wantStatus(t, 0)
		if want := "origin GET allowed.test /x\nlo\n"; o.stdout != want {
			t.Errorf("got %q, want %q", o.stdout, want)
		}
		wantIn(t, "receipt", o.stderr, "fence proved")
		gone()
	})
	for name, tt := range map[string]struct {
		flags []string
		hint  string
	}{
		"pasta":    {append([]string{"--net-backend", "pasta"}, allowed...), "--net-backend inner"},
		"net full": {[]string{"--net", "full"}, "--net full"},
	} {
		t.Run(name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			o := c.aisb(t, tt.flags, sh("touch /project/ran")...)
			wantRefusedStart(t, c.dir, o, 125, lacks[1])
			wantIn(t, "error", o.stderr, append(lacks, tt.hint, "passt of 2024-10 or newer")...)
			t.Log(o.stderr)
			gone()
		})
	}
	t.Run("doctor", func(t *testing.T) {
		var report struct {
			Checks []struct{ ID, State, Detail string }
		}
		if err := json.Unmarshal([]byte(c.do(t, "doctor", "--json").stdout), &report); err != nil {
			t.Fatal(err)
		}
		said := map[string]string{}
		for _, check := range report.Checks {
			said[check.ID] = check.State + ": " + check.Detail
		}
		wantIn(t, "network.pasta", said["network.pasta"], append(lacks, "note: ")...)
		wantIn(t, "network.backend", said["network.backend"], "note: inner; --no-gate and --net full need")
	})
}
