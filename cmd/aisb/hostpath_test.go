package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/mounts"
)

func TestHostPath(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(root, name) }
	for _, dir := range []string{"p/bin", "p-other/bin", "ro/bin", "usr/bin", "links", "harmless", "single"} {
		if err := os.MkdirAll(at(dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, program := range []string{"p/bin/newuidmap", "single/podman"} {
		if err := os.WriteFile(at(program), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		"into": at("p/bin"), "p/out": at("usr/bin"),
		"links/newuidmap": at("p/bin/newuidmap"), "harmless/mytool": at("p/bin/newuidmap"),
	} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	writable := []mounts.Mount{{Source: at("p")}, {Source: at("single/podman")}, {Source: at("ro"), ReadOnly: true}}
	for name, c := range map[string]struct{ path, want string }{
		"in the project":        {at("p/bin") + ":" + at("usr/bin"), at("usr/bin")},
		"the project":           {at("p") + ":" + at("usr/bin"), at("usr/bin")},
		"by dots":               {at("usr/bin/../../p/bin"), ""},
		"by a link to it":       {at("into"), ""},
		"by a link in it":       {at("p/out"), ""},
		"of a longer name":      {at("p-other/bin"), at("p-other/bin")},
		"a program by a link":   {at("links") + ":" + at("harmless"), at("harmless")},
		"a program by itself":   {at("single") + ":" + at("usr/bin"), at("usr/bin")},
		"read-only":             {at("ro/bin"), at("ro/bin")},
		"relative, empty, none": {"bin::.:" + at("missing") + ":" + at("usr/bin"), at("usr/bin")},
	} {
		if got := hostPath(c.path, writable); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	// What an earlier run left in the project is there too when that is read-only.
	project := []mounts.Mount{{Source: at("ro"), Target: mounts.Project, ReadOnly: true}, {Source: at("usr"), Target: "/mnt", ReadOnly: true}}
	if got := hostPath(at("ro/bin")+":"+at("usr/bin"), written(project)); got != at("usr/bin") || !project[0].ReadOnly {
		t.Errorf("of a project that is read-only this time: %q", got)
	}
}

func TestHostTemp(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Join(root, "p/tmp"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("p/tmp", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	writable := []mounts.Mount{{Source: filepath.Join(root, "p")}}
	for dir, want := range map[string]string{
		root: root, root + "/p/tmp": "", root + "/link": "", root + "/missing": "", "": "", ".": "",
	} {
		if got := hostTemp(dir, writable); got != want {
			t.Errorf("%q: %q, want %q", dir, got, want)
		}
	}
}

func TestStorageConfInTheProject(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "p"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"p/storage.conf", "storage.conf"} {
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("p/storage.conf", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(filepath.Join(root, "p"))
	writable := []mounts.Mount{{Source: filepath.Join(root, "p")}}
	for name, refused := range map[string]bool{
		"": false, root + "/storage.conf": false, root + "/missing": false, "../storage.conf": false,
		root + "/p/storage.conf": true, root + "/p/missing": true, root + "/link": true, "storage.conf": true,
	} {
		if err := checkStorageConf(name, writable); (err != nil) != refused {
			t.Errorf("%q: %v, want refused %v", name, err, refused)
		}
	}
}

// The current directory counts as a project unless the home directory lies in
// it.
func TestMaybeProject(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(root, "home/u")
	if err := os.MkdirAll(filepath.Join(home, "project"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(home, filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]string{
		home + "/project": home + "/project", root + "/link/project": home + "/project",
		home: "", root: "", root + "/link": "", "/": "", root + "/gone": "",
	} {
		got := ""
		for _, m := range maybeProject(func() (string, error) { return dir, nil }, root+"/link") {
			got = m.Source
		}
		if got != want {
			t.Errorf("in %s: %q, want %q", dir, got, want)
		}
	}
}

func TestRootIsToldWhichCommand(t *testing.T) {
	want := "aisb image ls needs rootless podman"
	if builtWithCgo {
		want = "this aisb was built with cgo"
	}
	if err := checkUser("aisb image ls", 0); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
