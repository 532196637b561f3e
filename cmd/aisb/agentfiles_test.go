package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/control"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mounts"
)

// A file that an agent can have written gets it nothing that it doesn't hold itself.
func TestFilesOfTheAgent(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"project/values.env": "A=1\n", "project/names.env": "AISB_TEST_SECRET\n",
		"mine/values.env": "TOKEN=secret\n", "mine/names.env": "AISB_TEST_SECRET\n",
	} {
		path := filepath.Join(base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"project/link.env": "../mine/values.env", "project/up": "../mine", "project/same.env": "values.env", "mine/theirs.env": "../project/names.env",
	} {
		if err := os.Symlink(to, filepath.Join(base, link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("AISB_TEST_SECRET", "x")
	writable := projects([]control.Info{{Name: "starting"}, {Project: handshake.Bytes(base + "/project")}})
	readOnly := []mounts.Mount{{Source: base + "/project", Target: mounts.Project, ReadOnly: true}}
	for name, refused := range map[string]string{
		"project/values.env": "", "project/same.env": "", "mine/values.env": "", "mine/names.env": "",
		"project/names.env": "would pass AISB_TEST_SECRET", "mine/theirs.env": "would pass AISB_TEST_SECRET",
		"project/link.env": "a link out of", "project/up/values.env": "a link out of",
	} {
		path := []string{filepath.Join(base, name)}
		vars, err := namedEnv(path, nil, writable)
		if refused == "" && (err != nil || len(vars) != 1) || refused != "" && (err == nil || !strings.Contains(err.Error(), refused)) {
			t.Errorf("%s: %v, %v", name, vars, err)
		}
		theirs := refused != "" || strings.HasPrefix(name, "project/")
		if got := ruleFileWarnings(path, writable); (len(got) == 1) != theirs {
			t.Errorf("%s as a file of rules: %q", name, got)
		}
		if _, err := namedEnv(path, nil, readOnly); err != nil {
			t.Errorf("%s, read-only: %v", name, err)
		}
	}
}
