//go:build e2e

package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// noRights are the lines of /proc/PID/status of a process that has nothing and
// can gain nothing.
var noRights = map[string]string{
	"CapInh": zeroSet, "CapPrm": zeroSet, "CapEff": zeroSet, "CapBnd": zeroSet, "CapAmb": zeroSet,
	"NoNewPrivs": "1", "Seccomp": "2", "Groups": "",
	"Uid": "1000 1000 1000 1000", "Gid": "1000 1000 1000 1000",
}

const zeroSet = "0000000000000000"

func wantNoRights(t *testing.T, whose, status string) {
	t.Helper()
	for key, want := range noRights {
		if got := field(status, key); got != want {
			t.Errorf("%s: %s is %q, want %q", whose, key, got, want)
		}
	}
}

// Point 3: the command has nothing, and neither has any thread of pid 1 or
// anything that the command starts.
func TestPoint3NobodyHasRights(t *testing.T) {
	o := aisb(t, allowed, sh(`cat /proc/self/status; echo ---; sh -c 'sh -c "cat /proc/self/status"'
		for t in /proc/1/task/*/status; do echo ---; cat $t; done`)...)
	o.wantStatus(t, 0)
	parts := strings.Split(o.stdout, "---\n")
	if len(parts) < 4 { // the command, its grandchild, and a Go program has several threads
		t.Fatalf("%d processes and threads:\n%s", len(parts), o.stdout)
	}
	for i, status := range parts {
		wantNoRights(t, fmt.Sprintf("%s %d", field(status, "Name"), i), status)
	}
	if name := field(parts[2], "Name"); name != "aisb-entry" {
		t.Errorf("pid 1 is %q", name)
	}
}

// Point 3: the tools of an attacker fail.
func TestPoint3ToolsFail(t *testing.T) {
	// One sandbox for all: one for each is slow and shows no more.
	scripts := []string{
		"nft list ruleset", "nft flush ruleset", "nft add table inet other",
		"unshare -n true", "unshare -Urn true", "unshare -Ur true", "unshare -U true", "nsenter -t 1 -n true",
		"ip link add d0 type dummy", "ip addr add 192.0.2.1/24 dev lo", "ip route add default dev lo",
		"mount -t tmpfs none /mnt", "su -c true", "touch /etc/x", "touch /usr/local/bin/x", "apt-get -y install hello",
		"cat /proc/1/environ", "ls /proc/1/fd", "kill -9 1 && sleep 0.2 && false",
	}
	dir := project(t)
	write(t, dir, "tools", strings.Join(scripts, "\n")+"\n")
	o := call{dir: dir}.aisb(t, allowed, sh(`export PATH=$PATH:/usr/sbin:/sbin
		while read -r line; do sh -c "$line" >/dev/null 2>&1 </dev/null && echo "worked: $line"; done <tools
		echo done; curl -sS -o /dev/null -w '%{http_code}\n' http://allowed.test/`)...)
	o.wantStatus(t, 0)
	if o.stdout != "done\n200\n" {
		t.Errorf("got %s", o.stdout)
	}
}

// TestAllowUserNS opens user namespaces. That it opens nothing else is
// TestDoctorAttackCanFail's to see.
func TestAllowUserNS(t *testing.T) {
	o := aisb(t, append([]string{"--allow-userns"}, allowed...), sh("unshare -U true && echo open")...)
	o.wantStatus(t, 0)
	if o.stdout != "open\n" {
		t.Errorf("user namespaces are closed:\n%s", o.stderr)
	}
}
