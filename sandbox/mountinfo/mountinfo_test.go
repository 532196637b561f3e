package mountinfo

import (
	"reflect"
	"testing"
)

func TestParse(t *testing.T) {
	got, err := Parse("36 35 98:0 /a\\040b /mnt\\134 rw,noatime shared:1 master:2 - ext4 /dev/root rw,errors=continue\n" +
		"9 8 0:5 / /x ro - tmpfs tmpfs\n")
	want := []Mount{
		{Device: "98:0", Root: "/a b", Target: `/mnt\`, Options: []string{"rw", "noatime"}, Type: "ext4", Super: []string{"rw", "errors=continue"}},
		{Device: "0:5", Root: "/", Target: "/x", Options: []string{"ro"}, Type: "tmpfs"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	if got[0].ReadOnly() || !got[1].ReadOnly() || !(Mount{Super: []string{"ro"}}).ReadOnly() {
		t.Error("read-only is not told")
	}
	for _, line := range []string{"x", "1 2 3:4 / /\n", "1 2 3:4 / / rw - \n"} {
		if _, err := Parse(line); err == nil {
			t.Errorf("%q was read as a mount", line)
		}
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{
		"/a": "/a", `/a\040b`: "/a b", `/\134040`: `/\040`, `/a\`: `/a\`, `/a\04`: `/a\04`, `/\011\012`: "/\t\n", `/\999`: `/\999`,
	} {
		if got := unescape(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

// The kernel's own list holds the root of this process.
func TestRead(t *testing.T) {
	mounts, err := Read()
	if err != nil || len(mounts) == 0 {
		t.Fatalf("%d mounts, %v", len(mounts), err)
	}
}
