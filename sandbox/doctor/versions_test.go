package doctor

import (
	"os"
	"path/filepath"
	"testing"
)

// TestVersions: each program's word for itself, and none for what isn't there or
// isn't named by an absolute path.
func TestVersions(t *testing.T) {
	dir := t.TempDir()
	for name, script := range map[string]string{
		"podman": "#!/bin/sh\necho podman version 5.4.2\n",
		"pasta":  "#!/bin/sh\n[ -t 1 ] && printf 'pasta 0.0~git20250503.587980c-2\\nCopyright\\n'\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	want := map[string]Version{
		"podman": {Name: "podman", Text: "5.4.2"},
		"crun":   {Name: "crun", Err: "not found"},
		"pasta":  {Name: "pasta", Text: "0.0~git20250503.587980c-2"},
	}
	for _, v := range Versions(t.Context(), "/nonexistent:"+dir) {
		if v.Name == "kernel" {
			if v.Text == "" {
				t.Error("the kernel has no version")
			}
			continue
		}
		if v != want[v.Name] {
			t.Errorf("got %+v, want %+v", v, want[v.Name])
		}
	}
	for _, v := range Versions(t.Context(), ".") {
		if v.Name != "kernel" && v.Err != "not found" {
			t.Errorf("%+v was found by a relative path", v)
		}
	}
}
