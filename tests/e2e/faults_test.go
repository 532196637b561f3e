//go:build e2e

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// wantRefusedStart fails the test unless a start ended with a status of the
// fence, one clear line, and without the command having run: it would have made
// the file "ran".
func wantRefusedStart(t *testing.T, dir string, o outcome, status int, part string) {
	t.Helper()
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err == nil {
		t.Error("the command ran")
	}
	o.wantStatus(t, status)
	if n := strings.Count("\n"+o.stderr, "\naisb: error: "); n != 1 {
		t.Errorf("%d lines of error:\n%s", n, o.stderr)
	}
	wantIn(t, "error", o.stderr, "aisb: error: ", part, "aisb: hint: ")
	wantNot(t, "error", o.stderr, "goroutine", "ended after")
}

// Point 4: a ruleset that is not what it must be, or a proof that shows
// something else, is 78, and the command never runs. Each fault is a script that
// the tests' own binary runs as root of the container: before the ruleset is
// installed, then ("applied"), or when it was read back ("verified").
func TestPoint4SpoiledFence(t *testing.T) {
	const readBack = "packet filter"
	for _, tt := range []struct{ name, point, script, part string }{
		{"foreign table beforehand", "before", "nft add table ip foreign", readBack},
		{"foreign table of the bridge", "before", "nft add table bridge foreign", readBack},
		{"foreign table beside it", "applied", "nft add table ip6 foreign", readBack},
		{"table made dormant", "applied", "nft add table inet aisb '{ flags dormant; }'", readBack},
		{"table deleted", "applied", "nft delete table inet aisb", readBack},
		{"everything accepted", "applied", "nft insert rule inet aisb output accept", readBack},
		{"policy accepts", "applied", "nft chain inet aisb output '{ policy accept; }'", readBack},
		{"a chain more", "applied", "nft add chain inet aisb other", readBack},
		{"a set more", "applied", "nft add set inet aisb other '{ type ipv4_addr; }'", readBack},
		{"a rule less", "applied", `nft -a list chain inet aisb output | sed -n 's/.*probe udp-dns".*handle //p' >/run/h
			nft delete rule inet aisb output handle "$(cat /run/h)"`, readBack},
		{"dormant after the read-back", "verified", "nft add table inet aisb '{ flags dormant; }'", "proof of the fence"},
		{"accepted after the read-back", "verified", "nft insert rule inet aisb output accept", "proof of the fence"},
		{"deleted after the read-back", "verified", "nft flush ruleset", "proof of the fence"},
		// The ruleset is whole, but packets don't come by its rules.
		{"probes answered by loopback", "verified", "ip route add local 203.0.113.1 dev lo table local", "tcp-public"},
		{"gate cut off", "verified", "ip route add blackhole 169.254.1.3/32; ip link set lo down", "proof of the fence"},
		{"another gate answers", "told", "", "not this run's gate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			mark := internet.mark()
			dir := faultyProject(t, tt.point, tt.script)
			o := call{dir: dir, bin: faulty}.aisb(t, allowed, sh("touch /project/ran")...)
			wantRefusedStart(t, dir, o, 78, tt.part)
			if events := internet.since(t, mark, "http", "https", "tcp"); len(events) > 0 {
				t.Errorf("reached the internet: %+v", events)
			}
			gone()
		})
	}
}

// faultyProject is a project that tells the tests' own binary what to do wrong.
func faultyProject(t *testing.T, point, script string) string {
	t.Helper()
	dir := project(t)
	faults := filepath.Join(dir, ".aisb-faults")
	// Root of the container reads it: another user, without rights over files.
	for _, d := range []string{dir, faults} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, faults, point, script+"\n")
	return dir
}

// TestFaultsNeedAFault shows that the tests' binary without a fault is a whole
// one, so that the refusals above come from the faults.
func TestFaultsNeedAFault(t *testing.T) {
	o := call{dir: project(t), bin: faulty}.aisb(t, allowed, "true")
	o.wantStatus(t, 0)
	dir := faultyProject(t, "applied", "nft list ruleset >/run/x")
	o = call{dir: dir, bin: faulty}.aisb(t, allowed, "true")
	o.wantStatus(t, 0)
}

// TestShippedBinaryHasNoFaults: the shipped binary does nothing of this.
func TestShippedBinaryHasNoFaults(t *testing.T) {
	for path, want := range map[string]bool{binary: false, faulty: true} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := bytes.Contains(text, []byte(".aisb-faults")); got != want {
			t.Errorf("%s knows faults: %v, want %v", path, got, want)
		}
	}
	o := call{dir: faultyProject(t, "applied", "nft add table ip foreign")}.aisb(t, allowed, "true")
	o.wantStatus(t, 0)
}

// TestAllowUnenforced starts in spite of a spoiled fence, with a warning that
// says what doesn't hold.
func TestAllowUnenforced(t *testing.T) {
	dir := faultyProject(t, "applied", "nft add table ip foreign")
	o := call{dir: dir, bin: faulty}.aisb(t, append([]string{"--allow-unenforced"}, allowed...), sh("touch /project/ran")...)
	o.wantStatus(t, 0)
	wantIn(t, "warnings", o.stderr, "aisb: warning: --allow-unenforced", "packet filter", "fence not proved")
	if _, err := os.Lstat(filepath.Join(dir, "ran")); err != nil {
		t.Error("the command did not run")
	}
}

// wrapped puts a podman in front of the real one that changes the arguments, and
// returns the environment that finds it.
func wrapped(t *testing.T, script string) []string {
	t.Helper()
	dir := project(t)
	path := write(t, dir, "podman", `#!/bin/bash
real=/usr/bin/podman args=()
for a; do
	`+script+`
	args+=("$a")
done
exec "$real" "${args[@]}"
`)
	if err := os.Chmod(path, 0o755); err != nil {
		t.Fatal(err)
	}
	return []string{"PATH=" + dir + ":/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"}
}

// Point 4: without the capability there is no fence: 77. The other statuses are
// of containers that are not what aisb asked for.
func TestPoint4MissingRights(t *testing.T) {
	for _, tt := range []struct {
		name, script, extra string
		flags               []string
		status              int
		part                string
	}{
		{name: "without NET_ADMIN", script: `[ "$a" = --cap-add=NET_ADMIN ] && continue`,
			flags: allowed, status: 77, part: "operation not permitted"},
		{name: "without NET_ADMIN, no network", script: `[ "$a" = --cap-add=NET_ADMIN ] && continue`,
			flags: []string{"--net", "none"}, status: 77, part: "operation not permitted"},
		{name: "without SETUID", script: `[ "$a" = --cap-add=SETUID ] && continue`,
			flags: allowed, status: 78, part: "setresuid"},
		{name: "without SETPCAP", script: `[ "$a" = --cap-add=SETPCAP ] && continue`,
			flags: allowed, status: 78, part: "bounding set"},
		{name: "host's network", script: `[ "$a" = none ] && a=host`, flags: []string{"--net", "none"}, status: 78, part: "not what was asked for"},
		{name: "gateway mapped", script: `a=${a/,--no-map-gw/} a=${a/--map-guest-addr,none/--map-guest-addr,169.254.1.9}`,
			flags: append([]string{"--net-backend", "pasta"}, allowed...), status: 78, part: "pasta"},
		{name: "a volume more", extra: "--volume /usr:/extra:ro", flags: allowed, status: 78, part: "/extra"},
		{name: "a tmpfs more", extra: "--tmpfs /mnt", flags: allowed, status: 78, part: "/mnt"},
		{name: "the project is another directory", script: `a=${a/source=*e2e-*,target=\/project/source=\/usr,target=\/project}`,
			flags: allowed, status: 78, part: "/project"},
		{name: "with a new privilege allowed", script: `[ "$a" = --security-opt=no-new-privileges ] && continue`,
			flags: allowed, status: 78, part: "no_new_privs"},
		// In these, files that the command makes would not be the user's.
		{name: "another user namespace", script: `a=${a/--userns=keep-id:uid=1000,gid=1000/--userns=host}`,
			flags: allowed, status: 78, part: "uid 1000 is not you"},
		{name: "another uid is the user", script: `a=${a/keep-id:uid=1000/keep-id:uid=1001}`,
			flags: allowed, status: 78, part: "uid 1000 is not you"},
		{name: "another gid is the user's", script: `a=${a/gid=1000/gid=1001}`,
			flags: []string{"--net", "none"}, status: 78, part: "gid 1000 is not you"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := wantNothingLeft(t)
			c := call{dir: project(t)}
			if tt.script != "" {
				c.env = wrapped(t, tt.script)
			}
			if tt.extra != "" {
				c.env = append(c.env, "AISB_EXTRA_ARGS="+tt.extra)
			}
			o := c.aisb(t, tt.flags, sh("touch /project/ran")...)
			wantRefusedStart(t, c.dir, o, tt.status, tt.part)
			gone()
		})
	}
}
