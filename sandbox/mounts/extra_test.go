package mounts

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseExtra(t *testing.T) {
	for _, row := range []struct {
		flag string
		want extra
	}{
		{"/a:/b", extra{host: "/a", target: "/b"}},
		{"/a:/b:ro", extra{host: "/a", target: "/b", readOnly: true}},
		{"/a:/b:rw", extra{host: "/a", target: "/b"}},
		{"./a:/b", extra{host: "./a", target: "/b"}},
		{".:/b", extra{host: ".", target: "/b"}},
		{"a/b:/c", extra{host: "a/b", target: "/c"}},
		{`/a\:b:/c\:d:ro`, extra{host: "/a:b", target: "/c:d", readOnly: true}},
		{`/a\\:/b`, extra{host: `/a\`, target: "/b"}},
		{`/a\\\:b:/c`, extra{host: `/a\:b`, target: "/c"}},
		{"/a b,c=\"d\":/e f", extra{host: "/a b,c=\"d\"", target: "/e f"}},
		{"/żółć:/項目", extra{host: "/żółć", target: "/項目"}},
		{"/a:/ro", extra{host: "/a", target: "/ro"}},
	} {
		row.want.flag = row.flag
		got, err := parseExtra(row.flag)
		if err != nil || got != row.want {
			t.Errorf("%q: got %+v, %v, want %+v", row.flag, got, err, row.want)
		}
	}
}

func TestParseExtraRefused(t *testing.T) {
	for flag, reason := range map[string]string{
		"":             "no path in the container",
		"/a":           "no path in the container",
		":/b":          "no path on the host",
		"/a:/b:z":      `unknown option "z"`,
		"/a:/b:ro,z":   `unknown option "ro,z"`,
		"/a:b:/c":      `unknown option "/c"`,
		"/a:b:/c:ro":   "too many colons",
		`/a\b:/c`:      "backslash",
		`/a:/b\`:       "backslash",
		"name:/c":      "volume or a path",
		"~/x:/c":       "replaced the ~",
		"/a\x00:/b":    "control character",
		"/a:/b\n--x":   "control character",
		"/a:/b:ro:/c":  "too many colons",
		`C\:\\x:/c`:    "volume or a path",
		"/a:/b:":       `unknown option ""`,
		"/a:/b:ro:rw:": "too many colons",
	} {
		if e, err := parseExtra(flag); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%q: got %+v, %v, want an error with %q", flag, e, err, reason)
		}
	}
}

func TestTargets(t *testing.T) {
	for _, target := range []string{"/mnt/x", "/data", "/home/agent/.cache/x", "/tmp/x", "/opt/x", "/srv", "/var/lib/x", "/project2", "/project/x", "/etcetera", "/a b"} {
		if r := checkTarget(target); r != nil {
			t.Errorf("%q is refused: %v", target, r)
		}
	}
	for _, target := range []string{
		"", "x", "./x", "/a/../b", "/a/", "//a", "/", "/proc", "/proc/sys", "/sys/fs", "/dev/shm", "/etc", "/etc/hosts", "/etc/aisb/x",
		"/usr", "/usr/libexec/aisb-entry", "/usr/local/bin/x", "/bin/sh", "/lib64/x", "/run", "/run/aisb/x", "/var", "/var/run/x",
		"/tmp", "/home", "/home/agent", "/root", "/project", "/project/.",
	} {
		r := checkTarget(target)
		if r == nil {
			t.Errorf("%q is not refused", target)
		} else if r.Hint == "" {
			t.Errorf("%q: no hint", target)
		}
	}
}

func TestExtraMounts(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, h.Home+"/lib:v1", h.Home+"/.ssh", h.RuntimeDir+"/x", h.Home+"/.local/state/aisb", dir+"/vendor")
	write(t, h.Home+"/file", "")
	symlink(t, h.Home+"/lib:v1", h.Home+"/lib")

	p := plan(t, h, Options{Dir: dir, Extra: []string{h.Home + `/lib\:v1:/mnt/lib:ro`, "../../file:/mnt/file", h.Home + "/lib:/mnt/link", h.Home + "/.ssh:/home/agent/.ssh:ro"}})
	var got []string
	for _, m := range p.Mounts {
		s := strings.TrimPrefix(m.Source, h.Home) + " " + m.Target
		if m.ReadOnly {
			s += " ro"
		}
		if m.Dev == 0 || m.Ino == 0 {
			t.Errorf("%s has no inode", s)
		}
		got = append(got, s)
	}
	want := "/.ssh /home/agent/.ssh ro|/file /mnt/file|/lib:v1 /mnt/lib ro|/lib:v1 /mnt/link|/code/project /project"
	if g := strings.Join(got, "|"); g != want {
		t.Errorf("got  %s\nwant %s", g, want)
	}
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], "can read") || !strings.Contains(p.Warnings[0], "ssh keys") {
		t.Errorf("warnings %q", p.Warnings)
	}

	for extra, reason := range map[string]string{
		h.Home + "/missing:/mnt/x":                "no such file",
		h.RuntimeDir + ":/mnt/x":                  "sockets of your session",
		h.Home + "/.local/state:/mnt/x":           "aisb's own state",
		"/:/mnt/x":                                "whole file system",
		"/proc/sys:/mnt/x":                        "kernel's own",
		"/dev/null:/mnt/x":                        "device",
		h.Home + "/file:/etc/passwd":              "image's",
		h.Home + "/file:" + Project + "/new":      "doesn't exist",
		h.Home + "/file:" + Project + "/vendor":   "one is a directory",
		h.Home + "/.ssh:" + Project + "/../x":     "clean path",
		h.Home + "/file:/mnt/a:" + h.Home + "/.x": "unknown option",
	} {
		wantRefusal(t, h, Options{Dir: dir, Extra: []string{extra}}, reason, "")
	}
	wantRefusal(t, h, Options{Dir: dir, Extra: []string{h.Home + "/file:/mnt/x", h.Home + "/lib:/mnt/x"}}, "used twice", "another path")
	wantRefusal(t, h, Options{Dir: dir, Extra: []string{h.Home + "/lib:/mnt/x", h.Home + "/file:/mnt/x/new"}}, "doesn't exist", "mkdir or touch")
}

// A mount point in the project is looked up without following a link out of it.
func TestMountPointBehindLink(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, h.Home+"/elsewhere/sub", dir+"/vendor")
	symlink(t, h.Home+"/elsewhere", dir+"/out")
	if p := plan(t, h, Options{Dir: dir, Extra: []string{h.Home + "/elsewhere:" + Project + "/vendor"}}); p.Mounts[1].Target != Project+"/vendor" {
		t.Errorf("%+v", p.Mounts)
	}
	wantRefusal(t, h, Options{Dir: dir, Extra: []string{h.Home + "/elsewhere:" + Project + "/out/sub"}}, "symbolic link", "")
}

func listen(t *testing.T, path string) {
	t.Helper()
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

func TestExtraSocket(t *testing.T) {
	h := testHost(t)
	dir := h.Home + "/code/project"
	mkdir(t, h.Home+"/s")
	listen(t, h.Home+"/s/server")
	listen(t, h.Home+"/s/podman.sock")
	extra := h.Home + "/s/server:/mnt/server"
	wantRefusal(t, h, Options{Dir: dir, Extra: []string{extra}}, "listens on the socket", "--allow-sockets")
	p := plan(t, h, Options{Dir: dir, Extra: []string{extra}, AllowSockets: true})
	if len(p.Warnings) != 1 || !strings.Contains(p.Warnings[0], filepath.Join(h.Home, "s/server")) {
		t.Errorf("warnings %q", p.Warnings)
	}
	for _, host := range []string{"/s", "/s/podman.sock"} {
		wantRefusal(t, h, Options{Dir: dir, Extra: []string{h.Home + host + ":/mnt/x"}, AllowSockets: true, AllowDir: true}, "container engine", "no flag")
	}
}
