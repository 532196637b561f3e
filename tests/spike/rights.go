//go:build linux

package main

import (
	"errors"
	"fmt"
	"strings"
)

func rightsClaims() []claim {
	return []claim{
		{"d1", "container root with NET_ADMIN installs a ruleset, then a Go program drops all five sets on all of its threads, becomes 1000, and neither it nor its children can touch the ruleset or leave the namespace", claimDrop},
		{"d2", "a first process that is not dumpable hides its environment, descriptors, memory and root directory from the harness, which has the same uid", claimNotDumpable},
		{"d3", "what podman's default seccomp profile and no capabilities still allow (aisb's own filter must close it)", claimLeftOpen},
		{"d4", "without NET_RAW packet sockets are refused, also to container root", claimPacket},
		{"d5", "a raw podman exec is container root with NET_ADMIN, whatever the first process gave up (so it is outside the promise, and aisb exec drops by itself)", claimExec},
	}
}

// dropped starts a box and has its agent give everything up.
func (t *trial) dropped() (*box, error) {
	b, err := t.start(plan{})
	if err != nil {
		return nil, err
	}
	if _, err := t.sh(b, "nft add table inet aisb; nft list tables"); err != nil {
		return nil, err
	}
	_, _, err = b.ask(question{Op: opDrop})
	t.lines = append(t.lines, "  in the container: the first process drops everything and becomes 1000")
	return b, err
}

func claimDrop(t *trial) error {
	b, err := t.dropped()
	if err != nil {
		return err
	}
	a, err := t.sh(b, `cat /proc/1/task/*/status | grep -E '^(Cap|Uid|Groups)' | sort | uniq -c; ls /proc/1/task | wc -l`)
	if err != nil {
		return err
	}
	for line := range strings.Lines(a.Out) {
		if strings.Contains(line, "Cap") && !strings.HasSuffix(strings.TrimSpace(line), "\t0000000000000000") {
			return fmt.Errorf("not empty: %s", line)
		}
	}
	a, err = t.sh(b, `id -u; for c in 'nft list ruleset' 'nft flush ruleset' 'unshare -n true' 'ip link set lo down'; do $c 2>&1 | head -1 && $c 2>/dev/null && echo "$c: DONE"; done; true`)
	if err == nil && strings.Contains(a.Out, "DONE") {
		err = errors.New("something could still be done")
	}
	return err
}

func claimNotDumpable(t *trial) error {
	b, err := t.dropped()
	if err != nil {
		return err
	}
	a, err := t.sh(b, `ls -ld /proc/1/fd; for f in environ fd mem root maps; do (ls /proc/1/$f/ || cat /proc/1/$f) >/dev/null 2>&1 && echo "$f: READ"; done; cat /proc/1/cmdline | tr '\0' ' '`)
	if err == nil && strings.Contains(a.Out, "READ") {
		err = errors.New("something could be read")
	}
	return err
}

func claimLeftOpen(t *trial) error {
	b, err := t.dropped()
	if err != nil {
		return err
	}
	a, _, err := b.ask(question{Op: opTry})
	t.saw("%s", a.Out)
	return err
}

func claimPacket(t *trial) error {
	b, err := t.start(plan{})
	if err != nil {
		return err
	}
	a, err := t.sh(b, `python3 -c '
import socket
for family, kind in ((socket.AF_PACKET, socket.SOCK_RAW), (socket.AF_INET, socket.SOCK_RAW)):
    try: socket.socket(family, kind, 6); print(family.name, "OPEN")
    except OSError as e: print(family.name, e)'`)
	if err == nil && strings.Contains(a.Out, "OPEN") {
		err = errors.New("a raw socket opened")
	}
	return err
}

func claimExec(t *trial) error {
	b, err := t.dropped()
	if err != nil {
		return err
	}
	out, _, err := t.podman("exec", b.name, "/bin/sh", "-c", "id -u; grep -E 'Cap(Eff|Bnd)' /proc/self/status; nft list tables")
	t.saw("%s", out)
	if err == nil && !strings.Contains(out, "table inet aisb") {
		err = errors.New("it can't list the table")
	}
	return err
}
