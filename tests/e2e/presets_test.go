//go:build e2e

package e2e

import (
	"encoding/json"
	"net/url"
	"os/exec"
	"strings"
	"testing"
)

// TestPackagePresetByLabel: an image that aisb didn't build says by a label where
// its packages come from; without one the error says what to do.
func TestPackagePresetByLabel(t *testing.T) {
	const ref = "localhost/aisb-e2e-labelled:1"
	recipe := "FROM " + testImage + "\nLABEL dev.aisb.preset.npm=\"allowed.test:443\"\n"
	podman, err := exec.LookPath("podman")
	if err != nil {
		t.Fatal(err)
	}
	call{dir: agent.home, bin: podman, stdin: recipe}.do(t, "build", "--pull=never", "--tag", ref, "-").wantStatus(t, 0)
	defer asUser(t, "podman", "rmi", "--force", ref)
	run := func(image, preset string) outcome {
		return call{dir: project(t)}.do(t, "run", "--image", image, "--ephemeral-home", "--resolver", routerAddr,
			"--preset", preset, "--", "aisb", "check", "allowed.test")
	}
	o := run(ref, "npm")
	o.wantStatus(t, 0)
	wantIn(t, "answer", o.stdout, "allowed.test:443 allowed: listed")
	o = run(ref, "go")
	o.wantStatus(t, 2)
	wantIn(t, "error", o.stderr, `preset "go": the image `+ref+" doesn't say where its packages come from", `dev.aisb.preset.go="HOST:443"`)
	o = run(testImage, "npm")
	o.wantStatus(t, 2)
}

// TestPackagePresetOfBuild: what npm in the image is configured for is noted, at the
// build or when it is first needed, and can be reached then; npm itself says the same.
func TestPackagePresetOfBuild(t *testing.T) {
	c := call{dir: project(t), env: []string{"XDG_STATE_HOME="}} // where the image's build was noted
	said := c.do(t, "run", "--ephemeral-home", "--preset", "npm", "--", "sh", "-c", `npm config get registry && aisb check "$(npm config get registry | cut -d/ -f3)"`)
	said.wantStatus(t, 0)
	line, answer, _ := strings.Cut(said.stdout, "\n")
	registry, err := url.Parse(line)
	if err != nil || registry.Host == "" {
		t.Fatalf("npm says %q: %v", said.stdout, err)
	}
	wantIn(t, "answer", answer, "allowed: listed")
	o := c.do(t, "presets", "npm", "--json")
	o.wantStatus(t, 0)
	var noted struct {
		Core []struct{ Rule, Reason string }
	}
	if err := json.Unmarshal([]byte(o.stdout), &noted); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	if len(noted.Core) == 0 || !strings.HasPrefix(noted.Core[0].Rule, registry.Hostname()+":") {
		t.Errorf("noted %+v, npm says %s", noted.Core, registry)
	}
}
