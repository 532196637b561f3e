package entry

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/aisb-dev/aisb/netpolicy"
	"github.com/aisb-dev/aisb/sandbox/handshake"
	"github.com/aisb-dev/aisb/sandbox/mountinfo"
)

func TestMountsOfPodman(t *testing.T) {
	text, err := os.ReadFile("testdata/podman-5.4.mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	want := []handshake.Mount{
		{Target: "/project"}, {Target: "/home/agent"}, {Target: "/tmp"}, {Target: "/var/tmp"}, {Target: "/run"},
		{Target: "/etc/hosts", ReadOnly: true}, {Target: "/etc/resolv.conf", ReadOnly: true}, {Target: entryPath, ReadOnly: true},
	}
	for name, c := range map[string]struct {
		line, old, new string // line is added, old replaced by new
		wrong          string
	}{
		"as it is":           {},
		"host directory":     {line: `9 8 8:1 /home/dev/.ssh /srv rw - ext4 /dev/sda rw`, wrong: `mount "/srv" (ext4, "/home/dev/.ssh") was not asked for`},
		"odd name":           {line: `9 8 8:1 /a\040b /a\134\011b rw - ext4 /dev/sda rw`, wrong: `mount "/a\\\tb" (ext4, "/a b") was not asked for`},
		"in the project":     {line: `9 8 8:1 /x /project/x rw - ext4 /dev/sda rw`, wrong: `mount "/project/x"`},
		"engine's socket":    {line: `9 8 0:5 /podman/podman.sock /run/podman.sock rw - tmpfs tmpfs rw`, wrong: `mount "/run/podman.sock"`},
		"secrets":            {line: `9 8 0:5 /user/1000/secrets /run/secrets rw - tmpfs tmpfs rw`, wrong: `mount "/run/secrets"`},
		"init":               {line: `9 8 8:1 /usr/bin/catatonit /run/podman-init ro - ext4 /dev/sda rw`, wrong: `mount "/run/podman-init"`},
		"over another":       {line: `9 8 8:1 /x /project rw - ext4 /dev/sda rw`, wrong: `two mounts lie on "/project"`},
		"disk":               {line: `9 8 0:6 /sda /dev/sda rw - devtmpfs devtmpfs rw`, wrong: `mount "/dev/sda"`},
		"disk as null":       {old: "/null /dev/null", new: "/sda /dev/null", wrong: `mount "/dev/null" (devtmpfs, "/sda") was not asked for`},
		"file as null":       {old: "/null /dev/null", new: "/x/null /dev/null", wrong: `mount "/dev/null"`},
		"another hostname":   {old: "/userdata/hostname /etc/hostname", new: "/etc/shadow /etc/hostname", wrong: `mount "/etc/hostname"`},
		"all of proc/sys":    {old: "/sys /proc/sys ro,", new: "/sys /proc/sys rw,", wrong: `mount "/proc/sys"`},
		"something in proc":  {line: `9 8 8:1 /x /proc/self ro - ext4 /dev/sda ro`, wrong: `mount "/proc/self"`},
		"proc of the host":   {old: "/ /proc rw", new: "/1 /proc rw", wrong: `mount "/proc" (proc, "/1")`},
		"tmpfs as proc":      {old: "- proc proc rw\n271", new: "- tmpfs proc rw\n271", wrong: `mount "/proc" (tmpfs, "/")`},
		"rw entrypoint":      {old: entryPath + " ro,", new: entryPath + " rw,", wrong: "is writable"},
		"writable root":      {old: " / / ro,", new: " / / rw,", wrong: "root file system is writable"},
		"no project":         {old: "/project rw", new: "/proc/x rw", wrong: `mount "/proc/x"`},
		"more of the kernel": {line: `9 8 0:86 / /sys/devices/virtual/powercap ro,relatime - tmpfs tmpfs rw,size=0k`},
	} {
		lines := string(text)
		if c.old != "" {
			if strings.Count(lines, c.old) != 1 {
				t.Fatalf("%s: %q is there %d times", name, c.old, strings.Count(lines, c.old))
			}
			lines = strings.Replace(lines, c.old, c.new, 1)
		}
		if c.line != "" {
			lines += c.line + "\n"
		}
		have, err := mountinfo.Parse(lines)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if wrong := compareMounts(have, want); !strings.Contains(wrong, c.wrong) || (wrong == "") != (c.wrong == "") {
			t.Errorf("%s: got %q, want %q", name, wrong, c.wrong)
		}
	}
	have, _ := mountinfo.Parse(string(text))
	if wrong := compareMounts(have, append(want, handshake.Mount{Target: "/more"})); wrong != `mount "/more" is missing` {
		t.Errorf("missing mount: got %q", wrong)
	}
}

func TestIDMaps(t *testing.T) {
	for text, want := range map[string]string{
		"0 1 1000\n1000 0 1\n1001 1001 64536\n": "",
		"999 4294967295 1\n1000 0 4000\n":       "",
		"         0          0 4294967295\n":    "no user namespace",
		"0 100000 1000\n":                       "gid 1000 is not mapped",
		"":                                      "is not mapped",
		"0 x 1\n":                               "malformed gid map",
		"0 1 1000\n1000 0 1\n1001 1001 4294967295\n": "no user namespace",
		"0 1000 1\n1 100000 65536\n":                 "gid 1000 is not you: it is mapped to 100999, not to 0",
		"0 0 1\n1 1 65536\n":                         "gid 1000 is not you: it is mapped to 1000",
		"0 1 1001\n1001 0 1\n1002 1002 64535\n":      "gid 1000 is not you",
	} {
		err := checkIDMap("gid", text, handshake.IDMap{Inside: 1000, Outside: 0})
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func TestJudge(t *testing.T) {
	tcp := netpolicy.Probe{Proto: netpolicy.TCP, To: netip.MustParseAddrPort("203.0.113.1:443")}
	udp := netpolicy.Probe{Proto: netpolicy.UDP, To: netip.MustParseAddrPort("203.0.113.1:53")}
	udp6 := netpolicy.Probe{Proto: netpolicy.UDP, To: netip.MustParseAddrPort("[2001:db8::1]:53")}
	yes := func(netip.Addr) (bool, error) { return true, nil }
	no := func(netip.Addr) (bool, error) { return false, nil }
	broken := func(netip.Addr) (bool, error) { return false, errors.New("broken") }
	for name, c := range map[string]struct {
		probe netpolicy.Probe
		s     sighting
		grown uint64
		reach func(netip.Addr) (bool, error)
		word  string
		error string
	}{
		"refused":               {tcp, sighting{1, unix.ECONNREFUSED, 0, 100}, 1, yes, "refused", ""},
		"refused twice":         {tcp, sighting{2, unix.ECONNREFUSED, 0, 100}, 2, yes, "refused", ""},
		"udp":                   {udp, sighting{1, unix.EPERM, unix.EHOSTUNREACH, 100}, 1, yes, "refused", ""},
		"udp6":                  {udp6, sighting{1, unix.EPERM, unix.EACCES, 100}, 1, yes, "refused", ""},
		"open":                  {tcp, sighting{1, 0, 0, 100}, 0, yes, "", "got through"},
		"open and counted":      {tcp, sighting{1, 0, 0, 100}, 1, yes, "", "got through"},
		"refused by a far host": {tcp, sighting{1, unix.ECONNREFUSED, 0, 100}, 0, yes, "", "its rule counted 0"},
		"someone else's too":    {tcp, sighting{1, unix.ECONNREFUSED, 0, 100}, 2, yes, "", "its rule counted 2"},
		"late":                  {tcp, sighting{3, unix.ECONNREFUSED, 0, 50_001}, 3, yes, "", "not within"},
		"time-out":              {tcp, sighting{1, unix.ETIMEDOUT, 0, 100}, 1, yes, "", "not by the fence's own"},
		"another refusal":       {tcp, sighting{1, unix.EHOSTUNREACH, 0, 100}, 1, yes, "", "not by the fence's own"},
		"udp dropped":           {udp, sighting{1, unix.EPERM, unix.ETIMEDOUT, 100}, 1, yes, "", "not by the fence's own"},
		"udp left":              {udp, sighting{1, 0, unix.EHOSTUNREACH, 100}, 1, yes, "", "not by the fence's own"},
		"udp answered":          {udp, sighting{1, 0, 0, 100}, 0, yes, "", "not by the fence's own"},
		"udp closed port":       {udp, sighting{1, unix.EPERM, unix.ECONNREFUSED, 100}, 1, yes, "", "not by the fence's own"},
		"udp6 as udp":           {udp6, sighting{1, unix.EPERM, unix.EHOSTUNREACH, 100}, 1, yes, "", "not by the fence's own"},
		"no route":              {tcp, sighting{0, unix.ENETUNREACH, 0, 100}, 0, no, "absent", ""},
		"no family":             {tcp, sighting{0, unix.EAFNOSUPPORT, 0, 100}, 0, no, "absent", ""},
		"no address":            {udp, sighting{0, unix.EADDRNOTAVAIL, 0, 100}, 0, no, "absent", ""},
		"a route all the same":  {tcp, sighting{0, unix.ENETUNREACH, 0, 100}, 0, yes, "", "but there is a route"},
		"routes unknown":        {tcp, sighting{0, unix.ENETUNREACH, 0, 100}, 0, broken, "", "read routes: broken"},
		"no socket":             {tcp, sighting{0, unix.EMFILE, 0, 100}, 0, no, "", "nothing could be sent"},
		"counted, not sent":     {tcp, sighting{0, unix.ENETUNREACH, 0, 100}, 1, no, "", "nothing was sent"},
		"nothing at all":        {tcp, sighting{}, 0, no, "", "nothing could be sent"},
	} {
		word, err := judge(c.probe, c.s, c.grown, c.reach)
		if word != c.word || (err == nil) != (c.error == "") || (err != nil && !strings.Contains(err.Error(), c.error)) {
			t.Errorf("%s: got %q, %v; want %q, %q", name, word, err, c.word, c.error)
		}
	}
}

func TestAnswers(t *testing.T) {
	for text, want := range map[string]reply{
		"HTTP/1.1 403 Blocked by aisb: x\r\nX-Aisb-Reason: y\r\nx-aisb-proof:  ab \r\n\r\nbody": {Status: 403, Proof: "ab"},
		"HTTP/1.0 204\r\n\r\n": {Status: 204},
		"HTTP/1.1 200 OK\r\nA: b\r\n\r\nX-Aisb-Proof: in the body\r\n\r\n": {Status: 200},
	} {
		if got, err := parseAnswer(text); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "\r\n\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 abc\r\n\r\n", "220 ftp\r\n\r\n"} {
		if got, err := parseAnswer(text); err == nil {
			t.Errorf("%q: got %+v", text, got)
		}
	}
}

func TestLookPath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"tool": 0o755, "text": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	env := []string{"PATH=/elsewhere", "PATH=/nowhere::.:" + dir}
	for name, want := range map[string]string{
		"tool": filepath.Join(dir, "tool"), "./tool": "./tool",
		"missing": "no such file or directory", "./missing": "no such file or directory", "tool/x": "no such file or directory",
		"/tmp": "is a directory", "text": "permission denied",
	} {
		got, err := lookPath(name, env)
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
	if got, err := lookPath("tool", []string{"PATH=:."}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the current directory was searched: %q, %v", got, err)
	}
}

func TestConfigsThatAreRefused(t *testing.T) {
	gate := netip.MustParseAddrPort("169.254.1.3:3128")
	good := func() handshake.Config {
		return handshake.Config{
			Version: handshake.Version, Argv: []string{"x"}, Dir: "/project", UID: 1000, GID: 1000,
			UserMap: handshake.IDMap{Inside: 1000}, GroupMap: handshake.IDMap{Inside: 1000},
			Env: [][]byte{[]byte("A="), []byte("B=1=2\n\xff")},
			Fence: &handshake.Fence{
				Policy: netpolicy.Spec{Gates: []netip.AddrPort{gate}, Probes: []netpolicy.Probe{{Name: "x"}}},
				Proof:  handshake.Proof{Gate: gate.String(), Key: make([]byte, 32)},
			},
		}
	}
	if err := checkConfig(good()); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*handshake.Config){
		"no command":               func(c *handshake.Config) { c.Argv = nil },
		"holds a zero byte":        func(c *handshake.Config) { c.Argv = []string{"x", "a\x00b"} },
		"is not absolute":          func(c *handshake.Config) { c.Dir = "project" },
		"is root's":                func(c *handshake.Config) { c.GID = 0 },
		"was to be kept":           func(c *handshake.Config) { c.InsecureKeepRoot = true },
		"are to be the user's":     func(c *handshake.Config) { c.GroupMap.Inside++ },
		`variable ""`:              func(c *handshake.Config) { c.Env[0] = []byte("=x") },
		`variable "NAME"`:          func(c *handshake.Config) { c.Env[0] = []byte("NAME") },
		`variable "A"`:             func(c *handshake.Config) { c.Env[0] = []byte("A=secret\x00") },
		`gate "" of the proof`:     func(c *handshake.Config) { c.Fence.Proof.Gate = "" },
		"of the proof is not open": func(c *handshake.Config) { c.Fence.Proof.Gate = "169.254.1.3:3129" },
		"key of the proof":         func(c *handshake.Config) { c.Fence.Proof.Key = nil },
		"without probes":           func(c *handshake.Config) { c.Fence.Policy.Probes = nil },
		"one outside":              func(c *handshake.Config) { c.Fence.Listen = c.Fence.Proof.Gate },
		"not at the proof's":       func(c *handshake.Config) { c.Fence.Policy.Gates, c.Fence.Listen = nil, "127.0.0.1:1" },
		"on loopback":              func(c *handshake.Config) { c.Fence.Policy.Gates, c.Fence.Listen = nil, c.Fence.Proof.Gate },
	} {
		c := good()
		change(&c)
		err := checkConfig(c)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("a value of the environment is in the message: %v", err)
		}
	}
}

func TestRoutes(t *testing.T) {
	route := func(kind byte, bits byte, dst ...byte) []byte {
		msg := make([]byte, unix.SizeofRtMsg)
		msg[1], msg[7] = bits, kind
		if dst == nil {
			return msg
		}
		return append(msg, append([]byte{byte(4 + len(dst)), 0, unix.RTA_DST, 0}, dst...)...)
	}
	to := netip.MustParseAddr("203.0.113.1")
	for name, c := range map[string]struct {
		msg  []byte
		want bool
	}{
		"default":     {route(unix.RTN_UNICAST, 0), true},
		"net":         {route(unix.RTN_UNICAST, 24, 203, 0, 113, 0), true},
		"host":        {route(unix.RTN_LOCAL, 32, 203, 0, 113, 1), true},
		"another net": {route(unix.RTN_UNICAST, 24, 203, 0, 112, 0), false},
		"unreachable": {route(unix.RTN_UNREACHABLE, 0), false},
	} {
		if got, err := covers(c.msg, to); got != c.want || err != nil {
			t.Errorf("%s: got %v, %v", name, got, err)
		}
	}
	for _, msg := range [][]byte{nil, route(unix.RTN_UNICAST, 24, 1, 2), route(unix.RTN_UNICAST, 99, 1, 2, 3, 4)} {
		if _, err := covers(msg, to); err == nil {
			t.Errorf("%x was read as a route", msg)
		}
	}
}
