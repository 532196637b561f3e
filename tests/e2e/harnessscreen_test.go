//go:build e2e

package e2e

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	filter "github.com/aisb-dev/aisb/sandbox/terminal"
	"github.com/aisb-dev/aisb/tests/screen"
)

const (
	harnessTask   = "Write the greeting."
	harnessAnswer = "The file is written." // see modelScript
)

// act is what a user types who sees something.
type act struct {
	sees, types string
}

// harnessScreens are how each harness's interface is started, with which key, and what
// is done with it: dialogs of a first start, in any order and if they come; then the task,
// and the end. What opens beside the model is in flags.
var harnessScreens = map[string]struct {
	key     string
	flags   []string
	argv    []string
	dialogs []act
	acts    []act
}{
	"pi": {"ANTHROPIC_API_KEY", nil, []string{"pi", "--provider", "anthropic"}, nil, []act{
		{"/project", harnessTask}, {harnessTask, "\r"}, {harnessAnswer, "\x04"},
	}},
	"claude": {"ANTHROPIC_API_KEY", []string{"--preset", "claude"}, []string{"claude", "--dangerously-skip-permissions"}, []act{
		{"Choose the text style", "\r"}, {"❯ No (recommended)", "\x1b[A"}, {"❯ Yes", "\r"}, {"Press Enter to continue", "\r"},
		{"❯ No, exit\n   Yes, I trust", "\x1b[B"}, {"❯ Yes, I trust", "\r"},
		{"❯ No, exit\n    Yes, I accept", "\x1b[B"}, {"❯ Yes, I accept", "\r"},
	}, []act{
		{"bypass permissions on", harnessTask}, {harnessTask, "\r"}, {harnessAnswer, "/exit"}, {"/exit", "\r"},
	}},
	"codex": {"OPENAI_API_KEY", []string{"--preset", "openai"}, []string{"sh", "-c", "printenv OPENAI_API_KEY | codex login --with-api-key && exec codex --dangerously-bypass-approvals-and-sandbox"}, []act{
		{"trust the contents", "\r"},
	}, []act{
		{"/project", harnessTask}, {harnessTask, "\r"}, {harnessAnswer, "/quit"}, {"/quit", "\r"},
	}},
	"gemini": {"GEMINI_API_KEY", nil, []string{"gemini", "--yolo"}, []act{
		{"Do you trust the following folders", "\r"}, {"How would you like to authenticate", "\r"}, {"Enter Gemini API Key", "\r"},
	}, []act{
		{"Type your message", harnessTask}, {harnessTask, "\r"}, {harnessAnswer, "/quit"}, {"/quit", "\r"},
	}},
	"opencode": {"ANTHROPIC_API_KEY", nil, []string{"opencode", "-m", "anthropic/claude-haiku-4-5"}, nil, []act{
		{"Ask anything", harnessTask}, {harnessTask, "\r"}, {harnessAnswer, "/exit"}, {"/exit", "\r"},
	}},
}

// harnessOnScreen lets the real harness draw its interface, do a task and end, on a
// terminal whose size changes once, and returns that.
func harnessOnScreen(t *testing.T, name, image string, flags ...string) (*seat, *screen.Screen, string) {
	t.Helper()
	h, ok := harnessScreens[name]
	if !ok {
		t.Fatalf("nothing is known of the interface of %s", name)
	}
	ca, err := os.ReadFile(internet.ca)
	if err != nil {
		t.Fatal(err)
	}
	dir := project(t)
	write(t, dir, "ca.pem", string(ca))
	args := append([]string{"run", "--image", image, "--harness", name, "--ephemeral-home", "--resolver", routerAddr}, append(flags, h.flags...)...)
	args = append(args, "-e", h.key+"="+modelKey, "-e", "NODE_EXTRA_CA_CERTS=/project/ca.pem", "-e", "SSL_CERT_FILE=/project/ca.pem", "--")
	view := screen.New(24, 80)
	t.Cleanup(func() { view.Close() })
	s := newSeat(t, view)
	go io.Copy(s.master, view) // ends with view
	s.start(call{dir: dir, env: []string{"TERM=xterm-256color", "COLORTERM=truecolor"}}, nil, append(args, h.argv...)...)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the screen:\n%s", view.Text())
		}
	})
	typed := map[act]time.Time{}
	for _, a := range h.acts {
		waitUntil(t, runTimeout, name+" shows "+a.sees, func() bool {
			shown := view.Text()
			for _, d := range h.dialogs {
				// A dialog may be drawn before it reads, and what was typed by then be lost.
				if strings.Contains(shown, d.sees) && time.Since(typed[d]) > 3*time.Second {
					io.WriteString(s.master, d.types)
					typed[d] = time.Now()
				}
			}
			return strings.Contains(shown, a.sees)
		})
		io.WriteString(s.master, a.types)
		if a.types == harnessTask {
			view.Resize(30, 100) // before anything is drawn for it
			setSize(t, s.master, 30, 100)
		}
	}
	return s, view, s.end(0)
}

// dropped are what docs/terminal.md drops of what harnesses send: none of it is drawn.
var dropped = regexp.MustCompile(strings.Join([]string{
	`\x1b\]133;[A-D]\a`,                                  // marks of a shell, which pi sets around messages
	`\x1b\]7501;[a-z=:?]*(?:\a|\x1b\\)`,                  // whether an agent works or waits: claude asks for it, codex tells it
	`\x1b\[>4;\?m`,                                       // gemini, for modifyOtherKeys, in no terminal's syntax
	`\x1bP\+q[0-9A-Fa-f;]*\x1b\\`,                        // opencode's questions: XTGETTCAP,
	`\x1b\](?:99;[^\x1b]*p=\?;|1337;Capabilities)\x1b\\`, // of Kitty's notifications and iTerm2,
	`\x1b\]66;[sw]=\d; \x1b\\`,                           // and of the size of text, by where the cursor is then
	`\x1b\]22;[a-z-]*(?:\a|\x1b\\)`,                      // the mouse's pointer, opencode
}, "|"))

// popped are ends of a state of the keyboard: the filter lets as many pass as began.
var popped = regexp.MustCompile(`\x1b\[<\d*u`)

// TestHarnessScreen: what the interface of a harness draws passes the filter as it is, cell
// by cell at each moment, and byte for byte but for what docs/terminal.md drops.
func TestHarnessScreen(t *testing.T) {
	images := harnessImages(t)
	if os.Getenv("AISB_E2E_HARNESSES") == "" {
		// The others ask this and that at their first start, in words that change with
		// their versions: they are for make harnesses.
		images = map[string]string{"pi": images["pi"]}
	}
	for name, image := range images {
		t.Run(name, func(t *testing.T) {
			_, view, raw := harnessOnScreen(t, name, image, "--tty-raw")
			var filtered bytes.Buffer
			f := filter.New(&filtered, filter.Options{Answers: true})
			if _, err := io.WriteString(f, raw); err != nil {
				t.Fatal(err)
			}
			t.Logf("%d bytes, %d sequences, %d of them dropped, %v", len(raw), strings.Count(raw, "\x1b"),
				len(dropped.FindAllString(raw, -1)), f.Kept())
			got, want := strings.ReplaceAll(filtered.String(), "\x1b[22;0t", ""), strings.ReplaceAll(dropped.ReplaceAllString(raw, ""), "\x1b[22;0t", "")
			sameBytes(t, popped.ReplaceAllString(got, ""), popped.ReplaceAllString(want, ""))
			if err := screen.Play(view.Steps(), 24, 80, func(w io.Writer) io.Writer {
				return filter.New(w, filter.Options{Answers: true})
			}); err != nil {
				t.Errorf("the filter changes what is seen: %v", err)
			}

			s, view, shown := harnessOnScreen(t, name, image)
			wantNot(t, "screen", shown, "kept from your terminal")
			s.wantClean()
			for _, left := range view.Changed() {
				t.Errorf("left in the terminal: %s", left)
			}
		})
	}
}

// sameBytes fails the test with the first difference.
func sameBytes(t *testing.T, got, want string) {
	t.Helper()
	if got == want {
		return
	}
	i := 0
	for i < min(len(got), len(want)) && got[i] == want[i] {
		i++
	}
	t.Errorf("from %d on %.80q, want %.80q", i, got[i:], want[i:])
}
