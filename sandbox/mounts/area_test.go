package mounts

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

func area(t *testing.T, path string, ro bool) Area {
	t.Helper()
	list, err := Areas([]Mount{{Source: path, ReadOnly: ro}})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	return list[0]
}

func TestAreasMeet(t *testing.T) {
	base := t.TempDir()
	mkdir(t, base+"/a/sub/deep", base+"/a b", base+"/b")
	write(t, base+"/b/file", "")
	for _, row := range []struct {
		one, two     string
		oneRO, twoRO bool
		want         bool
	}{
		{one: "/a", two: "/a", want: true},
		{one: "/a", two: "/a/sub/deep", want: true},
		{one: "/a", two: "/a", twoRO: true, want: true},
		{one: "/a", two: "/a/sub", oneRO: true, want: true},
		{one: "/a", two: "/a", oneRO: true, twoRO: true},
		{one: "/a", two: "/b"},
		{one: "/a", two: "/a b"}, // the name begins alike
		{one: "/a/sub", two: "/b/file"},
		{one: "/b", two: "/b/file", want: true},
		{one: "/b/file", two: "/b/file", want: true},
	} {
		one, two := area(t, base+row.one, row.oneRO), area(t, base+row.two, row.twoRO)
		if one.Meets(two) != row.want || two.Meets(one) != row.want {
			t.Errorf("%+v: got %v and %v", row, one.Meets(two), two.Meets(one))
		}
	}
}

// What was written down by a run still tells when the host has renamed the
// directory since.
func TestAreaOfRenamed(t *testing.T) {
	base := t.TempDir()
	mkdir(t, base+"/a/sub")
	text, err := json.Marshal(area(t, base+"/a", false))
	if err != nil {
		t.Fatal(err)
	}
	var before Area
	if err := json.Unmarshal(text, &before); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(base+"/a", base+"/b"); err != nil {
		t.Fatal(err)
	}
	mkdir(t, base+"/a")
	if !before.Meets(area(t, base+"/b/sub", false)) {
		t.Error("the renamed directory is taken for another one")
	}
}

// A bind mount shows a directory without those above it: by inode only its
// place in the file system tells that the two meet.
func TestAreaBehindBindMount(t *testing.T) {
	mountNamespaces(t)
	base := t.TempDir()
	mkdir(t, base+"/a/sub/deep", base+"/bound")
	call := unshare("/bin/sh", "-euc", `mount --bind "$1/a/sub" "$1/bound"; exec /proc/self/fd/0 -test.run='^TestAreaInside$' -test.v`, "sh", base)
	cmd := exec.Command(call[0], call[1:]...)
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd.Stdin = self
	cmd.Env = append(os.Environ(), insideArea+"="+base)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "3 pairs") {
		t.Errorf("%v\n%s", err, out)
	}
}

const insideArea = "AISB_TEST_AREA"

// TestAreaInside is the part of TestAreaBehindBindMount that runs behind the mount.
func TestAreaInside(t *testing.T) {
	base := os.Getenv(insideArea)
	if base == "" {
		return
	}
	n := 0
	for pair, want := range map[[2]string]bool{
		{"/a", "/bound/deep"}:          true,
		{"/a/sub/deep", "/bound"}:      true,
		{"/a/sub/deep", "/bound/../a"}: true,
	} {
		one, two := area(t, base+pair[0], false), area(t, filepath.Clean(base+pair[1]), false)
		if one.Meets(two) != want || two.Meets(one) != want {
			t.Errorf("%v: %+v %+v", pair, one, two)
		}
		n++
	}
	fmt.Println(n, "pairs")
}

func TestLocate(t *testing.T) {
	list := []mountinfo.Mount{
		{Device: "8:1", Root: "/", Target: "/"},
		{Device: "8:2", Root: "/vol", Target: "/home"},
		{Device: "0:9", Root: "/", Target: "/home/u/hidden"},
		{Device: "8:1", Root: "/data/x", Target: "/home/u/hidden"}, // over the one before
	}
	for path, want := range map[string]string{
		"/":                  "8:1 /",
		"/etc":               "8:1 /etc",
		"/home":              "8:2 /vol",
		"/homes":             "8:1 /homes",
		"/home/u":            "8:2 /vol/u",
		"/home/u/hidden":     "8:1 /data/x",
		"/home/u/hidden/sub": "8:1 /data/x/sub",
	} {
		device, root := locate(list, path)
		if got := device + " " + root; got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

// Who may only read a directory can still write to a FIFO in it.
func TestPipesJoin(t *testing.T) {
	h := testHost(t)
	base := h.Home + "/code/project"
	mkdir(t, base+"/sub", h.Home+"/alone")
	fifo(t, base+"/sub/pipe")
	meet := func(dir, extra string) bool {
		t.Helper()
		p := plan(t, h, Options{Dir: dir, ReadOnly: true, Extra: []string{extra + ":/mnt/x:ro"}})
		areas, err := Areas(p.Mounts)
		if err != nil || len(areas) != 2 {
			t.Fatal(areas, err)
		}
		return areas[0].Meets(areas[0]) // of /mnt/x
	}
	for _, extra := range []string{base, base + "/sub/pipe"} {
		if !meet(h.Home+"/alone", extra) {
			t.Errorf("%s: two who read it don't meet", extra)
		}
	}
	if meet(base, h.Home+"/alone") {
		t.Error("two who read a directory without a FIFO meet")
	}
}
