package main

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/need"
)

// A shell reads back what was quoted, whatever is in it, and a terminal does nothing
// with it.
func TestShellQuote(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		need.Missing(t, "lab", err)
	}
	argv := []string{
		"printf", `%s\0`, "", "plain", "two words", "it's", `a"b$c` + "`d`" + `\e`, "*", "~", "a;b&c|d", "line\nline", "\x1b]52;c;x\a", "ünï",
		"\xff\xfe", "a\u202eb", `'\''`, "\\\x01'", "--flag", "--flag=a b", "-x", "#", "!", "=x",
	}
	for _, text := range []string{shellLines(argv), strings.Join(quoted(argv), " ")} {
		if text != printableLines(text) {
			t.Errorf("it holds control characters: %q", text)
		}
		out, err := exec.Command(bash, "-c", text).Output()
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); !slices.Equal(got, argv[2:]) {
			t.Errorf("got %q, want %q", got, argv[2:])
		}
	}
}

func quoted(argv []string) []string {
	var list []string
	for _, arg := range argv {
		list = append(list, shellQuote(arg))
	}
	return list
}

func printableLines(text string) string {
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, printable(line))
	}
	return strings.Join(lines, "\n")
}

func TestShellLines(t *testing.T) {
	got := shellLines([]string{"/usr/bin/podman", "--remote=false", "run", "--rm", "--name", "x", "--mount", "a=b,c d", "IMAGE"})
	want := "/usr/bin/podman \\\n  --remote=false \\\n  run \\\n  --rm \\\n  --name x \\\n  --mount 'a=b,c d' \\\n  IMAGE\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
