//go:build linux && e2e

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/tests/need"
)

// TestPackages makes the release of this tree for this machine's architecture and
// reads it back with the tools of the distributions. AISB_WRITE_GOLDEN=1 writes
// testdata anew.
func TestPackages(t *testing.T) {
	need.Packages(t)
	top, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	o := options{top: top, out: out, archs: []string{runtime.GOARCH}, formats: allFormats, dirty: true}
	if err := run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	src, err := look(t.Context(), top, os.Getenv("SOURCE_DATE_EPOCH"))
	if err != nil {
		t.Fatal(err)
	}
	p := made{src: src, top: top, base: filepath.Join(out, src.base(runtime.GOARCH))}
	t.Run("sums", p.sums)
	t.Run("deb", p.deb)
	t.Run("rpm", p.rpm)
	t.Run("archive", p.archive)
	t.Run("binary", p.binary)
	t.Run("bom", p.bom)
}

// made is a release to look at.
type made struct {
	src       source
	top, base string // base: the files' path without the format
}

func stdout(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(name, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		t.Fatalf("%s: %v: %s", name, err, exit.Stderr)
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// many are files that come and go with commands and documents: one line each in testdata.
var many = regexp.MustCompile(`(man/man1/aisb-)[a-z-]+(\.1\.gz)|(doc/aisb/docs/|/docs/)[a-z-]+(\.md)`)

// golden compares a listing with testdata/name, without what every commit changes.
func (p made) golden(t *testing.T, name, got string) {
	t.Helper()
	got = strings.NewReplacer(p.src.pkg, "VERSION", strings.TrimPrefix(p.src.name, "v"), "VERSION",
		runtime.GOARCH, "ARCH", "x86_64", "ARCH", "aarch64", "ARCH").Replace(got)
	var lines []string
	for line := range strings.Lines(many.ReplaceAllString(got, "$1$3*$2$4")) {
		if !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	got = strings.Join(lines, "")
	path := filepath.Join("testdata", name)
	if os.Getenv("AISB_WRITE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func (p made) sums(t *testing.T) {
	cmd := exec.Command("sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	cmd.Dir = filepath.Dir(p.base)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(cmd.Dir, "SHA256SUMS"))
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range append(slices.Clone(allFormats), "cdx.json") {
		if !bytes.Contains(text, []byte("  "+filepath.Base(p.base)+"."+format+"\n")) {
			t.Errorf("no sum of %s", format)
		}
	}
}

// listing is tar's, without sizes and times.
var listing = regexp.MustCompile(`(?m)^(\S+ \S+) +\d+ (\S+ \S+) `)

func (p made) deb(t *testing.T) {
	fields := stdout(t, "dpkg-deb", "--field", p.base+".deb")
	fields = regexp.MustCompile(`(?m)^Installed-Size: \d+$`).ReplaceAllString(fields, "Installed-Size: N")
	p.golden(t, "deb.fields", fields)
	t.Setenv("TZ", "UTC")
	list := stdout(t, "dpkg-deb", "--contents", p.base+".deb")
	p.times(t, list)
	p.golden(t, "deb.files", listing.ReplaceAllString(list, "$1 "))
	if got := stdout(t, "dpkg-deb", "--info", p.base+".deb"); regexp.MustCompile(`(pre|post)(inst|rm)`).MatchString(got) {
		t.Errorf("an installation runs scripts: %s", got)
	}
}

// times wants every line of tar's to have the commit's time.
func (p made) times(t *testing.T, list string) {
	t.Helper()
	at := p.src.time.Format("2006-01-02 15:04")
	for line := range strings.Lines(list) {
		if m := listing.FindStringSubmatch(line); m == nil || m[2] != at {
			t.Errorf("not of %s: %s", at, line)
		}
	}
}

func (p made) rpm(t *testing.T) {
	query := func(format string) string {
		return stdout(t, "rpm", "--query", "--nodigest", "--nosignature", "--queryformat", format, "--package", p.base+".rpm")
	}
	p.golden(t, "rpm.fields", query(`Name: %{NAME}\nVersion: %{VERSION}\nRelease: %{RELEASE}\nArch: %{ARCH}\nLicense: %{LICENSE}\nURL: %{URL}\nBuildHost: %{BUILDHOST}\n`+
		`Summary: %{SUMMARY}\n[Recommends: %{RECOMMENDNAME} %{RECOMMENDFLAGS:depflags} %{RECOMMENDVERSION}\n][Script: %{PREIN}%{POSTIN}%{PREUN}%{POSTUN}\n]`))
	p.golden(t, "rpm.files", query(`[%{FILEMODES:perms} %{FILEUSERNAME}/%{FILEGROUPNAME} %{FILENAMES}\n]`))
	for at := range strings.FieldsSeq(query(`%{BUILDTIME}\n[%{FILEMTIMES}\n]`)) {
		if want := p.src.time.Unix(); at != strconv.FormatInt(want, 10) {
			t.Fatalf("a time of %s, want %d", at, want)
		}
	}
	if out, err := exec.Command("rpm", "--checksig", "--nosignature", p.base+".rpm").CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func (p made) archive(t *testing.T) {
	var lines strings.Builder
	for head := range p.entries(t) {
		if head.Uid != 0 || head.Gid != 0 || head.Uname != "" || !head.ModTime.Equal(p.src.time) {
			t.Errorf("%s: %d, %d, %q, %v", head.Name, head.Uid, head.Gid, head.Uname, head.ModTime)
		}
		lines.WriteString(head.FileInfo().Mode().String() + " " + head.Name + "\n")
	}
	p.golden(t, "archive.files", lines.String())
}

// entries are the archive's, each with its text.
func (p made) entries(t *testing.T) func(func(*tar.Header, []byte) bool) {
	t.Helper()
	f, err := os.Open(p.base + ".tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if !z.ModTime.IsZero() || z.Name != "" {
		t.Errorf("gzip's header names %v, %q", z.ModTime, z.Name)
	}
	r := tar.NewReader(z)
	return func(yield func(*tar.Header, []byte) bool) {
		for {
			head, err := r.Next()
			if errors.Is(err, io.EOF) {
				return
			}
			text, rerr := io.ReadAll(r)
			if err := errors.Join(err, rerr); err != nil {
				t.Fatal(err)
			}
			if !yield(head, text) {
				return
			}
		}
	}
}

// binary is the same in all three, says what it is, needs nothing, and names no place
// of this machine.
func (p made) binary(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "aisb")
	var binary []byte
	for head, text := range p.entries(t) {
		if filepath.Base(head.Name) == "aisb" && head.Typeflag == tar.TypeReg {
			binary = text
		}
	}
	if err := os.WriteFile(path, binary, 0o755); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("dpkg-deb", "--extract", p.base+".deb", dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	packaged, err := os.ReadFile(filepath.Join(dir, "usr/bin/aisb"))
	if err != nil || !bytes.Equal(packaged, binary) {
		t.Errorf("the package's is another: %v", err)
	}
	if got, want := strings.SplitAfterN(stdout(t, path, "version"), "\n", 3), "aisb "+p.src.name+" ("; !strings.HasPrefix(got[0], want) || got[1] != "commit "+p.src.revision()+"\n" {
		t.Errorf("got %q, want %q and the commit %q", got, want, p.src.revision())
	}
	places := strings.Fields(stdout(t, "go", "env", "GOROOT", "GOPATH", "GOMODCACHE", "GOCACHE"))
	for _, place := range append(places, p.top, filepath.Dir(filepath.Dir(p.base)), os.TempDir()+"/aisb-release") {
		if bytes.Contains(binary, []byte(place)) {
			t.Errorf("it names %s", place)
		}
	}
	program, err := elf.NewFile(bytes.NewReader(binary))
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range program.Progs {
		if part.Type == elf.PT_INTERP {
			t.Error("it isn't static")
		}
	}
}

// bom lists each module that is linked in, and no other.
func (p made) bom(t *testing.T) {
	text, err := os.ReadFile(p.base + ".cdx.json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		BOMFormat string `json:"bomFormat"`
		Metadata  struct {
			Component struct{ Name, Version string }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if main := list.Metadata.Component; list.BOMFormat != "CycloneDX" || main.Name != "github.com/aisb-dev/aisb" || main.Version != p.src.name {
		t.Errorf("%s of %+v", list.BOMFormat, main)
	}
	var got []string
	for _, c := range list.Components {
		got = append(got, c.Name+" "+c.Version)
	}
	b := build{src: p.src, top: p.top}
	linked, err := output(b.command(t.Context(), []string{"GOOS=linux"}, goTool(),
		"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/aisb"))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"std " + runtime.Version()}
	for line := range strings.Lines(string(linked)) {
		want = append(want, strings.TrimSpace(line))
	}
	slices.Sort(want)
	slices.Sort(got)
	if want = slices.Compact(want); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestOrder: dpkg and rpm put versions in the order in which they come to be.
func TestOrder(t *testing.T) {
	need.Packages(t)
	names := []string{"0123456789ab", "v0.9.0-rc.1", "v0.9.0-rc.1-2-g0123456789ab", "v0.9.0-rc.2", "v0.9.0",
		"v0.9.0-7-g0123456789ab", "v0.9.1", "v0.10.0"}
	older := ""
	for _, name := range names {
		version, err := packageVersion(name, someTime)
		if err != nil {
			t.Fatal(err)
		}
		if older != "" && exec.Command("dpkg", "--compare-versions", older, "lt", version).Run() != nil {
			t.Errorf("dpkg: %s is not before %s", older, version)
		}
		if older != "" && strings.TrimSpace(stdout(t, "rpm", "--eval", "%{lua:print(rpm.vercmp('"+older+"', '"+version+"'))}")) != "-1" {
			t.Errorf("rpm: %s is not before %s", older, version)
		}
		older = version
	}
}
