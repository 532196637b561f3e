//go:build e2e

package e2e

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
)

// The model's part: it asks for an edit of this file, then says that it's done.
const (
	modelHost    = "api.anthropic.com"
	modelFile    = "greeting.txt"
	modelContent = "hello from the model\n"
)

var modelScript = fakes.EditScript("/project/"+modelFile, modelContent, "The file is written.")

// runPi lets the real pi do a small task against the stand-in for its model's
// API, which answers under the real host name with a certificate of the test's
// own authority.
func runPi(t *testing.T, dir string, flags ...string) outcome {
	t.Helper()
	image := os.Getenv("AISB_E2E_HARNESS_IMAGE")
	if image == "" {
		t.Fatal("AISB_E2E_HARNESS_IMAGE names no image; run 'make e2e'")
	}
	ca, err := os.ReadFile(internet.ca)
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "ca.pem", string(ca))
	args := []string{"run", "--image", image, "--ephemeral-home", "--resolver", routerAddr}
	args = append(args, flags...)
	args = append(args, "-e", "ANTHROPIC_API_KEY="+modelKey, "-e", "NODE_EXTRA_CA_CERTS=/project/ca.pem",
		"--", "pi", "-p", "--provider", "anthropic", "Write the greeting.")
	return call{dir: dir}.do(t, args...)
}

// Point 8: the request arrives through the gate, the
// streamed answer comes back, and the edit that it asks for is made.
func TestPoint8HarnessDoesATask(t *testing.T) {
	dir := project(t)
	mark := internet.mark()
	o := runPi(t, dir) // the key alone opens its host
	o.wantStatus(t, 0)
	wantIn(t, "note", o.stderr, "aisb: allowed by the key: "+modelHost+" (for ANTHROPIC_API_KEY); --no-implied-presets stops that\n")
	wantIn(t, "pi's output", o.stdout, "The file is written.")
	got, err := os.ReadFile(filepath.Join(dir, modelFile))
	if err != nil || string(got) != modelContent {
		t.Errorf("the file that the model asked for: %q, %v\n%s", got, err, o.stderr)
	}
	asked := internet.waitFor(t, mark, "model", func(e fakes.Event) bool { return e.Turn == 2 })
	if asked.SNI != modelHost || asked.Key != modelKey {
		t.Errorf("the model was asked as %q with key %q", asked.SNI, asked.Key)
	}
	wantIn(t, "receipt", o.stderr, "reached "+modelHost+":443")
	if strings.Contains(o.stderr, "aisb: refused") {
		t.Errorf("a task within its own host was refused something:\n%s", o.stderr)
	}
}

// Point 8, the other half: with its host unlisted it fails, and the receipt
// names the host and the flag that allows it.
func TestPoint8HarnessWithoutItsHost(t *testing.T) {
	dir := project(t)
	mark := internet.mark()
	o := runPi(t, dir, "--allow", "allowed.test", "--no-implied-presets")
	if o.status == 0 {
		t.Errorf("pi says that it worked:\n%s", o.stdout)
	}
	if _, err := os.Stat(filepath.Join(dir, modelFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is there: %v", err)
	}
	wantIn(t, "receipt", o.stderr, "refused "+modelHost+":443", "--allow "+modelHost)
	if e := internet.since(t, mark, "model", "dns"); len(e) > 0 {
		t.Errorf("the internet was reached: %+v", e)
	}
}
