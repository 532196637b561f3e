//go:build e2e

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/briefing"
	"github.com/aisb-dev/aisb/tests/fakes"
)

// harnessCalls are how each harness is asked something without a terminal, and its
// key. The harness's own flags are those that it gets when nothing is given.
var harnessCalls = map[string]struct {
	key  string
	argv []string
}{
	"pi":     {"ANTHROPIC_API_KEY", []string{"pi", "-p", "--provider", "anthropic", "Write the greeting."}},
	"claude": {"ANTHROPIC_API_KEY", []string{"claude", "--dangerously-skip-permissions", "-p", "Write the greeting."}},
	"codex": {"CODEX_API_KEY", []string{"codex", "exec", "--dangerously-bypass-approvals-and-sandbox",
		"--skip-git-repo-check", "Say hello."}},
	"gemini":   {"GEMINI_API_KEY", []string{"gemini", "--yolo", "-p", "Say hello."}},
	"opencode": {"ANTHROPIC_API_KEY", []string{"opencode", "run", "-m", "anthropic/claude-haiku-4-5", "Say hello."}},
}

// harnessTries are hosts that a harness asks for beside its model's, and does without:
// docs/images.md says so. A name that ends in a dot is the beginning of one.
var harnessTries = map[string][]string{
	"codex":    {"chatgpt.com", "ab.chatgpt.com", "api.github.com", "github.com"},
	"opencode": {"registry."},
}

// expected reports whether a line of the receipt is about one of them.
func expected(name, line string) bool {
	return slices.ContainsFunc(harnessTries[name], func(host string) bool {
		return strings.HasPrefix(line, "aisb: refused "+strings.TrimSuffix(host, ".")) &&
			(strings.HasSuffix(host, ".") || strings.HasPrefix(line, "aisb: refused "+host+":"))
	})
}

// harnessImages are the images that tests/e2e/inside has built.
func harnessImages(t *testing.T) map[string]string {
	t.Helper()
	images := map[string]string{}
	for pair := range strings.FieldsSeq(os.Getenv("AISB_E2E_IMAGES")) {
		name, image, _ := strings.Cut(pair, "=")
		images[name] = image
	}
	if len(images) == 0 {
		t.Fatal("AISB_E2E_IMAGES names no image; run 'make e2e'")
	}
	return images
}

// TestHarnessIsTold: each harness starts, answers, and what it sends to its model has
// the sentence of /etc/aisb/AGENTS.md; it tries no host but its model's and what is known, and leaves
// nothing of the file in the project or in the user's own.
func TestHarnessIsTold(t *testing.T) {
	for name, image := range harnessImages(t) {
		t.Run(name, func(t *testing.T) {
			c, ok := harnessCalls[name]
			if !ok {
				t.Fatalf("no call for the harness %s", name)
			}
			dir := project(t)
			ca, err := os.ReadFile(internet.ca)
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "ca.pem", string(ca))
			mark := internet.mark()
			args := []string{"run", "--image", image, "--harness", name, "--ephemeral-home", "--resolver", routerAddr, "-e", c.key + "=" + modelKey}
			for _, v := range []string{"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE"} {
				args = append(args, "-e", v+"=/project/ca.pem")
			}
			o := call{dir: dir}.do(t, append(append(args, "--"), c.argv...)...)
			o.wantStatus(t, 0)
			wantIn(t, "answer", o.stdout, "The file is written.")
			asked := internet.waitFor(t, mark, "model", func(e fakes.Event) bool { return slices.Contains(e.Heard, briefing.Final) })
			if asked.Key != modelKey {
				t.Errorf("the model was asked with key %q", asked.Key)
			}
			if name == "pi" || name == "claude" { // the stand-in asks these for an edit
				got, err := os.ReadFile(filepath.Join(dir, modelFile))
				if err != nil || string(got) != modelContent {
					t.Errorf("the file that the model asked for: %q, %v", got, err)
				}
			}
			for line := range strings.Lines(o.stderr) {
				if strings.HasPrefix(line, "aisb: refused") && !expected(name, line) || strings.HasPrefix(line, "aisb: could not reach") {
					t.Errorf("with its key alone: %s", line)
				}
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if !slices.Contains([]string{"ca.pem", modelFile}, e.Name()) {
					t.Errorf("left in the project: %s", e.Name())
				}
			}
		})
	}
}

// TestAgentsFile: every sandbox has the file, and nobody in it can change it.
func TestAgentsFile(t *testing.T) {
	o := aisb(t, allowed, sh(`cat /etc/aisb/AGENTS.md
		echo x >>/etc/aisb/AGENTS.md || echo kept
		rm -f /etc/aisb/AGENTS.md || echo kept
		mv /etc/aisb /etc/other || echo kept`)...)
	o.wantStatus(t, 0)
	wantIn(t, "file", o.stdout, "It allows: allowed.test", briefing.Final, "/home/agent")
	if n := strings.Count(o.stdout, "kept\n"); n != 3 {
		t.Errorf("%d of 3 changes failed:\n%s%s", n, o.stdout, o.stderr)
	}
	o = aisb(t, []string{"--net", "none"}, "cat", "/etc/aisb/AGENTS.md")
	o.wantStatus(t, 0)
	wantIn(t, "file", o.stdout, "There is none.")
	wantNot(t, "file", o.stdout, "403")
}
