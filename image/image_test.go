package image

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/gate/preset"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Two IDs of base images.
var (
	idOne = strings.Repeat("1", 64)
	idTwo = strings.Repeat("2", 64)
)

func harness(t *testing.T, name string) Harness {
	t.Helper()
	h, err := FindHarness(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// The shipped default, ubuntu:24.04, can only be held by its text here: no
// registry of images can be reached from the machines that build aisb. The one
// on Debian is also built, by tests/e2e.
func TestContainerfileGolden(t *testing.T) {
	for file, s := range map[string]Spec{
		"ubuntu-pi.containerfile":     {Base: DefaultBase, Harness: harness(t, "pi")},
		"debian-claude.containerfile": {Base: "debian:trixie", Harness: harness(t, "claude")},
		"debian-gemini.containerfile": {Base: "debian:trixie", Harness: harness(t, "gemini")},
		"debian-shell.containerfile": {Base: "localhost/aisb-base:trixie", Harness: harness(t, "shell"),
			Packages: []string{"golang-go", "libssl-dev"},
			Commands: []string{"echo \"it's\" $HOME\nprintf '%s' <&- \\", "touch /etc/done"}},
	} {
		t.Run(file, func(t *testing.T) {
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			got := s.Containerfile()
			path := filepath.Join("testdata", file)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs; see what changed with: go test ./image -update && git diff\n%s", path, got)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	good := Spec{Base: DefaultBase, BaseID: idOne, Harness: harness(t, "pi"), Packages: []string{"g++", "libc6:arm64", "git=1:2.47.3-0+deb13u1"}}
	if err := good.Check(); err != nil {
		t.Errorf("a good spec: %v", err)
	}
	for name, change := range map[string]func(*Spec){
		"no base":                  func(s *Spec) { s.Base = "" },
		"base is a flag":           func(s *Spec) { s.Base = "--platform=x" },
		"base with a second line":  func(s *Spec) { s.Base = "debian\nRUN true" },
		"package is a flag":        func(s *Spec) { s.Packages = []string{"-y"} },
		"package with a command":   func(s *Spec) { s.Packages = []string{"git;id"} },
		"package with a space":     func(s *Spec) { s.Packages = []string{"git curl"} },
		"empty package":            func(s *Spec) { s.Packages = []string{""} },
		"empty command":            func(s *Spec) { s.Commands = []string{""} },
		"base ID is a name":        func(s *Spec) { s.BaseID = "debian" },
		"npm package with a quote": func(s *Spec) { s.Harness.NPM = &NPM{"a'b", "1", "24", []string{"a"}, nil} },
		"npm package is a URL":     func(s *Spec) { s.Harness.NPM = &NPM{"https://x.test/a", "1", "24", []string{"a"}, nil} },
		"version with a quote":     func(s *Spec) { s.Harness.NPM = &NPM{"a", "1'", "24", []string{"a"}, nil} },
		"node is a range":          func(s *Spec) { s.Harness.NPM = &NPM{"a", "1", ">=24", []string{"a"}, nil} },
		"bin is a path":            func(s *Spec) { s.Harness.NPM = &NPM{"a", "1", "24", []string{"../a"}, nil} },
		"no bin":                   func(s *Spec) { s.Harness.NPM = &NPM{"a", "1", "24", nil, nil} },
		"script is a flag":         func(s *Spec) { s.Harness.NPM = &NPM{"a", "1", "24", []string{"a"}, []string{"--all"}} },
	} {
		t.Run(name, func(t *testing.T) {
			s := good
			change(&s)
			if err := s.Check(); err == nil {
				t.Errorf("accepted: %+v", s)
			}
		})
	}
}

func TestTag(t *testing.T) {
	spec := func() Spec {
		return Spec{Base: DefaultBase, BaseID: idOne, Harness: harness(t, "pi"),
			Packages: []string{"golang-go"}, Commands: []string{"true"}}
	}
	first := spec().Tag()
	if again := spec().Tag(); again != first {
		t.Errorf("the same input gives %s and %s", first, again)
	}
	if !strings.HasPrefix(first, "localhost/aisb:") || len(first) != len("localhost/aisb:")+16 {
		t.Errorf("got tag %q", first)
	}
	seen := map[string]string{first: "nothing"}
	for name, change := range map[string]func(*Spec){
		"base ID":     func(s *Spec) { s.BaseID = idTwo },
		"base":        func(s *Spec) { s.Base = "debian:trixie" },
		"harness":     func(s *Spec) { s.Harness = harness(t, "codex") },
		"version":     func(s *Spec) { n := *s.Harness.NPM; n.Version = "1.0.0"; s.Harness.NPM = &n },
		"package":     func(s *Spec) { s.Packages = []string{"golang"} },
		"no package":  func(s *Spec) { s.Packages = nil },
		"command":     func(s *Spec) { s.Commands = []string{"true "} },
		"two":         func(s *Spec) { s.Commands = []string{"true", "true"} },
		"one of both": func(s *Spec) { s.Commands = []string{"true\ntrue"} },
	} {
		s := spec()
		change(&s)
		if other, dup := seen[s.Tag()]; dup {
			t.Errorf("changing %s gives the same tag as changing %s", name, other)
		}
		seen[s.Tag()] = name
	}
	known := spec()
	known.BaseID = ""
	if known.Key() != spec().Key() {
		t.Error("the key depends on the base's ID")
	}
}

func TestWriteContext(t *testing.T) {
	s := Spec{Base: DefaultBase, BaseID: idOne, Harness: harness(t, "pi")}
	dir := t.TempDir()
	if err := s.WriteContext(dir); err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Context() {
		data, err := os.ReadFile(filepath.Join(dir, f.Name))
		if err != nil || !bytes.Equal(data, f.Data) {
			t.Errorf("%s was not written: %v", f.Name, err)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != len(s.Context()) {
		t.Errorf("%d files written, the context has %d (%v)", len(entries), len(s.Context()), err)
	}
	if err := s.WriteContext(dir); err == nil {
		t.Error("existing files were written over")
	}
}

// What COPY takes from the context must be in it.
func TestContextComplete(t *testing.T) {
	for _, name := range HarnessNames() {
		s := Spec{Base: DefaultBase, Harness: harness(t, name)}
		var have []string
		for _, f := range s.Context() {
			have = append(have, f.Name)
		}
		for line := range strings.Lines(string(s.Containerfile())) {
			f := strings.Fields(line)
			if len(f) == 3 && f[0] == "COPY" && !slices.Contains(have, f[1]) {
				t.Errorf("%s: %s copies what is not in the context %v", name, strings.TrimSpace(line), have)
			}
		}
	}
}

func TestHarnesses(t *testing.T) {
	names := HarnessNames()
	if !slices.Contains(names, "pi") || !slices.Contains(names, "shell") {
		t.Errorf("harnesses are %v", names)
	}
	for _, name := range names {
		h := harness(t, name)
		if h.Name != name {
			t.Errorf("%s.json is of harness %q", name, h.Name)
		}
		if h.NPM != nil && !slices.Contains(h.NPM.Bins, h.Command[0]) {
			t.Errorf("%s is started by %q, which it doesn't bring", name, h.Command[0])
		}
		if len(h.Unprompted) > 0 && h.Unprompted[0] != h.Command[0] {
			t.Errorf("%s has two programs: %q and %q", name, h.Command[0], h.Unprompted[0])
		}
		for _, k := range h.Keys {
			if p, err := preset.FindService(k.Preset); err != nil || len(p.Core) == 0 {
				t.Errorf("%s: %s opens the preset %q: %v", name, k.Env, k.Preset, err)
			}
		}
		if _, err := preset.FindService(name); err == nil {
			t.Errorf("%s is the name of a service too", name)
		}
	}
	if _, err := FindHarness("../gitconfig"); err == nil {
		t.Error("a path was accepted as a harness's name")
	}
}

func TestParseHarnessBad(t *testing.T) {
	for name, text := range map[string]string{
		"unknown key":   `{"name":"a","command":["a"],"comand":["b"]}`,
		"no command":    `{"name":"a"}`,
		"no name":       `{"command":["a"]}`,
		"no reason":     `{"name":"a","command":["a"],"hosts":{"core":[{"rule":"a.test"}]}}`,
		"key no preset": `{"name":"a","command":["a"],"keys":[{"env":"A","reason":"r"}]}`,
		"not JSON":      `name = "a"`,
	} {
		t.Run(name, func(t *testing.T) {
			if h, err := ParseHarness([]byte(text)); err == nil {
				t.Errorf("accepted as %+v", h)
			}
		})
	}
}

// The shell lines of every recipe parse.
func TestShellParses(t *testing.T) {
	for _, name := range HarnessNames() {
		s := Spec{Base: DefaultBase, Harness: harness(t, name), Packages: []string{"golang-go"}}
		for _, st := range s.stages() {
			for _, in := range st.does {
				script, ok := strings.CutPrefix(in.text, "RUN ")
				if !ok {
					continue
				}
				cmd := exec.Command("sh", "-n")
				cmd.Stdin = strings.NewReader(script + "\n")
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Errorf("%s, %q: %v\n%s\n%s", name, in.title, err, out, script)
				}
			}
		}
	}
}
