//go:build linux

package main

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

var someTime = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func TestPackageVersion(t *testing.T) {
	for _, r := range []struct{ name, want string }{
		{"v1.2.3", "1.2.3"},
		{"v1.2.3-dirty", "1.2.3+dirty"},
		{"v1.2.3-rc.1", "1.2.3~rc.1"},
		{"v1.2.3-5-g0123456789ab", "1.2.3+5.g0123456789ab"},
		{"v1.2.3-rc.1-5-g0123456789ab-dirty", "1.2.3~rc.1+5.g0123456789ab+dirty"},
		{"0123456789ab", "0~20260304050607.0123456789ab"},
		{"0123456789ab-dirty", "0~20260304050607.0123456789ab+dirty"},
		{"v1.2", ""},
		{"1.2.3", ""},
		{"v1.2.3_4", ""},
		{"devel", ""},
	} {
		got, err := packageVersion(r.name, someTime)
		if got != r.want || (err != nil) != (r.want == "") {
			t.Errorf("%s: got %q, %v, want %q", r.name, got, err, r.want)
		}
	}
}

func TestParse(t *testing.T) {
	both := options{top: ".", out: "dist", archs: allArchs, formats: allFormats}
	one := options{top: ".", out: "x", archs: []string{"arm64"}, formats: []string{"rpm", "deb"}, dirty: true}
	for _, r := range []struct {
		args string
		want *options
	}{
		{"", &both},
		{"--out x --arch arm64 --format rpm,deb --dirty", &one},
		{"--arch riscv64", nil},
		{"--format zip", nil},
		{"--format=", nil},
	} {
		got, err := parse(strings.Fields(r.args))
		if (err != nil) != (r.want == nil) || r.want != nil && !reflect.DeepEqual(got, *r.want) {
			t.Errorf("%q: got %+v, %v, want %+v", r.args, got, err, r.want)
		}
	}
}

func TestEnviron(t *testing.T) {
	got := environ([]string{"PATH=/bin", "GOFLAGS=-tags=faults", "GOAMD64=v3", "TZ=Asia/Tokyo", "GOEXPERIMENT=x", "GOPROXY=off", "CGO_ENABLED=1"}, "GOARCH=arm64")
	want := []string{"PATH=/bin", "GOPROXY=off", "CGO_ENABLED=0", "GOFLAGS=-mod=readonly", "GOWORK=off", "GOAMD64=v1", "GOARM64=v8.0", "TZ=UTC", "GOARCH=arm64"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The manual pages have the commit's month, as it was in Greenwich: not that of whoever
// makes the release, later or elsewhere.
func TestPagesHaveTheCommitsMonth(t *testing.T) {
	t.Setenv("TZ", "Pacific/Kiritimati") // 14 hours ahead
	b := build{top: "../..", stage: t.TempDir()}
	b.src.time = time.Date(2001, 2, 28, 23, 59, 59, 0, time.UTC)
	pages, err := b.pages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range pages {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := gzip.NewReader(file)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(text)
		if want := `"Feb 2001" "aisb" "aisb"`; err != nil || !strings.Contains(string(page), want) {
			t.Errorf("%s: %v, not %s in %.100q", name, err, want, page)
		}
		file.Close()
	}
}

// What is on the disk but its content doesn't get into an archive: modes, times, the
// order of a directory.
func TestArchiveHoldsNothingOfTheMachine(t *testing.T) {
	made := map[string]bool{}
	for _, mode := range []os.FileMode{0o600, 0o644} {
		dir := t.TempDir()
		var files []file
		for _, name := range []string{"b", "a"} {
			path := filepath.Join(dir, name)
			if err := os.WriteFile(path, []byte("text of "+name), mode); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, time.Now(), time.Unix(int64(mode), 0)); err != nil {
				t.Fatal(err)
			}
			files = append(files, file{from: path, tar: "sub/" + name, mode: 0o644})
		}
		if mode == 0o600 {
			slices.Reverse(files)
		}
		to := filepath.Join(dir, "x.tar.gz")
		if err := writeArchive(to, "base", files, someTime); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		made[string(text)] = true
		if err := writeArchive(to, "base", files, someTime); err == nil {
			t.Error("an archive was written over another")
		}
	}
	if len(made) != 1 {
		t.Error("two archives of the same files differ")
	}
}

func TestSettle(t *testing.T) {
	const list = `{"metadata":{"tools":{"components":[{"name":"tool","hashes":[1]}]}},"components":[{"name":"a<b","hashes":[2]}]}`
	got, err := settle([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(got); strings.Count(text, "hashes") != 1 || !strings.Contains(text, `"a<b"`) {
		t.Errorf("got %s", text)
	}
	if _, err := settle([]byte("[]")); err == nil {
		t.Error("a list is no document")
	}
}

func TestSerial(t *testing.T) {
	var sum [32]byte
	for i := range sum {
		sum[i] = 0xff
	}
	if got, want := serial(sum), "ffffffff-ffff-8fff-bfff-ffffffffffff"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestCollect(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a/LICENSE.md", "free\n")
	write("a/NOTICE", "of somebody\n")
	write("a/licensing.go", "package a\n")
	write("b/NOTICE", "of nobody\n")
	modules := map[string]string{"example.com/a v1": filepath.Join(dir, "a")}
	got, err := collect(modules)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"\nexample.com/a v1\n", "\n--- LICENSE.md\n\nfree\n", "\n--- NOTICE\n\nof somebody\n"} {
		if !bytes.Contains(got, []byte(part)) {
			t.Errorf("without %q:\n%s", part, got)
		}
	}
	if bytes.Contains(got, []byte("package a")) {
		t.Errorf("with what is no license:\n%s", got)
	}
	modules["example.com/b v1"] = filepath.Join(dir, "b")
	if _, err := collect(modules); err == nil || !strings.Contains(err.Error(), "example.com/b v1") {
		t.Errorf("a module without a license: %v", err)
	}
}

// Both packagers find a file where their distributions look for it.
func TestPlace(t *testing.T) {
	files := layout("top", "stage", []string{"stage/man/aisb.1.gz"}, []string{"top/docs/a.md"})
	for format, want := range map[string][]string{
		"deb": {"/usr/share/doc/aisb/copyright", "/usr/share/zsh/vendor-completions/_aisb", "/usr/share/man/man1/aisb.1.gz"},
		"rpm": {"/usr/share/licenses/aisb/LICENSE", "/usr/share/zsh/site-functions/_aisb", "/usr/share/doc/aisb/docs/a.md"},
	} {
		for _, place := range want {
			if !slices.ContainsFunc(files, func(f file) bool { return f.place(format) == place }) {
				t.Errorf("%s: nothing goes to %s", format, place)
			}
		}
	}
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.tar] || f.tar == "" || f.mode != 0o644 {
			t.Errorf("%+v: no name of its own, or another mode", f)
		}
		seen[f.tar] = true
	}
}
