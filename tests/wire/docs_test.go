package wire

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/aisb-dev/aisb/tests/fakes"
	"github.com/aisb-dev/aisb/tests/need"
)

const docs = "../../docs/"

func readDoc(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(docs + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// section is the part of a page below a heading.
func section(t *testing.T, page, heading string) string {
	t.Helper()
	_, after, found := strings.Cut(page, "\n## "+heading+"\n")
	if !found {
		t.Fatalf("no section %q", heading)
	}
	text, _, _ := strings.Cut(after, "\n## ")
	return text
}

// block is the first piece of shell in a text.
func block(t *testing.T, text string) string {
	t.Helper()
	_, after, found := strings.Cut(text, "```sh\n")
	if !found {
		t.Fatalf("no shell in %q", text)
	}
	code, _, _ := strings.Cut(after, "```")
	return code
}

// The recipes of docs/gate-log.md run, and say what they are said to.
func TestRecipes(t *testing.T) {
	if _, err := exec.LookPath("jq"); err != nil {
		need.Missing(t, "lab", err)
	}
	const sample = "testdata/recipes/sample.jsonl"
	var got strings.Builder
	n := 0
	for line := range strings.Lines(block(t, section(t, readDoc(t, "gate-log.md"), "Recipes"))) {
		got.WriteString(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		n++
		line = strings.NewReplacer("tail -f LOG", "cat "+sample, "LOG", sample).Replace(line)
		cmd := exec.Command("/bin/sh", "-c", "LC_ALL=C; export LC_ALL; "+line)
		out, err := cmd.CombinedOutput()
		if err != nil || len(out) == 0 {
			t.Errorf("%s: %v: %s", line, err, out)
		}
		got.Write(out)
		got.WriteString("\n")
	}
	if n != 10 {
		t.Errorf("%d recipes, want 10", n)
	}
	const golden = "testdata/recipes/golden.txt"
	want, err := os.ReadFile(golden)
	if err != nil || string(want) != got.String() {
		t.Errorf("%s differs (%v); got:\n%s", golden, err, got.String())
	}
}

// The job of docs/gate.md works as it stands, but for the port.
func TestCIJob(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		need.Missing(t, "lab", err)
	}
	build(t)
	binary, err := filepath.Abs(*binary)
	if err != nil {
		t.Fatal(err)
	}
	web, err := fakes.StartHTTP("127.0.0.1:0", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer web.Close()
	port, err := fakes.HoldPort()
	if err != nil {
		t.Fatal(err)
	}
	defer port.Close()
	addr := port.Addr.String()
	dir := t.TempDir()
	if err := os.Symlink(binary, filepath.Join(dir, "aisb")); err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("host.containers.internal:%d", web.Addr.Port())
	writeFile(t, filepath.Join(dir, "rules.txt"), host+"\n", 0o600)
	writeFile(t, filepath.Join(dir, "expected.txt"), "allow "+host+"\ndeny example.org\n", 0o600)
	writeFile(t, filepath.Join(dir, "make"), "#!/bin/sh\ncurl -fsS http://"+host+"/bytes/10\n", 0o700)
	job := strings.ReplaceAll(block(t, section(t, readDoc(t, "gate.md"), "In a CI job")), "127.0.0.1:3128", addr)
	cmd := exec.Command("/bin/bash", "-euc", "trap 'kill %1; wait' EXIT\n"+job)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "2 checked, all as expected") || !strings.Contains(string(out), "1 hosts: 0 would be refused") {
		t.Errorf("%v: %s", err, out)
	}
}

var row = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|(?: (string|integer) \\|)?")

// column reads the names, and types, of a table in a section of gate-log.md.
func column(t *testing.T, heading string) map[string]string {
	t.Helper()
	names := map[string]string{}
	for _, m := range row.FindAllStringSubmatch(section(t, readDoc(t, "gate-log.md"), heading), -1) {
		names[m[1]] = m[2]
	}
	if len(names) == 0 {
		t.Fatalf("no table under %q", heading)
	}
	return names
}

// What the real gate logs, of all kinds, is what docs/gate-log.md says.
func TestLogOfRealGate(t *testing.T) {
	keys, events, reasons := column(t, "Keys"), column(t, "Events"), column(t, "Reasons")
	_, target := echo(t)
	dir := t.TempDir()
	rules, token := filepath.Join(dir, "rules.txt"), filepath.Join(dir, "token")
	writeFile(t, rules, target+"+tcp\ngone.test\n", 0o600)
	writeFile(t, token, "a-token-of-some-length\n", 0o600)
	s := startStandalone(t, "--allow-file", rules, "--auth-token-file", token, "--resolver", "127.0.0.1:1", "--drain", "10ms")
	auth := "\r\nProxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("a:a-token-of-some-length"))
	s.connect(target) // without a token
	s.ask("CONNECT " + target + " HTTP/1.1\r\nHost: x" + auth + "\r\n\r\n")
	s.ask("GET http://evil.test/SECRET?SECRET HTTP/1.1\r\nHost: x\r\nX-SECRET: SECRET" + auth + "\r\n\r\n")
	s.ask("GET http://gone.test/ HTTP/1.1\r\nHost: x" + auth + "\r\n\r\n")
	s.ask("GET http://x\u202ey.test/ HTTP/1.1\r\nHost: x" + auth + "\r\n\r\n")
	s.wait("allow", "")
	writeFile(t, rules, "other.test\n", 0o600)
	s.signal(syscall.SIGHUP)
	s.wait("close", "policy-changed")
	s.signal(syscall.SIGTERM)
	if _, err := s.end(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, line := range s.log() {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' }) || strings.Contains(line, "SECRET") {
			t.Errorf("the log says too much: %q", line)
		}
		for key, value := range m {
			want, known := keys[key]
			_, number := value.(float64)
			if !known || number != (want == "integer") || value == "" {
				t.Errorf("%s: key %s is not as documented (%q)", line, key, want)
			}
		}
		event, _ := m["event"].(string)
		if _, known := events[event]; !known {
			t.Errorf("%s: unknown event", line)
		}
		seen[event] = true
		if r, there := m["reason"].(string); there {
			if _, known := reasons[r]; !known {
				t.Errorf("%s: unknown reason", line)
			}
		}
	}
	for event := range events {
		if !seen[event] {
			t.Errorf("no %s in %s", event, strings.Join(slices.Sorted(slices.Values(s.log())), "\n"))
		}
	}
}
