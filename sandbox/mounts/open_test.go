package mounts

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Once the user's path is resolved no link is followed, whoever puts one there.
func TestSwappedForLink(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, h.Home+"/.ssh", dir+"/sub")
	var p Plan
	defer p.Close()
	if _, err := p.openReal(dir + "/sub"); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ swap, open string }{{dir + "/sub", dir + "/sub"}, {dir, dir + "/sub"}, {h.Home + "/code", dir + "/sub"}} {
		if err := os.Rename(row.swap, row.swap+".away"); err != nil {
			t.Fatal(err)
		}
		symlink(t, row.swap+".away", row.swap)
		_, err := p.openReal(row.open)
		if r, ok := err.(*Refusal); !ok || !strings.Contains(r.Reason, "a symbolic link appeared") {
			t.Errorf("%s is a link: %v", row.swap, err)
		}
		if err := os.Remove(row.swap); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(row.swap+".away", row.swap); err != nil {
			t.Fatal(err)
		}
	}
}

// The plan holds what it opened, so a replacement can't have its inode number.
func TestReplacementHasAnotherInode(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	p := plan(t, h, Options{Dir: dir})
	for range 50 { // file systems give freed numbers out again
		if err := os.Remove(dir); err != nil {
			t.Fatal(err)
		}
		mkdir(t, dir)
		if s := mustOpen(t, dir); s.ino == p.Mounts[0].Ino {
			t.Fatal("the replacement has the inode number of the original")
		}
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

func TestReadBeneath(t *testing.T) {
	base := t.TempDir()
	write(t, base+"/in/file", "text")
	write(t, base+"/outside", "secret")
	symlink(t, "file", base+"/in/link")
	symlink(t, "../outside", base+"/in/out")
	dir, err := os.Open(base + "/in")
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if b, err := readBeneath(dir, "file", 4); err != nil || string(b) != "text" {
		t.Errorf("got %q, %v", b, err)
	}
	for _, rel := range []string{"link", "out", "../outside", ".", "missing"} {
		if b, err := readBeneath(dir, rel, 100); err == nil {
			t.Errorf("%s: read %q", rel, b)
		}
	}
	if b, err := readBeneath(dir, "file", 3); err == nil {
		t.Errorf("read %q beyond the limit", b)
	}
}

func BenchmarkMake(b *testing.B) {
	home := b.TempDir()
	dir := home + "/project"
	if err := os.Mkdir(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	h := HostFrom(func(name string) string {
		if name == "HOME" {
			return home
		}
		return ""
	}, os.Getuid())
	for _, row := range []struct {
		name  string
		files []string
	}{
		{"empty", nil},
		{"repository", []string{".git/HEAD", ".git/objects/x", ".git/refs/x", ".git/config", ".git/hooks/a", ".vscode/a", "src/a", ".envrc"}},
	} {
		b.Run(row.name, func(b *testing.B) {
			for _, name := range row.files {
				if err := errors.Join(os.MkdirAll(filepath.Dir(dir+"/"+name), 0o755), os.WriteFile(dir+"/"+name, nil, 0o600)); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				p, err := Make(h, Options{Dir: dir})
				if err != nil {
					b.Fatal(err)
				}
				p.Close()
			}
		})
	}
}

// podman can't be given such a name, and would mount another.
func TestUnmountableNames(t *testing.T) {
	h := testHost(t)
	dir, lines := h.Home+"/code/caf\xe9", h.Home+"/code/a\r\nb"
	mkdir(t, dir, h.Home+"/code/caf\ufffd", lines)
	for _, row := range []struct {
		o    Options
		want string
	}{
		{Options{Dir: dir}, "not UTF-8"},
		{Options{Dir: h.Home + "/code/project", Extra: []string{dir + ":/mnt/x"}}, "not UTF-8"},
		{Options{Dir: h.Home + "/code/project", Extra: []string{h.Home + "/code/caf\ufffd:/mnt/\xe9"}}, "not UTF-8"},
		{Options{Dir: lines}, "a carriage return and a line feed"},
	} {
		p, err := Make(h, row.o)
		if r, ok := errors.AsType[*Refusal](err); !ok || !strings.Contains(r.Reason, row.want) {
			t.Errorf("%+v: %v", row.o, err)
		}
		if p != nil {
			p.Close()
		}
	}
}
