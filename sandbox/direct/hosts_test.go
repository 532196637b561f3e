package direct

import (
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const hostsHead = "127.0.0.1\tlocalhost\n"

func line(name, addr string) Line { return Line{netip.MustParseAddr(addr), name} }

// read is the file as hosts(5) has it: name=address, in order.
func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return meaning(t, string(text))
}

func meaning(t *testing.T, text string) string {
	t.Helper()
	var out []string
	for l := range strings.Lines(text) {
		l, _, _ = strings.Cut(l, "#")
		fields := strings.Fields(l)
		if len(fields) == 0 {
			continue
		}
		if _, err := netip.ParseAddr(fields[0]); err != nil || len(fields) != 2 {
			t.Errorf("%q is no line of a hosts file: %v", l, err)
			continue
		}
		out = append(out, fields[1]+"="+fields[0])
	}
	return strings.Join(out, " ")
}

func TestHostsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	h, err := CreateHosts(path, hostsHead)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	first, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	a1, a2, b1 := line("a.test", "93.184.215.14"), line("a.test", "2606:2800::1"), line("b.test", "93.184.215.14")
	for _, step := range []struct {
		lines []Line
		want  string
	}{
		{nil, ""},
		{[]Line{a1, a2}, " a.test=93.184.215.14 a.test=2606:2800::1"},
		{[]Line{a2, b1}, " a.test=2606:2800::1 b.test=93.184.215.14"},
		{[]Line{a1}, " a.test=93.184.215.14"},
		{nil, ""},
		{[]Line{b1, a2, a1}, " a.test=93.184.215.14 a.test=2606:2800::1 b.test=93.184.215.14"},
	} {
		before := read(t, path)
		if err := h.Set(step.lines); err != nil {
			t.Fatal(err)
		}
		for pair := range strings.FieldsSeq(before) {
			if !strings.Contains(read(t, path), pair) {
				t.Errorf("%s went at once", pair)
			}
		}
		if err := h.Set(step.lines); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); got != "localhost=127.0.0.1"+step.want {
			t.Errorf("%v: got %q, want %q", step.lines, got, step.want)
		}
	}
	last, err := os.Stat(path)
	if err != nil || !os.SameFile(first, last) || last.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v: another file, or not for all to read", last, err)
	}
	if want := int64(len(hostsHead+a1.text()+a2.text()+b1.text()) + 3); last.Size() != want {
		t.Errorf("%d bytes, want %d: lines come back to their place", last.Size(), want)
	}
	if _, err := CreateHosts(path, ""); err == nil {
		t.Error("a file of someone else's is taken over")
	}
}

// A name that has another address each time doesn't make the file grow.
func TestHostsFileStaysShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hosts")
	h, err := CreateHosts(path, hostsHead)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	stays := line("stays.test", "9.9.9.9")
	for i := range 1000 {
		now := line("a.test", netip.AddrFrom4([4]byte{93, 184, byte(i >> 8), byte(i)}).String())
		if err := h.Set([]Line{now, stays}); err != nil {
			t.Fatal(err)
		}
		if got := read(t, path); !strings.Contains(got, "a.test="+now.Addr.String()) || !strings.Contains(got, "stays.test=9.9.9.9") || len(strings.Fields(got)) > 4 {
			t.Fatalf("%d: %q", i, got)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 500 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
}

// Whoever reads while it changes, however much before and how much after, sees whole
// lines, and each name that has an address before and after.
func TestHostsFileWhileItChanges(t *testing.T) {
	a1, a2, a3 := line("a.test", "93.184.215.14"), line("a.test", "2606:2800::1"), line("a.test", "9.9.9.9")
	a4, a5, a6 := line("a.test", "9.9.9.4"), line("a.test", "9.9.9.5"), line("a.test", "9.9.9.6")
	states := [][]Line{{a1}, {a2}, {a1}, {a2, a3}, {a3}, {a1}, {a1}, {a2}, {a2}, {a4}, {a5}, {a4, a3}, {a6}}
	for last := range states[1:] {
		for cut := 0; ; cut++ {
			path := filepath.Join(t.TempDir(), "hosts")
			h, err := CreateHosts(path, hostsHead)
			if err != nil {
				t.Fatal(err)
			}
			for _, lines := range states[:last+1] {
				if err := h.Set(lines); err != nil {
					t.Fatal(err)
				}
			}
			reader, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			before := make([]byte, cut)
			_, err = io.ReadFull(reader, before)
			if err == nil {
				err = h.Set(states[last+1])
			}
			after, _ := io.ReadAll(reader)
			reader.Close()
			h.Close()
			if err != nil {
				break // it is no longer than that
			}
			if text := meaning(t, string(before)+string(after)); !strings.Contains(text, "a.test=") || !strings.HasPrefix(text, "localhost=") {
				t.Errorf("from %v to %v, read %d bytes before: %q", states[last], states[last+1], cut, text)
			}
		}
	}
}
